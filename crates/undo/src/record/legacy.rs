//! Records that a former version left, when it was killed together with its guardian and replaced: a table of
//! processes alone, or a log of cgroups alone, as lines of JSON without a check. Only read.

use super::format::{
    Contents, Header, IDLED, Log, LogEntry, OriginalState, ProcessEntry, STOPPED, words_of,
};
use crate::scheduling::SchedulingPolicy;
use identity::ProcessIdentity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const TABLE_MAGIC: &[u8] = b"allotR\0\x01";
const SLOT_BYTES: usize = 64;
const LIVE: u32 = 1;
const RELEASED: u32 = 2;

/// Reads a record of a former version; `None` where the bytes are none.
pub(super) fn read(bytes: &[u8]) -> Option<Contents> {
    table(bytes).or_else(|| log(bytes))
}

/// A header and slots of 64 bytes each.
fn table(bytes: &[u8]) -> Option<Contents> {
    let mut slots = bytes.chunks_exact(SLOT_BYTES);
    let header = slots.next().filter(|header| header.starts_with(TABLE_MAGIC))?;
    let [_, boot_high, boot_low, made_ticks, _, high_water, ..]: [u64; 8] = words_of(header);
    let used = usize::try_from(high_water & u64::from(u32::MAX)).ok()?;
    let boot = [boot_high, boot_low];
    let processes: Vec<ProcessEntry> = slots.take(used).filter_map(slot).collect();
    let writer = "user-level".to_owned();
    let header = Header { boot, made_ticks, capacity: 0, writer };
    Some(Contents { header, processes, log: Log::default(), unreadable: 0, trouble: None })
}

