//! A real file system without room, and one that cannot be written to.

mod common;

use allot_journal::{Journal, JournalError, Keep};
use common::{BOOT, Workload, fingerprint};
use ledger::operation::{CreateCurrency, Place};
use ledger::{
    Authority, Caller, Funding, Intent, Ledger, Mode, NewClient, Placement, Placements, PolicyKey,
    ProcessIdentity, Resource, TicketKind, decide,
};
use std::path::Path;
use std::process::Command;

/// A small tmpfs, gone when dropped.
struct Small(tempfile::TempDir);

impl Small {
    /// `None`, and a note, where this is not allowed.
    fn mount(test: &str) -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "allot-test"])
            .arg(dir.path())
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Small(dir)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
                eprintln!("SKIP {test}: a tmpfs cannot be mounted: {why}");
                None
            }
            Err(error) => {
                eprintln!("SKIP {test}: mount cannot be run: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let mount = Command::new("mount").args(["-o", &options]).arg(self.path()).status();
        assert!(mount.unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let Some(disk) = Small::mount("a_full_disk_loses_nothing") else { return };
    let keep = Keep { entries: 1_000_000, snapshot_after: 1_000_000, ..Keep::DEFAULT };
    let mut work = Workload::new(11);
    let (mut journal, recovered) = Journal::open_keeping(disk.path(), BOOT, 0, 0, keep).unwrap();
    let mut ledger = recovered.ledger;
    let mut snapshots_without_room = 0;
    for round in 0..3 {
        let error = loop {
            let before = ledger.clone();
            if let Err(error) = work.batch(&mut journal, &mut ledger, 7) {
                ledger = before;
                break error;
            }
        };
        assert!(matches!(error, JournalError::Full { .. }), "{error}");
        // Again and again, and a snapshot has no room either.
        for _ in 0..3 {
            let error = work.batch(&mut journal, &mut ledger.clone(), 40).unwrap_err();
            assert!(matches!(error, JournalError::Full { .. }), "{error}");
        }
        match journal.snapshot(&ledger) {
            // A small ledger's may fit where operations were taken back; then it must be whole.
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, JournalError::Full { .. }), "{error}");
                snapshots_without_room += 1;
            }
        }
        let sequence = journal.sequence();
        assert_eq!(journal.entries(sequence - 1, 10).unwrap().len(), 1);
        // Dying here, and starting again on the full disk, is well too.
        if round == 1 {
            drop(journal);
            let opened = Journal::open_keeping(disk.path(), BOOT, 0, 0, keep).unwrap();
            assert_eq!(opened.1.sequence, sequence);
            assert_eq!(fingerprint(&opened.1.ledger), fingerprint(&ledger));
            (journal, ledger) = (opened.0, opened.1.ledger);
        }
        disk.remount(&format!("size={}m", 2 + 2 * round));
        work.batch(&mut journal, &mut ledger, 7).unwrap();
        assert_eq!(journal.sequence(), sequence + 7);
    }
    assert!(snapshots_without_room > 0);
    let sequence = journal.sequence();
    drop(journal);
    let (_, recovered) = Journal::open(disk.path(), BOOT, 0, 0).unwrap();
    assert_eq!(recovered.sequence, sequence);
    assert_eq!(fingerprint(&recovered.ledger), fingerprint(&ledger));
}

#[test]
fn no_room_even_to_begin() {
    let Some(disk) = Small::mount("no_room_even_to_begin") else { return };
    let filler = disk.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 2 << 20]);
    let error = Journal::open(disk.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    std::fs::remove_file(&filler).unwrap();
    let (_, recovered) = Journal::open(disk.path(), BOOT, 0, 0).unwrap();
    assert_eq!(recovered.sequence, 0);
}

#[test]
fn a_read_only_directory_is_told() {
    let Some(disk) = Small::mount("a_read_only_directory_is_told") else { return };
    disk.remount("ro");
    let error = Journal::open(disk.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::NotWritable { .. }), "{error}");
    disk.remount("rw");
    drop(Journal::open(disk.path(), BOOT, 0, 0).unwrap());
    disk.remount("ro");
    let error = Journal::open(disk.path(), BOOT, 0, 0).unwrap_err();
    assert!(matches!(error, JournalError::NotWritable { .. }), "{error}");
    disk.remount("rw");
}

