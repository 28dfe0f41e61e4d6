//! What was written is what is read back, and two never write.

mod common;

use allot_journal::{Entry, Journal, JournalError, Keep};
use common::{BOOT, Workload, fingerprint, seed};
use ledger::operation::Exit;
use ledger::{Authority, BASE, Intent, Ledger};

const SMALL: Keep = Keep { entries: 60, snapshot_after: 25, ..Keep::DEFAULT };

#[test]
fn random_histories_come_back_whole() {
    let seed = seed("random_histories_come_back_whole");
    for round in 0..8 {
        let mut work = Workload::new(seed + round);
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::new(0, 0);
        let mut history: Vec<Entry> = Vec::new();
        let mut snapshots = 0;
        for _ in 0..6 {
            let (mut journal, recovered) =
                Journal::open_keeping(dir.path(), BOOT, 0, 0, SMALL).unwrap();
            assert_eq!(fingerprint(&recovered.ledger), fingerprint(&ledger));
            assert_eq!(recovered.sequence, history.len() as u64);
            assert!(recovered.same_boot);
            ledger = recovered.ledger;
            for _ in 0..10 {
                let before = ledger.clone();
                let mut batch = journal.begin().unwrap();
                let mut entries = Vec::new();
                for _ in 0..1 + work.below(12) {
                    let at_unix_ms = work.below(usize::MAX) as u64;
                    let done = work.step(&mut ledger);
                    let sequence = batch
                        .append(at_unix_ms, &done.authority, &done.intent, &done.changes)
                        .unwrap();
                    let common::Done { authority, intent, changes } = done;
                    entries.push(Entry { sequence, at_unix_ms, authority, intent, changes });
                }
                if work.below(4) == 0 {
                    drop(batch);
                    ledger = before;
                } else {
                    let last = entries.last().unwrap().sequence;
                    assert_eq!(batch.commit().unwrap(), last);
                    history.extend(entries);
                }
                assert_eq!(journal.sequence(), history.len() as u64);
                snapshots += usize::from(journal.snapshot_if_due(&ledger).unwrap());
                let kept = journal.entries(0, usize::MAX).unwrap();
                let oldest = journal.oldest() as usize - 1;
                assert!(history.len() - oldest >= history.len().min(60), "too few kept");
                assert_eq!(kept, history[oldest..]);
            }
        }
        assert!(snapshots > 0, "no snapshot was ever due");
        let middle = history.len() as u64 - 5;
        let (journal, recovered) = Journal::open_keeping(dir.path(), BOOT, 0, 0, SMALL).unwrap();
        assert!(recovered.replayed < recovered.sequence);
        assert_eq!(journal.entries(middle, 3).unwrap(), history[middle as usize..][..3]);
        drop(journal);
        let checked = Journal::check(dir.path()).unwrap();
        assert_eq!(checked.sequence, history.len() as u64);
    }
}

/// Equal in everything, the version too: without a snapshot the same writes led to both.
#[test]
fn without_snapshots_the_ledger_is_equal() {
    let seed = seed("without_snapshots_the_ledger_is_equal");
    let mut work = Workload::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, mut recovered) = Journal::open(dir.path(), BOOT, 7, 8).unwrap();
    assert_eq!(recovered.ledger.currency(BASE).unwrap().record.owner, 7);
    assert_eq!(recovered.ledger.currency(BASE).unwrap().record.group, 8);
    work.batch(&mut journal, &mut recovered.ledger, 300).unwrap();
    drop(journal);
    let (_journal, again) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    assert_eq!(again.replayed, 300);
    // Restoring the first snapshot writes base once, as making the ledger did.
    assert_eq!(again.ledger, recovered.ledger);
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    for refused in [
        Journal::open(dir.path(), BOOT, 0, 0).map(drop).unwrap_err(),
        Journal::check(dir.path()).map(drop).unwrap_err(),
        Journal::recover(dir.path()).map(drop).unwrap_err(),
    ] {
        let JournalError::InUse { file } = &refused else { panic!("{refused}") };
        assert!(file.starts_with(dir.path()));
    }
    drop(journal);
    Journal::open(dir.path(), BOOT, 0, 0).unwrap();
}

#[test]
fn a_new_boot_is_told_until_the_first_batch() {
    let dir = tempfile::tempdir().unwrap();
    let other = "00000000-0000-4000-8000-000000000002";
    let mut work = Workload::new(1);
    let open = |boot| Journal::open(dir.path(), boot, 0, 0).unwrap();
    let (mut journal, mut recovered) = open(BOOT);
    work.batch(&mut journal, &mut recovered.ledger, 200).unwrap();
    let clients: Vec<_> = recovered.ledger.processes().map(|(process, _)| process).collect();
    assert!(!clients.is_empty());
    drop(journal);
    assert!(open(BOOT).1.same_boot);
    // Dying before the first batch of the new boot must not make its clients seem alive.
    assert!(!open(other).1.same_boot);
    let (mut journal, mut recovered) = open(other);
    assert!(!recovered.same_boot);
    journal.snapshot(&recovered.ledger).unwrap();
    drop(journal);
    assert!(!open(other).1.same_boot);
    let (mut journal, _) = open(other);
    let mut batch = journal.begin().unwrap();
    for process in clients {
        let (authority, intent) =
            (Authority::System, Intent::from(Exit { member: process.into() }));
        let allowed = ledger::decide(&recovered.ledger, authority.clone(), intent.clone());
        let changes = recovered.ledger.apply(allowed.unwrap());
        batch.append(0, &authority, &intent, &changes).unwrap();
    }
    batch.commit().unwrap();
    drop(journal);
    assert!(open(other).1.same_boot);
    assert!(!open(BOOT).1.same_boot);
}
