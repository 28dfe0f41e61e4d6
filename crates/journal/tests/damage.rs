//! Files cut, flipped, deleted, foreign: never a panic, never another ledger than one that was.

mod common;

use allot_journal::{Entry, Journal, JournalError, Keep};
use common::{BOOT, Workload, fingerprint, from_environment, seed};
use ledger::Ledger;
use std::collections::BTreeMap;
use std::path::Path;

const KEEP: Keep = Keep { entries: 150, snapshot_after: 60, ..Keep::DEFAULT };
const MARK: &str = "journal.mark";
const DATABASE: &str = "journal.sqlite";
const WAL: &str = "journal.sqlite-wal";

type Content = BTreeMap<String, Vec<u8>>;

/// A journal's files and everything that was ever true of it.
struct Pristine {
    files: Content,
    /// After each entry, from 0.
    states: Vec<String>,
    kept: Vec<Entry>,
}

/// Two snapshots and entries after them, taken with a `-wal` that holds much, or closed.
fn pristine(seed: u64, hot: bool) -> Pristine {
    let mut work = Workload::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open_keeping(dir.path(), BOOT, 0, 0, KEEP).unwrap();
    let mut ledger = recovered.ledger;
    let mut states = vec![fingerprint(&ledger)];
    for _ in 0..60 {
        let mut batch = journal.begin().unwrap();
        for _ in 0..1 + work.below(8) {
            let done = work.step(&mut ledger);
            batch.append(1, &done.authority, &done.intent, &done.changes).unwrap();
            states.push(fingerprint(&ledger));
        }
        batch.commit().unwrap();
        journal.snapshot_if_due(&ledger).unwrap();
    }
    let kept = journal.entries(0, usize::MAX).unwrap();
    if !hot {
        drop(journal);
        return Pristine { files: content(dir.path()), states, kept };
    }
    let files = content(dir.path());
    assert!(files[WAL].len() > 100_000, "the -wal holds little");
    Pristine { files, states, kept }
}

fn content(dir: &Path) -> Content {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, std::fs::read(file.path()).unwrap())
        })
        // The lock is empty and made by whoever looks.
        .filter(|(name, _)| name != "journal.lock")
        .collect()
}

fn lay_out(files: &Content) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// SQLite makes an empty `-wal` where there is none.
fn without_empty_wal(mut files: Content) -> Content {
    if files.get(WAL).is_some_and(Vec::is_empty) {
        files.remove(WAL);
    }
    files
}