fn slot(bytes: &[u8]) -> Option<ProcessEntry> {
    let number = |offset: usize| {
        let bytes = bytes.get(offset..offset + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let usage = number(0).filter(|usage| [LIVE, RELEASED].contains(usage))?;
    let [_, start_time_ticks, ..]: [u64; 8] = words_of(bytes);
    Some(ProcessEntry {
        original: OriginalState {
            process: ProcessIdentity { pid: number(4)?, start_time_ticks },
            policy: SchedulingPolicy(number(20)?.cast_signed()),
            nice: number(24)?.cast_signed(),
            session: number(32)?,
            process_group: number(36)?,
            uid: number(40)?,
        },
        tid: number(16).filter(|tid| *tid != 0),
        flags: number(28)? & (IDLED | STOPPED),
        live: usage == LIVE,
    })
}

#[derive(Deserialize)]
struct LogHeader {
    allot_cgroups: u32,
    boot: [u64; 2],
    #[serde(flatten)]
    tree: BTreeMap<String, Value>,
}

/// The version of the log that is read.
const LOG_VERSION: u32 = 2;
/// The end of the kind of a line that says that something was given back.
const GIVEN_BACK: &str = "_given_back";

/// A header, then objects of one field each. A half line at the end is a change that was not made.
fn log(bytes: &[u8]) -> Option<Contents> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let header: LogHeader = serde_json::from_slice(lines.next()?).ok()?;
    if header.allot_cgroups != LOG_VERSION {
        return None;
    }
    let mut entries: Vec<LogEntry> = Vec::new();
    let mut given_back: BTreeMap<String, usize> = BTreeMap::new();
    let lines: Vec<(String, Value)> = lines.filter_map(field).collect();
    for (kind, was) in lines.into_iter().rev() {
        let key = key(&kind, &was);
        if kind.ends_with(GIVEN_BACK) {
            *given_back.entry(key).or_default() += 1;
        } else if let Some(number) = given_back.get_mut(&key).filter(|number| **number > 0) {
            *number -= 1;
        } else {
            entries.push(of_cgroups(key, &kind, was));
        }
    }
    let tree = Value::Object(header.tree.into_iter().collect());
    entries.push(of_cgroups("tree".to_owned(), "tree", tree));
    let (boot, writer) = (header.boot, "cgroup".to_owned());
    let header = Header { boot, made_ticks: 0, capacity: 0, writer };
    let log = Log { entries, unreadable: 0 };
    Some(Contents { header, processes: Vec::new(), log, unreadable: 0, trouble: None })
}

fn of_cgroups(key: String, kind: &str, was: Value) -> LogEntry {
    let was = Value::Object([(kind.to_owned(), was)].into_iter().collect());
    LogEntry { undo: "cgroup".to_owned(), key, was }
}

/// The name and value of an object's only field.
fn field(line: &[u8]) -> Option<(String, Value)> {
    let fields: BTreeMap<String, Value> = serde_json::from_slice(line).ok()?;
    fields.into_iter().next()
}

/// The same for what was found and the word that it was given back, of which only disks and limits have one.
fn key(kind: &str, was: &Value) -> String {
    let kind = kind.trim_end_matches(GIVEN_BACK);
    let part = |name: &str| was.get(name).map(Value::to_string).unwrap_or_default();
    match kind {
        "disk" => format!("disk {}", part("name")),
        "limit" => format!("limit {} {}", part("number"), part("path")),
        _ => format!("{kind} {was}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both were written by the code of commit 8ffd0d6.
    const TABLE: &[u8] = include_bytes!("legacy_files/table.bin");
    const LOG: &[u8] = include_bytes!("legacy_files/cgroups.jsonl");
    const BOOT: [u64; 2] = [10_394_761_239_908_338_310, 13_213_336_336_031_838_970];

    #[test]
    fn the_former_table_is_read() {
        let contents = read(TABLE).expect("a table");
        assert_eq!((contents.header.boot, contents.header.made_ticks), (BOOT, 301_890));
        let policy = |policy| SchedulingPolicy(policy);
        let original = |pid: u32, policy| OriginalState {
            process: ProcessIdentity { pid, start_time_ticks: 1000 + u64::from(pid) },
            policy,
            nice: -3,
            session: 11,
            process_group: 12,
            uid: 1000,
        };
        let batch = policy(libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK);
        let own = policy(libc::SCHED_BATCH);
        let entry = |original, tid, flags, live| ProcessEntry { original, tid, flags, live };
        let expected = [
            entry(original(101, policy(0)), None, IDLED, true),
            entry(original(102, batch), None, IDLED | STOPPED, true),
            entry(original(101, own), Some(103), 0, true),
            entry(original(104, policy(0)), None, IDLED, false),
        ];
        assert_eq!(contents.processes, expected);
    }

    #[test]
    fn the_former_log_is_read() {
        let contents = read(LOG).expect("a log");
        assert_eq!(contents.header.boot, BOOT);
        let kinds: Vec<&str> = contents.log.entries.iter().map(kind).collect();
        let newest_first = [
            "process",
            "limit",
            "setting",
            "disk",
            "unit_disks",
            "unit",
            "weight",
            "no_controller",
            "tree",
        ];
        assert_eq!(kinds, newest_first, "one disk and one limit were given back");
        assert!(contents.log.entries.iter().all(|entry| entry.undo == "cgroup"));
        let limit = &contents.log.entries[1].was["limit"];
        assert_eq!(limit["path"], "/sys/fs/cgroup/b/io.max");
        assert_eq!(contents.log.entries[5].was["unit"]["value"], u64::MAX);
        let tree = &contents.log.entries[8].was["tree"];
        assert_eq!(tree["ours"][1], "allot-guests");
        assert_eq!(tree["systemd"], true);
    }

    fn kind(entry: &LogEntry) -> &str {
        let fields = entry.was.as_object().expect("an object");
        fields.keys().next().expect("a kind")
    }

    #[test]
    fn what_was_cut_short_is_read_as_far_as_it_goes() {
        for bytes in [TABLE, LOG] {
            let whole = read(bytes).expect("a record");
            for length in 0..bytes.len() {
                let Some(cut) = read(&bytes[..length]) else { continue };
                let processes = &whole.processes[..cut.processes.len()];
                assert_eq!(cut.processes, processes, "at {length}");
                let known = |entry: &LogEntry| {
                    whole.log.entries.contains(entry) || ["disk", "limit"].contains(&kind(entry))
                };
                assert!(cut.log.entries.iter().all(known), "at {length}");
            }
        }
    }
}
