//! The fuzz target `journal`: files that were damaged anywhere, and records that say anything.

use crate::{Journal, JournalError, Keep};
use ledger::operation::{Adopt, CreateCurrency, Fund, Join};
use ledger::{
    Authority, BASE, Caller, Change, Funding, Intent, Ledger, Mode, NewClient, ProcessIdentity,
    Resource, Snapshot, TicketKind, decide,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

const BOOT: &str = "00000000-0000-4000-8000-000000000001";
const KEEP: Keep = Keep { entries: 6, snapshot_after: 5, ..Keep::DEFAULT };
const FILES: [&str; 3] = ["journal.sqlite", "journal.sqlite-wal", "journal.mark"];

/// Takes inputs whose first byte is even for damage to files, the others for records.
pub fn journal(bytes: &[u8]) {
    match bytes.split_first() {
        Some((kind, rest)) if kind % 2 == 0 => files(rest),
        Some((_, rest)) => records(rest),
        None => {}
    }
}

/// A journal's files as a killed daemon leaves them, and every ledger that there was.
struct Whole {
    files: [Vec<u8>; FILES.len()],
    /// After each entry, from 0.
    states: Vec<Snapshot>,
}

fn whole() -> &'static Whole {
    static WHOLE: OnceLock<Whole> = OnceLock::new();
    WHOLE.get_or_init(|| {
        let folder = Folder::new();
        let (mut journal, recovered) = folder.open().expect("a new journal");
        let mut ledger = recovered.ledger;
        let mut states = vec![ledger.snapshot()];
        for number in 0..16 {
            let mut batch = journal.begin().expect("a batch");
            for intent in intents(number) {
                let authority = Authority::Caller(caller());
                let authorised =
                    decide(&ledger, authority.clone(), intent.clone()).expect("the superuser may");
                let changes = ledger.apply(authorised);
                batch.append(number, &authority, &intent, &changes).expect("it is written");
                states.push(ledger.snapshot());
            }
            batch.commit().expect("it is durable");
            journal.snapshot_if_due(&ledger).expect("a snapshot");
        }
        let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file of it");
        Whole { files: FILES.map(read), states }
    })
}

fn caller() -> Caller {
    Caller { uid: 0, gid: 0, groups: Vec::new(), process: None }
}

fn intents(number: u64) -> Vec<Intent> {
    let name = format!("c{number}");
    let (owner, group, mode) = (1000, 1000, Mode::PRIVATE);
    let funding = Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount: 7 + number };
    let process = |pid| ProcessIdentity { pid, start_time_ticks: number };
    let client = |pid| NewClient::process(process(pid), 1000, 1000);
    // Ids are given in their order: base has 0.
    let next = ledger::CurrencyId(1 + 2 * number);
    let fund = Fund { holder: next, issuer: BASE, funding: funding.clone() };
    let adopt = Adopt { client: client(100), issuer: next, funding: vec![funding] };
    let join = Join { client: ledger::CurrencyId(next.0 + 1), member: client(200) };
    vec![CreateCurrency { name, owner, group, mode }.into(), fund.into(), adopt.into(), join.into()]
}