/// Open a damaged journal: whatever is answered must be true, and a recovery must keep a state
/// that was. Answers what happened, for the count.
fn examine(files: &Content, whole: &Pristine, mark_is_whole: bool, what: &str) -> &'static str {
    let dir = lay_out(files);
    let last = whole.states.len() as u64 - 1;
    let error = match Journal::open_keeping(dir.path(), BOOT, 0, 0, KEEP) {
        Ok((journal, recovered)) => {
            let state = fingerprint(&recovered.ledger);
            assert_eq!(state, whole.states[recovered.sequence as usize], "{what}: another ledger");
            assert!(recovered.sequence == last || !mark_is_whole, "{what}: a tail lost silently");
            let kept: Vec<Entry> = journal.entries(0, usize::MAX).unwrap();
            let first = whole.kept[0].sequence;
            for entry in kept.iter().filter(|entry| entry.sequence >= first) {
                assert_eq!(*entry, whole.kept[(entry.sequence - first) as usize], "{what}");
            }
            return "whole";
        }
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(message.contains(dir.path().to_str().unwrap()), "{what}: names no file: {message}");
    let found = without_empty_wal(content(dir.path()));
    assert_eq!(found, without_empty_wal(files.clone()), "{what}: the damaged files were changed");
    let (forecast, kind) = match error {
        JournalError::Corrupt { forecast, .. } => (forecast, "corrupt"),
        JournalError::CutShort { forecast, has, missing, .. } => {
            assert!(missing > 0 && has + missing <= last, "{what}: {message}");
            (forecast, "cut short")
        }
        JournalError::Newer { .. } | JournalError::Foreign { .. } => {
            assert!(Journal::recover(dir.path()).is_err(), "{what}");
            return "not ours";
        }
        other => panic!("{what}: {other}"),
    };
    let report = Journal::recover(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(report.sequence, forecast.keeps, "{what}");
    assert_eq!((&report.moved_to, report.lost), (&forecast.moved_to, forecast.loses), "{what}");
    let moved = without_empty_wal(content(&report.moved_to));
    assert_eq!(moved, without_empty_wal(files.clone()), "{what}: something was not kept aside");
    let (mut journal, recovered) = Journal::open_keeping(dir.path(), BOOT, 0, 0, KEEP).unwrap();
    assert_eq!(recovered.sequence, report.sequence.unwrap_or(0), "{what}");
    let kept = recovered.sequence as usize;
    assert_eq!(fingerprint(&recovered.ledger), whole.states[kept], "{what}: another ledger");
    if mark_is_whole {
        assert_eq!(recovered.sequence + report.lost, last, "{what}: lost more than it says");
    }
    let mut ledger = recovered.ledger;
    Workload::new(1).batch(&mut journal, &mut ledger, 70).unwrap();
    journal.snapshot(&ledger).unwrap();
    drop(journal);
    Journal::check(dir.path()).unwrap();
    match report.sequence {
        None => "nothing left",
        Some(_) => kind,
    }
}

#[test]
fn random_damage_is_told_or_harmless() {
    let seed = seed("random_damage_is_told_or_harmless");
    let trials = from_environment("ALLOT_DAMAGE", 160);
    let mut dice = Workload::new(seed);
    let sources = [pristine(seed, true), pristine(seed ^ 1, false)];
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    for trial in 0..trials {
        let source = &sources[(trial % 2) as usize];
        let mut files = source.files.clone();
        let names: Vec<String> = files.keys().cloned().collect();
        let mut touched = Vec::new();
        for _ in 0..[1, 1, 1, 2][dice.below(4)] {
            let name = &names[dice.below(names.len())];
            let bytes = files.get_mut(name).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let at = dice.below(bytes.len());
            let how = match dice.below(5) {
                0 | 1 => {
                    bytes.truncate(at);
                    "cut"
                }
                2 => {
                    bytes[at] ^= 1 << dice.below(8);
                    "bit flipped"
                }
                3 => {
                    let end = (at + 512).min(bytes.len());
                    bytes[at..end].fill(0);
                    "512 bytes cleared"
                }
                _ => {
                    let (page, from) = (at / 4096 * 4096, dice.below(bytes.len()) / 4096 * 4096);
                    let length = 4096.min(bytes.len() - page).min(bytes.len() - from);
                    bytes.copy_within(from..from + length, page);
                    "page overwritten"
                }
            };
            touched.push(format!("{name} {how} at {at}"));
        }
        let what = format!("trial {trial}: {}", touched.join(", "));
        let mark_is_whole = files.get(MARK) == source.files.get(MARK);
        *outcomes.entry(examine(&files, source, mark_is_whole, &what)).or_default() += 1;
    }
    eprintln!("random_damage_is_told_or_harmless: {outcomes:?}");
    for outcome in ["corrupt", "cut short"] {
        assert!(outcomes.get(outcome).is_some_and(|count| *count > 0), "never {outcome}");
    }
}

#[test]
fn missing_files_are_told() {
    for (hot, name) in [(true, WAL), (true, MARK), (true, DATABASE), (false, DATABASE)] {
        let whole = pristine(3, hot);
        let mut files = whole.files.clone();
        files.remove(name);
        let outcome = examine(&files, &whole, name != MARK, &format!("{name} deleted"));
        assert_ne!(outcome, "whole", "{name}");
    }
}

/// The first bad entry is named, and what comes before it is kept.
/// SQLite would take it for a new one and delete what it finds beside it.
#[test]
fn what_is_beside_an_emptied_database_stays() {
    let whole = pristine(3, true);
    let mut files = whole.files.clone();
    assert!(files.get(WAL).is_some_and(|wal| !wal.is_empty()));
    // That it was kept aside, too, is looked at there.
    for length in [99, 1, 0] {
        files.get_mut(DATABASE).expect("it is there").truncate(length);
        assert_eq!(examine(&files, &whole, true, "emptied"), "nothing left", "{length} bytes");
    }
}

#[test]
fn a_changed_entry_is_named() {
    let whole = pristine(7, false);
    let dir = lay_out(&whole.files);
    let database = rusqlite::Connection::open(dir.path().join(DATABASE)).unwrap();
    let snapshot: u64 =
        database.query_row("SELECT max(sequence) FROM snapshots", [], |row| row.get(0)).unwrap();
    let last = whole.states.len() as u64 - 1;
    let bad = snapshot + 3;
    assert!(bad < last, "no entries after the snapshot");
    let changed =
        "UPDATE entries SET body = CAST(replace(body, '1', '2') AS BLOB) WHERE sequence = ?1";
    assert_eq!(database.execute(changed, [bad]).unwrap(), 1);
    database.close().unwrap();
    let error = Journal::open(dir.path(), BOOT, 0, 0).unwrap_err();
    let JournalError::Corrupt { entry, forecast, .. } = &error else { panic!("{error}") };
    assert_eq!(*entry, Some(bad));
    assert_eq!((forecast.keeps, forecast.loses), (Some(bad - 1), last + 1 - bad));
    assert!(error.to_string().contains(&format!("at entry {bad}")), "{error}");
    let report = Journal::recover(dir.path()).unwrap();
    assert_eq!((report.sequence, report.lost), (Some(bad - 1), last + 1 - bad));
    let (_, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    assert_eq!(fingerprint(&recovered.ledger), whole.states[bad as usize - 1]);
}

/// The newest snapshot may be damaged: the one before it and the entries since are kept.
#[test]
fn a_changed_snapshot_loses_nothing() {
    let whole = pristine(5, false);
    let dir = lay_out(&whole.files);
    let database = rusqlite::Connection::open(dir.path().join(DATABASE)).unwrap();
    let changed = "UPDATE snapshots SET seal = zeroblob(32) \
                   WHERE sequence = (SELECT max(sequence) FROM snapshots)";
    assert_eq!(database.execute(changed, []).unwrap(), 1);
    database.close().unwrap();
    let error = Journal::open(dir.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    let report = Journal::recover(dir.path()).unwrap();
    let last = whole.states.len() as u64 - 1;
    assert_eq!((report.sequence, report.lost), (Some(last), 0));
    let (_, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    assert_eq!(fingerprint(&recovered.ledger), whole.states[last as usize]);
}

/// Wherever a recovery is interrupted, nothing opens until it is run again, and that ends it.
#[test]
fn an_interrupted_recovery_is_resumed() {
    let whole = pristine(6, true);
    let last = whole.states.len() as u64 - 1;
    // How many of the files were moved already.
    for moved in 0..=3 {
        let dir = lay_out(&whole.files);
        let aside = dir.path().join("damaged-1");
        std::fs::create_dir(&aside).unwrap();
        for name in [WAL, MARK, DATABASE].into_iter().take(moved) {
            std::fs::rename(dir.path().join(name), aside.join(name)).unwrap();
        }
        std::fs::write(dir.path().join("journal.recovering"), "1").unwrap();
        if moved == 3 {
            // Half of what is being made.
            std::fs::write(dir.path().join("journal.unfinished"), "half").unwrap();
        }
        let error = Journal::open(dir.path(), BOOT, 0, 0).unwrap_err();
        assert!(matches!(error, JournalError::Interrupted { .. }), "{error}");
        let report = Journal::recover(dir.path()).unwrap();
        assert_eq!((report.sequence, report.lost), (Some(last), 0), "{moved} moved");
        let (_, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
        assert_eq!(fingerprint(&recovered.ledger), whole.states[last as usize]);
    }
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE);
    let missing = dir.path().join("missing");
    let error = Journal::open(&missing, BOOT, 0, 0).unwrap_err();
    assert!(matches!(&error, JournalError::NoDirectory { dir } if *dir == missing), "{error}");
    let error = Journal::check(dir.path()).unwrap_err();
    assert!(error.to_string().contains("no journal here"), "{error}");
    let error = Journal::recover(dir.path()).unwrap_err();
    assert!(error.to_string().contains("no journal here"), "{error}");

    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("CREATE TABLE recipes (name TEXT)").unwrap();
    other.close().unwrap();
    let before = content(dir.path());
    let error = Journal::open(dir.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::Foreign { .. }), "{error}");
    let error = Journal::recover(dir.path()).unwrap_err();
    assert!(matches!(error, JournalError::Foreign { .. }), "{error}");
    assert_eq!(content(dir.path()), before);

    std::fs::remove_file(&file).unwrap();
    drop(Journal::open(dir.path(), BOOT, 0, 0).unwrap());
    let later = rusqlite::Connection::open(&file).unwrap();
    later.pragma_update(None, "user_version", 2).unwrap();
    later.close().unwrap();
    for error in [
        Journal::open(dir.path(), BOOT, 0, 0).map(drop).unwrap_err(),
        Journal::check(dir.path()).map(drop).unwrap_err(),
        Journal::recover(dir.path()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, JournalError::Newer { found: 2, known: 1, .. }), "{error}");
    }

    std::fs::write(&file, "no database at all, but a text").unwrap();
    let error = Journal::open(dir.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt { .. }), "{error}");
    let report = Journal::recover(dir.path()).unwrap();
    assert_eq!(report.sequence, None);
    let (_, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    assert_eq!(fingerprint(&recovered.ledger), fingerprint(&Ledger::new(0, 0)));
}
