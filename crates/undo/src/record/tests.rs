//! Records as files: written, read by another, cut short, corrupted.

use super::*;
use crate::scheduling::SchedulingPolicy;
use identity::ProcessIdentity;
use proptest::prelude::*;

fn original(pid: u32) -> OriginalState {
    OriginalState {
        process: ProcessIdentity { pid, start_time_ticks: 7 },
        policy: SchedulingPolicy(libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK),
        nice: -3,
        session: 1,
        process_group: 2,
        uid: 4,
    }
}

fn entry(key: &str, was: &str) -> LogEntry {
    LogEntry { undo: "test".to_owned(), key: key.to_owned(), was: was.into() }
}

fn options(processes: u32, standing: &[LogEntry]) -> RecordOptions {
    RecordOptions { writer: "test", processes, standing: standing.to_vec() }
}

fn was(contents: &Contents) -> Vec<&str> {
    contents.log.entries.iter().map(|entry| entry.was.as_str().expect("text")).collect()
}

#[test]
fn processes_are_read_through_another_mapping() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("record");
    let mut record = Record::create(Some(&path), &options(MOST_PROCESSES, &[])).expect("a record");
    let table = &mut record.processes;
    let kept = table.register(&original(10)).expect("room");
    let gone = table.register(&original(11)).expect("room");
    table.register_thread(&original(10), 12, SchedulingPolicy::OTHER).expect("room");
    table.set_flag(kept, STOPPED | IDLED);
    table.clear_flag(kept, STOPPED);
    table.set_policy(kept, SchedulingPolicy::OTHER);
    table.release(gone);

    let other = Record::of(record.file().expect("a file")).expect("maps").expect("a record");
    let seen: Vec<ProcessEntry> = other.processes.entries().collect();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].original, OriginalState { policy: SchedulingPolicy::OTHER, ..original(10) });
    assert_eq!((seen[0].flags, seen[0].live, seen[0].tid), (IDLED, true, None));
    assert_eq!((seen[1].original, seen[1].live), (original(11), false));
    assert_eq!((seen[2].tid, seen[2].live), (Some(12), true));
    assert!(other.processes.epoch() >= 4);
    assert_eq!(other.header().writer, "test");
    assert_eq!(std::fs::metadata(&path).expect("a file").len(), 4 << 20);

    drop((record, other));
    let leftover = Leftover::at(&path).expect("it is read").expect("a file");
    let RecordFile::Record(mut later) = leftover.found else { panic!("no record") };
    assert_eq!(later.contents().processes, seen);
    later.forget().expect("it is emptied");
    assert_eq!(later.contents().processes, []);
}

#[test]
fn one_that_holds_no_processes_is_small() {
    let mut record = Record::create(None, &options(0, &[])).expect("a record");
    assert_eq!(record.processes.register(&original(1)), None);
    record.note(entry("a", "1")).expect("noted");
    let length = record.file().expect("a file").metadata().expect("a file").len();
    assert!(length < 256, "{length}");
}

#[test]
fn slots_of_the_released_are_used_again_when_the_table_is_full() {
    let mut record = Record::create(None, &options(8, &[])).expect("a record");
    let table = &mut record.processes;
    let slots: Vec<Slot> =
        (0..8).map(|pid| table.register(&original(pid)).expect("room")).collect();
    assert_eq!(table.register(&original(1)), None);
    table.release(slots[5]);
    assert_eq!(table.register(&original(1)), Some(slots[5]));
    assert_eq!(table.register(&original(2)), None);
}

#[test]
fn a_process_that_began_just_now_did_so_after_the_clock_was_read() {
    let ours = observe::ProcessHandle::open(std::process::id()).expect("ourselves");
    assert!(ours.identity().start_time_ticks <= ticks_since_boot());
}

#[test]
fn the_first_that_is_noted_of_a_key_counts_until_it_is_given_back() {
    let standing = [entry("tree", "standing")];
    let mut record = Record::create(None, &options(0, &standing)).expect("a record");
    let noted = |record: &Record| was(&record.contents()).join(" ");
    record.note(entry("a", "a1")).expect("noted");
    record.note(entry("a", "a2")).expect("known");
    record.note(entry("b", "b1")).expect("noted");
    assert_eq!(noted(&record), "b1 a1 standing");
    assert!(record.knows("a") && !record.is_settled() && !record.knows("tree"));

    record.note_given_back("a").expect("noted");
    assert!(!record.knows("a"));
    record.note(entry("a", "a3")).expect("noted anew");
    record.note_again(entry("a", "a4")).expect("noted anew");
    assert_eq!(noted(&record), "a4 a3 b1 standing");
    record.note_given_back("a").expect("noted");
    assert!(record.knows("a"), "its earlier entry was not given back");
    assert_eq!(noted(&record), "a3 b1 standing");

    let other = Record::of(record.file().expect("a file")).expect("maps").expect("a record");
    assert_eq!((noted(&other).as_str(), other.knows("b")), ("a3 b1 standing", true));
    record.forget().expect("it is emptied");
    assert_eq!(noted(&record), "standing");
    assert!(record.is_settled());
}

#[test]
fn a_log_of_which_nothing_counts_any_more_does_not_grow() {
    let mut record = Record::create(None, &options(0, &[])).expect("a record");
    let length = |record: &Record| record.file.metadata().expect("a file").len();
    let empty = length(&record);
    for _ in 0..3 {
        record.note(entry("a", "1")).expect("noted");
        record.note(entry("b", "1")).expect("noted");
        record.note_given_back("a").expect("noted");
        record.note_given_back("b").expect("noted");
        assert_eq!(length(&record), empty);
    }
}

