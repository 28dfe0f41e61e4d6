//! Journals that older versions wrote open unchanged. Each directory under `tests/older` is named
//! after the commit that wrote it, and holds the journal, its entries as JSON, one a line, and the
//! ledger that results.

mod common;

use allot_journal::{Entry, Journal};
use common::BOOT;
use ledger::{Ledger, decide};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The number of kinds of operations that 8ffd0d6 knew.
const OPERATIONS: usize = 29;

/// Entries that are decided otherwise today: loans to others, who have to consent since (39, 40, 56), and a process that
/// became a user's for whom there is no place (58).
const OTHERWISE_TODAY: [u64; 4] = [39, 40, 56, 58];

fn older() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/older/8ffd0d6")
}

fn stored(name: &str) -> String {
    std::fs::read_to_string(older().join(name)).unwrap()
}

fn entries() -> Vec<Entry> {
    stored("entries.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(ledger: &Ledger) -> String {
    serde_json::to_string_pretty(&ledger.snapshot()).unwrap() + "\n"
}

#[test]
fn it_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["journal.sqlite", "journal.mark"] {
        std::fs::copy(older().join(name), dir.path().join(name)).unwrap();
    }
    let checked = Journal::check(dir.path()).unwrap();
    let (journal, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    let entries = journal.entries(0, usize::MAX).unwrap();
    assert_eq!(checked.sequence, entries.len() as u64);
    assert!(0 < recovered.replayed && recovered.replayed < recovered.sequence);
    assert_eq!(json(&recovered.ledger), stored("ledger.json"));
    let lines: Vec<String> = entries.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    assert_eq!(lines.join("\n") + "\n", stored("entries.jsonl"));
}

/// The same intents, decided anew, change the same but for what is decided otherwise today; and are written in the same bytes, which the
/// chained checksum of the mark says.
#[test]
fn what_it_tells_happens_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut journal, recovered) = Journal::open(dir.path(), BOOT, 0, 0).unwrap();
    let mut ledger = recovered.ledger;
    let mut batch = journal.begin().unwrap();
    let mut kinds = BTreeSet::new();
    for entry in entries() {
        let Entry { sequence, at_unix_ms, authority, intent, changes } = entry;
        let tag = serde_json::to_value(&intent).unwrap()["operation"].to_string();
        let mut today = ledger.clone();
        let decided = decide(&today, authority.clone(), intent.clone());
        if decided.map(|allowed| today.apply(allowed)).as_ref() == Ok(&changes) {
            ledger = today;
        } else {
            assert!(OTHERWISE_TODAY.contains(&sequence), "entry {sequence} is decided otherwise");
            ledger.replay(changes.clone()).expect("what was done is done");
        }
        assert_eq!(batch.append(at_unix_ms, &authority, &intent, &changes).unwrap(), sequence);
        kinds.insert(tag);
    }
    batch.commit().unwrap();
    drop(journal);
    assert_eq!(kinds.len(), OPERATIONS, "{kinds:?}");
    assert_eq!(json(&ledger), stored("ledger.json"));
    let mark = std::fs::read_to_string(dir.path().join("journal.mark")).unwrap();
    assert_eq!(mark, stored("journal.mark"));
}
