//! Leftovers at a path, given back by restorers.

use super::*;
use crate::record::RecordOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Keeps what it is told to give back.
struct Keeper {
    name: &'static str,
    fails: bool,
    keys: Mutex<Vec<String>>,
}

impl Keeper {
    fn new(name: &'static str) -> Keeper {
        Keeper { name, fails: false, keys: Mutex::default() }
    }

    fn keys(&self) -> Vec<String> {
        std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Restorer for Keeper {
    fn name(&self) -> &'static str {
        self.name
    }

    fn restore(&self, entries: &[LogEntry], restored: &mut Restored) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.extend(entries.iter().map(|entry| entry.key.clone()));
        restored.count("entries", entries.len());
        if self.fails {
            restored.failed.push("it is stuck".to_owned());
        }
    }
}

fn entry(undo: &str, key: &str) -> LogEntry {
    LogEntry { undo: undo.to_owned(), key: key.to_owned(), was: true.into() }
}

fn options() -> RecordOptions {
    RecordOptions { writer: "test", processes: 0, standing: Vec::new() }
}

/// A folder, and a record in it of entries of two enforcers.
fn leftover() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("record");
    let mut record = Record::create(Some(&path), &options()).expect("a record");
    for (undo, key) in [("one", "a"), ("two", "b"), ("one", "c"), ("one", "d")] {
        record.note(entry(undo, key)).expect("noted");
    }
    record.note_given_back("c").expect("noted");
    (folder, path)
}

#[test]
fn each_gives_back_its_own_the_newest_first() {
    let (_folder, path) = leftover();
    let (one, two) = (Keeper::new("one"), Keeper::new("two"));
    let restored = restore_leftovers(&path, &[&one, &two]).expect("it is restored");
    assert_eq!((one.keys(), two.keys()), (vec!["d".into(), "a".into()], vec!["b".into()]));
    assert_eq!(restored.to_string(), "3 entries");
    assert_eq!((restored.number_of("entries"), restored.number_of("others")), (3, 0));
    assert!(!path.exists());
    assert_eq!(restore_leftovers(&path, &[]).expect("none is there"), Restored::default());
}

#[test]
fn what_nobody_knows_or_can_give_back_stays_on_record() {
    let (_folder, path) = leftover();
    let mut one = Keeper::new("one");
    let restored = restore_leftovers(&path, &[&one]).expect("it is restored");
    assert!(restored.failed[0].contains("nobody here gives back for `two`"), "{restored:?}");
    one.fails = true;
    let two = Keeper::new("two");
    let restored = restore_leftovers(&path, &[&one, &two]).expect("it is restored");
    assert_eq!(restored.failed, ["it is stuck"]);
    assert!(path.exists(), "the next one tries again");
}

#[test]
fn a_record_that_was_restored_tells_nothing_any_more() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("record");
    let standing = vec![entry("one", "standing")];
    let options = RecordOptions { standing, ..options() };
    let mut record = Record::create(Some(&path), &options).expect("a record");
    record.note(entry("one", "a")).expect("noted");
    let one = Keeper::new("one");
    assert_eq!(record.restore(&[&one]).failed, [""; 0]);
    assert_eq!(one.keys(), ["a", "standing"]);
    record.restore(&[&one]);
    assert_eq!(one.keys(), ["standing"], "what stands is as long as the record is");
}

#[test]
fn damaged_entries_are_left_and_said() {
    let (_folder, path) = leftover();
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    let length = file.metadata().expect("a file").len();
    // In the middle of the log.
    file.write_all_at(b"?", length / 2).expect("written");
    drop(file);
    let (one, two) = (Keeper::new("one"), Keeper::new("two"));
    let restored = restore_leftovers(&path, &[&one, &two]).expect("it is restored");
    assert_eq!(one.keys().len() + two.keys().len(), 2, "one of three is damaged");
    assert!(restored.left[0].contains("1 damaged entries in the record of test"), "{restored:?}");
    assert!(!path.exists());
}

#[test]
fn another_boots_record_is_removed_and_another_versions_refused() {
    let (_folder, path) = leftover();
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    file.write_all_at(&[2], 7).expect("written");
    drop(file);
    let error = restore_leftovers(&path, &[]).expect_err("it is of version 2");
    assert!(error.to_string().contains("run that version once"), "{error}");
    assert!(path.exists());

    let mut options = std::fs::File::options();
    let file = options.write(true).truncate(true).create(true).mode(0o600).open(&path);
    let former = br#"{"allot_cgroups":2,"boot":[1,2],"mount":"/","ours":[],"systemd":false}"#;
    file.expect("a file").write_all_at(former, 0).expect("written");
    let cgroup = Keeper::new("cgroup");
    restore_leftovers(&path, &[&cgroup]).expect("it is of another boot");
    assert!(cgroup.keys().is_empty() && !path.exists());
}