#[test]
fn a_log_that_is_full_takes_no_entry() {
    let mut record = Record::create(None, &options(0, &[])).expect("a record");
    record.note(entry("a", "1")).expect("noted");
    record.log_end = record.header.log_start() + MOST_LOG_BYTES - 8;
    assert!(record.note(entry("b", "1")).is_err());
    assert!(!record.knows("b"));
}

#[test]
fn what_a_failed_write_left_is_written_over() {
    let mut record = Record::create(None, &options(2, &[])).expect("a record");
    record.note(entry("a", "1")).expect("noted");
    let torn = Line::Noted(entry("torn", &"x".repeat(200))).bytes().expect("JSON");
    record.file.write_all_at(&torn[..150], record.log_end).expect("written");
    let other = Record::of(record.file().expect("a file")).expect("maps").expect("a record");
    for record in [&mut record, &mut { other }] {
        record.note(entry("b", "2")).expect("noted");
        let contents = record.contents();
        assert_eq!((was(&contents).join(" ").as_str(), contents.log.unreadable), ("2 1", 0));
    }
}

#[test]
fn a_file_that_is_no_record_is_not_believed() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("record");
    assert!(Leftover::at(&path).expect("no file").is_none());
    for bytes in [vec![], vec![1; 100], vec![0xff; 5 << 20], b"{}\n{}\n".to_vec()] {
        drop(open_private(&path).expect("a file of our own"));
        std::fs::write(&path, bytes).expect("a file");
        let leftover = Leftover::at(&path).expect("it is read").expect("a file");
        assert!(matches!(leftover.found, RecordFile::Unknown));
    }
}

/// A record of some processes and entries; and all that was ever noted in it.
struct Sample {
    bytes: Vec<u8>,
    contents: Contents,
    noted: Vec<LogEntry>,
}

impl Sample {
    fn new() -> Sample {
        let standing = [entry("tree", "standing")];
        let mut record = Record::create(None, &options(6, &standing)).expect("a record");
        let table = &mut record.processes;
        let slots: Vec<Slot> =
            (90..94).map(|pid| table.register(&original(pid)).expect("room")).collect();
        table.register_thread(&original(90), 95, SchedulingPolicy::OTHER).expect("room");
        table.set_flag(slots[0], IDLED);
        table.set_flag(slots[1], STOPPED);
        table.release(slots[2]);
        let mut noted = standing.to_vec();
        for (key, was) in [("a", "100"), ("b", "200"), ("c", "300"), ("a", "400")] {
            record.note(entry(key, was)).expect("noted");
            noted.push(entry(key, was));
            if key == "b" {
                record.note_given_back("a").expect("noted");
            }
        }
        let bytes = bytes_from(&record.file, 0).expect("it is read");
        Sample { bytes, contents: record.contents(), noted }
    }

    /// Whatever a file of these bytes tells was noted.
    fn check(&self, bytes: &[u8]) {
        let file = rustix::fs::memfd_create("record", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(file.expect("a file"));
        file.write_all_at(bytes, 0).expect("written");
        let RecordFile::Record(record) = RecordFile::in_file(&file).expect("it is read") else {
            return;
        };
        let contents = record.contents();
        assert_eq!(contents.header, self.contents.header);
        let is_noted = |entry: &ProcessEntry| self.contents.processes.contains(entry);
        assert!(contents.processes.iter().all(is_noted), "{:?}", contents.processes);
        let is_noted = |entry: &LogEntry| self.noted.contains(entry);
        assert!(contents.log.entries.iter().all(is_noted), "{:?}", contents.log.entries);
    }
}

#[test]
fn a_record_that_was_cut_short_anywhere_tells_nothing_else() {
    let sample = Sample::new();
    (0..=sample.bytes.len()).for_each(|length| sample.check(&sample.bytes[..length]));
}

#[test]
fn a_record_of_which_any_byte_was_changed_tells_nothing_else() {
    let sample = Sample::new();
    for index in 0..sample.bytes.len() {
        for change in
            [1, 2, 4, 8, 16, 32, 64, 128, 0xff, sample.bytes[index], sample.bytes[index] ^ b'\n']
        {
            let mut bytes = sample.bytes.clone();
            bytes[index] ^= change;
            sample.check(&bytes);
        }
    }
}

proptest! {
    /// Up to 32 bits in a row, and anything behind a header that holds.
    #[test]
    fn a_record_with_changes_anywhere_tells_nothing_else(
        changes in prop::collection::vec((0_usize..4096, prop::array::uniform4(0_u8..)), 1..4),
        cut in 0_usize..4096,
        more in prop::collection::vec(0_u8.., 0..100),
    ) {
        let sample = Sample::new();
        let mut bytes = sample.bytes.clone();
        // Each in a line, slot or header of its own: two can make up for each other with odds of 1 in 2^32.
        for (at, change) in changes {
            for (byte, change) in bytes.iter_mut().skip(at % sample.bytes.len()).zip(change) {
                *byte = change;
            }
        }
        bytes.truncate(sample.bytes.len() - cut % 8 * (cut % 64));
        bytes.extend(more);
        sample.check(&bytes);
    }

    #[test]
    fn whatever_a_file_says_it_is_read_without_a_panic(
        bytes in prop::collection::vec(0_u8.., 0..600),
        beginning in 0..3,
    ) {
        let mut whole = match beginning {
            0 => Vec::new(),
            1 => b"allotR\0\x01".to_vec(),
            _ => b"{\"allot_cgroups\":2,\"boot\":[1,2]}\n".to_vec(),
        };
        whole.extend(bytes);
        let file = rustix::fs::memfd_create("record", rustix::fs::MemfdFlags::CLOEXEC);
        let file = File::from(file.expect("a file"));
        file.write_all_at(&whole, 0).expect("written");
        prop_assert!(!matches!(RecordFile::in_file(&file).expect("it is read"), RecordFile::Record(_)));
    }
}