#[test]
fn what_happens_to_processes_has_room_on_a_full_disk() {
    let test = "what_happens_to_processes_has_room_on_a_full_disk";
    let Some(disk) = Small::mount(test) else { return };
    let keep = Keep { fold_bytes: 96 << 10, reserve_bytes: 256 << 10, ..Keep::DEFAULT };
    let (mut journal, recovered) = Journal::open_keeping(disk.path(), BOOT, 0, 0, keep).unwrap();
    let mut ledger = recovered.ledger;
    journal.reserve().expect("there is room");
    // Somebody has all that is left of the disk, and takes what anybody gives back.
    let taken = disk.path().join("taken");
    let take = || drop(std::fs::write(&taken, vec![1; 2 << 20]));
    take();
    let mut done = 0;
    let refused = loop {
        match asked(&mut journal, &mut ledger, 1000, done) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        take();
    };
    assert!(matches!(refused, JournalError::Full { .. }), "{refused}");
    assert!(done > 5 && journal.lacks_room(), "{done} operations fit before");
    // Nobody has taken the reserve: what happens to processes is written, and what the superuser asks for.
    for pid in 0..10 {
        observed(&mut journal, &mut ledger, pid).expect("room");
        take();
        assert!(matches!(
            asked(&mut journal, &mut ledger, 1000, done),
            Err(JournalError::Full { .. })
        ));
    }
    asked(&mut journal, &mut ledger, 0, done).expect("room");
    assert_eq!(journal.sequence(), done + 11);
    // The reserve ends too, and loses nothing.
    let mut pid = 10;
    while observed(&mut journal, &mut ledger, pid).is_ok() {
        pid += 1;
    }
    let sequence = journal.sequence();
    drop(journal);
    std::fs::remove_file(&taken).unwrap();
    let (mut journal, recovered) = Journal::open_keeping(disk.path(), BOOT, 0, 0, keep).unwrap();
    assert_eq!(recovered.sequence, sequence);
    assert!(recovered.ledger == ledger, "what was acknowledged is there");
    asked(&mut journal, &mut ledger, 1000, done).expect("room again");
    assert!(!journal.lacks_room());
}

/// An operation of a user.
fn asked(
    journal: &mut Journal,
    ledger: &mut Ledger,
    uid: u32,
    number: u64,
) -> Result<(), JournalError> {
    let caller = Caller { uid, gid: uid, groups: vec![], process: None };
    let (name, mode) = (format!("c{number}"), Mode::PRIVATE);
    let create = CreateCurrency { name, owner: uid, group: uid, mode };
    write(journal, ledger, Authority::Caller(caller), Intent::from(create))
}

/// A process that comes.
fn observed(journal: &mut Journal, ledger: &mut Ledger, pid: u32) -> Result<(), JournalError> {
    let soft = |amount| Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount };
    let process = ProcessIdentity { pid: pid + 2, start_time_ticks: 1 };
    let level = Placement {
        key: PolicyKey::User(1000),
        name: "user-1000".to_owned(),
        owner: 1000,
        group: 1000,
        mode: Mode::PRIVATE,
        funding: vec![soft(100)],
        limits: Default::default(),
    };
    let placements = Placements { levels: vec![level], process: vec![soft(10)] };
    let client = NewClient::process(process, 1000, 1000);
    write(journal, ledger, Authority::System, Intent::from(Place { client, placements }))
}

fn write(
    journal: &mut Journal,
    ledger: &mut Ledger,
    authority: Authority,
    intent: Intent,
) -> Result<(), JournalError> {
    let authorised = decide(ledger, authority.clone(), intent.clone()).expect("allowed");
    let changes = ledger.apply(authorised);
    let mut put = || {
        let mut batch = journal.begin()?;
        batch.append(1, &authority, &intent, &changes)?;
        batch.commit()
    };
    put().map(drop).inspect_err(|_| ledger.undo(changes.clone()))
}