/// A folder of its own, which goes with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("allot-fuzz-journal-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self) -> Result<(Journal, crate::Recovered), JournalError> {
        Journal::open_keeping(&self.0, BOOT, 0, 0, KEEP)
    }

    fn content(&self) -> BTreeMap<&'static str, Vec<u8>> {
        let read = |name: &&'static str| Some((*name, std::fs::read(self.0.join(name)).ok()?));
        // SQLite makes an empty `-wal` where there is none.
        FILES.iter().filter_map(read).filter(|(_, bytes)| !bytes.is_empty()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Damages a copy of a journal: each 6 bytes are a way, a place and a value. Whatever is answered must be true, and what a
/// recovery keeps was once so.
fn files(damage: &[u8]) {
    let whole = whole();
    let mut files = whole.files.clone();
    damage.chunks_exact(6).take(32).for_each(|step| damage_one(&mut files, step));
    let folder = Folder::new();
    for (name, bytes) in FILES.iter().zip(&files) {
        std::fs::write(folder.path().join(name), bytes).expect("it is written");
    }
    let mark_is_whole = files[2] == whole.files[2];
    let last = whole.states.len() as u64 - 1;
    let before = folder.content();
    match folder.open() {
        Ok((_, recovered)) => {
            let state = whole.states.get(recovered.sequence as usize);
            assert_eq!(Some(&recovered.ledger.snapshot()), state, "another ledger");
            assert!(recovered.sequence == last || !mark_is_whole, "a tail was lost silently");
        }
        Err(JournalError::Corrupt { forecast, .. } | JournalError::CutShort { forecast, .. }) => {
            assert_eq!(folder.content(), before, "damaged files were changed");
            let report = Journal::recover(folder.path()).expect("it is recovered");
            assert_eq!((report.sequence, report.lost), (forecast.keeps, forecast.loses));
            let (_, recovered) = folder.open().expect("what was recovered is whole");
            let state = whole.states.get(report.sequence.unwrap_or(0) as usize);
            assert_eq!(Some(&recovered.ledger.snapshot()), state, "another ledger");
            let kept = report.sequence.unwrap_or(0) + report.lost;
            assert!(kept == last || !mark_is_whole, "more was lost than it says");
        }
        Err(JournalError::Newer { .. } | JournalError::Foreign { .. }) => {
            assert!(Journal::recover(folder.path()).is_err(), "it is not ours");
            assert_eq!(folder.content(), before, "others' files were changed");
        }
        Err(other) => panic!("{other}"),
    }
}

fn damage_one(files: &mut [Vec<u8>; FILES.len()], step: &[u8]) {
    let [way, high, middle, low, value, count] = step else { return };
    let file = &mut files[usize::from(way % 4).min(2)];
    if file.is_empty() {
        return;
    }
    let at = u32::from_be_bytes([0, *high, *middle, *low]) as usize % file.len();
    let end = file.len().min(at + usize::from(*count) + 1);
    match way / 4 % 6 {
        0 => file[at] = *value,
        1 => file[at] ^= 1 << (value % 8),
        2 => file.truncate(at),
        3 => file[at..end].fill(*value),
        4 => {
            let length = 4096.min(file.len() - at / 4096 * 4096);
            let from = (usize::from(*value) * 4096).min(file.len() - length);
            file.copy_within(from..from + length, at / 4096 * 4096);
        }
        _ => drop(file.drain(at..end)),
    }
}

/// Reads a snapshot and, line by line, changes after it. What is taken is a ledger that can go on: it can be written, read
/// again and operated on.
fn records(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let snapshot = lines.next().and_then(|line| serde_json::from_slice::<Snapshot>(line).ok());
    let Some(mut ledger) = snapshot.and_then(|snapshot| Ledger::restore(snapshot).ok()) else {
        return;
    };
    go_on(&ledger);
    for line in lines {
        let Ok(changes) = serde_json::from_slice::<Vec<Change>>(line) else { return };
        if ledger.replay(changes).is_err() {
            return;
        }
    }
    go_on(&ledger);
}

fn go_on(ledger: &Ledger) {
    let text = serde_json::to_vec(&ledger.snapshot()).expect("it can be written");
    let snapshot: Snapshot = serde_json::from_slice(&text).expect("and read");
    let mut again = Ledger::restore(snapshot).expect("what a ledger says fits");
    assert_eq!(again.snapshot(), ledger.snapshot());
    let clients: Vec<_> = again.clients().map(|(_, id)| id).collect();
    let adopted = intents(1).into_iter().chain(
        clients.into_iter().map(|client| ledger::operation::Release { client, named: true }.into()),
    );
    for intent in adopted {
        if let Ok(authorised) = decide(&again, Authority::Caller(caller()), intent) {
            again.apply(authorised);
        }
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_journals_is_told_or_harmless() {
    replay::replay("journal", 200, journal);
}
