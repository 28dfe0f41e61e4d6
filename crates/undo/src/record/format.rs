//! The layout of a record, as bytes: what is written and how it is read back.
//!
//! ```text
//! header     128 bytes     magic and version, boot, tick of creation, capacity, writer, check; epoch, slots in use
//! processes  capacity × 64 one slot a process or thread, written by plain stores to a mapping
//! log        to the end    one line an entry: check in hexadecimal, a space, JSON
//! ```
//!
//! A reader believes nothing without its check: a slot that was being written and a line that was cut short or
//! changed are as if they were not there. A torn last line is a change that was not made.

use crate::scheduling::SchedulingPolicy;
use identity::ProcessIdentity;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// "allotU" and the version of this layout in the last byte.
const MAGIC: [u8; 8] = *b"allotU\0\x01";
/// Size of the header.
pub(crate) const HEADER_BYTES: usize = 128;
/// Size of a slot.
pub(crate) const SLOT_BYTES: usize = 64;
/// The greatest capacity: with the header, 4 MiB.
pub const MOST_PROCESSES: u32 = 65_534;
/// The greatest size of a log. An entry that does not fit is refused.
pub(crate) const MOST_LOG_BYTES: u64 = 64 << 20;

/// Words of the header that are written once and checked.
pub(crate) const HEADER_WORDS: usize = 8;
/// The word that counts changes of who is in the table.
pub(crate) const EPOCH_WORD: usize = 8;
/// The word that tells from which slot on none was ever used.
pub(crate) const HIGH_WATER_WORD: usize = 9;

/// The process was put in SCHED_IDLE by us at least once.
pub const IDLED: u32 = 1;
/// The process may be stopped because of us.
pub const STOPPED: u32 = 2;

/// The beginning of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The boot that it belongs to.
    pub boot: [u64; 2],
    /// When it was made, in clock ticks since boot: an older process never inherited from one that
    /// we held.
    pub made_ticks: u64,
    /// Number of slots.
    pub capacity: u32,
    /// The enforcer that wrote it, in at most 16 bytes.
    pub writer: String,
}

/// The first bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    Record(Header),
    /// A record in a layout of another version.
    OtherVersion(u8),
    Unknown,
}

impl Header {
    pub(crate) fn words(&self) -> [u64; HEADER_WORDS] {
        let mut writer = [0; 16];
        let length = self.writer.len().min(writer.len());
        writer[..length].copy_from_slice(&self.writer.as_bytes()[..length]);
        let [first, second] = words_of(&writer);
        let mut words = [
            u64::from_le_bytes(MAGIC),
            self.boot[0],
            self.boot[1],
            self.made_ticks,
            u64::from(self.capacity),
            first,
            second,
            0,
        ];
        words[HEADER_WORDS - 1] = u64::from(crc32_of_words(&words[..HEADER_WORDS - 1]));
        words
    }

    /// Where the log begins.
    pub(crate) fn log_start(&self) -> u64 {
        (HEADER_BYTES + self.capacity as usize * SLOT_BYTES) as u64
    }
}

impl Beginning {
    pub fn of(bytes: &[u8]) -> Beginning {
        let Some(words) = bytes.first_chunk::<{ HEADER_WORDS * 8 }>() else {
            return Beginning::Unknown;
        };
        let words: [u64; HEADER_WORDS] = words_of(words);
        let magic = words[0].to_le_bytes();
        let check = u64::from(crc32_of_words(&words[..HEADER_WORDS - 1]));
        let capacity = u32::try_from(words[4]).ok().filter(|it| *it <= MOST_PROCESSES);
        match (capacity, magic == MAGIC && words[HEADER_WORDS - 1] == check) {
            (Some(capacity), true) => Beginning::Record(Header {
                boot: [words[1], words[2]],
                made_ticks: words[3],
                capacity,
                writer: writer_of([words[5], words[6]]),
            }),
            _ if magic[..7] == MAGIC[..7] && magic[7] != MAGIC[7] => {
                Beginning::OtherVersion(magic[7])
            }
            _ => Beginning::Unknown,
        }
    }
}

fn writer_of(words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
}

/// Little-endian words of bytes.
pub(crate) fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    words
}

/// A process before we touch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginalState {
    /// The process, or the thread's process.
    pub process: ProcessIdentity,
    /// Its own scheduling policy.
    pub policy: SchedulingPolicy,
    /// Its nice value.
    pub nice: i32,
    /// Its session.
    pub session: u32,
    /// Its process group.
    pub process_group: u32,
    /// Its real uid.
    pub uid: u32,
}

/// A process or thread in the table, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEntry {
    /// How it was before it was touched.
    pub original: OriginalState,
    /// The id of a thread with a policy of its own.
    pub tid: Option<u32>,
    /// [`IDLED`], [`STOPPED`].
    pub flags: u32,
    /// Whether it is still held; false: released.
    pub live: bool,
}

/// Words of a slot.
pub(crate) const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// Words that identify the process. They are written while the slot is free.
pub(crate) const IDENTITY_WORDS: usize = 4;
/// The word with all that may change, and with the check of the slot: one store changes it from one sound state
/// to the next.
pub(crate) const STATE_WORD: usize = IDENTITY_WORDS;

/// Use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Live = 1,
    Released = 2,
}

/// The part of a slot that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotState {
    pub usage: Use,
    pub flags: u32,
    pub policy: SchedulingPolicy,
}

/// A slot, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotContent {
    Free,
    Entry(ProcessEntry),
    /// It fails its check.
    Unreadable,
}

/// Bit of a packed policy for SCHED_RESET_ON_FORK, which the kernel tells as a greater number.
const RESET_ON_FORK: u64 = 1 << 15;

impl SlotState {
    /// The state word: use in bits 0 to 7, flags in 8 to 15, policy in 16 to 31, check above.
    pub fn word(self, identity: &[u64; IDENTITY_WORDS]) -> u64 {
        let reset = self.policy.0 & libc::SCHED_RESET_ON_FORK != 0;
        let class = u64::from((self.policy.0 & !libc::SCHED_RESET_ON_FORK).cast_unsigned());
        let policy = class & (RESET_ON_FORK - 1) | if reset { RESET_ON_FORK } else { 0 };
        let low = self.usage as u64 | u64::from(self.flags & 0xff) << 8 | policy << 16;
        low | u64::from(slot_check(identity, low)) << 32
    }

    /// The state in a word of ours; `None` where the slot is not in use.
    pub fn unpack(word: u64) -> Option<SlotState> {
        let usage = match word & 0xff {
            1 => Use::Live,
            2 => Use::Released,
            _ => return None,
        };
        let packed = word >> 16;
        let class = (packed & (RESET_ON_FORK - 1)) as i32;
        let reset = if packed & RESET_ON_FORK != 0 { libc::SCHED_RESET_ON_FORK } else { 0 };
        let flags = (word >> 8) as u32 & 0xff;
        Some(SlotState { usage, flags, policy: SchedulingPolicy(class | reset) })
    }

    /// The state in anybody's word; `None` also where the slot fails its check.
    fn checked(word: u64, identity: &[u64; IDENTITY_WORDS]) -> Option<SlotState> {
        let check = slot_check(identity, word & u64::from(u32::MAX));
        SlotState::unpack(word).filter(|_| check == (word >> 32) as u32)
    }
}

fn slot_check(identity: &[u64; IDENTITY_WORDS], low: u64) -> u32 {
    let [a, b, c, d] = *identity;
    crc32_of_words(&[a, b, c, d, low])
}

/// The words that identify the process in a slot.
pub(crate) fn identity_words(original: &OriginalState, tid: u32) -> [u64; IDENTITY_WORDS] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [
        pair(original.process.pid, tid),
        original.process.start_time_ticks,
        pair(original.session, original.process_group),
        pair(original.uid, original.nice.cast_unsigned()),
    ]
}

/// Reads a slot.
pub(crate) fn slot_content(words: &[u64; SLOT_WORDS]) -> SlotContent {
    if words[STATE_WORD] == 0 {
        return SlotContent::Free;
    }
    let identity = words.first_chunk::<IDENTITY_WORDS>().expect("a slot has more words");
    let Some(state) = SlotState::checked(words[STATE_WORD], identity) else {
        return SlotContent::Unreadable;
    };
    let low = |word: u64| word as u32;
    let high = |word: u64| (word >> 32) as u32;
    let tid = high(identity[0]);
    SlotContent::Entry(ProcessEntry {
        original: OriginalState {
            process: ProcessIdentity { pid: low(identity[0]), start_time_ticks: identity[1] },
            policy: state.policy,
            nice: high(identity[3]).cast_signed(),
            session: low(identity[2]),
            process_group: high(identity[2]),
            uid: low(identity[3]),
        },
        tid: (tid != 0).then_some(tid),
        flags: state.flags,
        live: state.usage == Use::Live,
    })
}

/// Something as it was found, in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// The name of the [`Restorer`](crate::Restorer) that gives it back.
    pub undo: String,
    /// The name of what was found, one in its record.
    pub key: String,
    /// How it was found, in the restorer's own form.
    pub was: Value,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    Noted(LogEntry),
    /// The latest entry of this key was given back since: it is of no use any more.
    GivenBack {
        given_back: String,
    },
}

/// A log, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Entries that were not given back, the newest first.
    pub entries: Vec<LogEntry>,
    /// Number of lines that fail their check.
    pub unreadable: usize,
}

impl Line {
    /// The line with its check and its end.
    pub fn bytes(&self) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_string(self)?;
        Ok(format!("{:08x} {json}\n", crc32(json.as_bytes())).into_bytes())
    }

    fn of(bytes: &[u8]) -> Option<Line> {
        let (check, json) = bytes.split_at_checked(9)?;
        let check = std::str::from_utf8(check).ok()?.strip_suffix(' ')?;
        let check = u32::from_str_radix(check, 16).ok()?;
        if check != crc32(json) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

impl Log {
    /// Reads lines. Bytes after the last end of a line are a change that was not made.
    pub fn of(bytes: &[u8]) -> Log {
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        let lines = bytes[..whole].split(|byte| *byte == b'\n');
        let mut log = Log::default();
        let mut given_back: BTreeMap<String, usize> = BTreeMap::new();
        for line in lines.rev().filter(|line| !line.is_empty()) {
            match Line::of(line) {
                None => log.unreadable += 1,
                Some(Line::GivenBack { given_back: key }) => {
                    *given_back.entry(key).or_default() += 1;
                }
                Some(Line::Noted(entry)) => match given_back.get_mut(&entry.key) {
                    Some(number) if *number > 0 => *number -= 1,
                    _ => log.entries.push(entry),
                },
            }
        }
        log
    }
}

/// All that a record tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// Its beginning.
    pub header: Header,
    /// Every slot in use.
    pub processes: Vec<ProcessEntry>,
    /// Its log.
    pub log: Log,
    /// Number of slots that fail their check.
    pub unreadable: usize,
    /// The reason why its log is not here.
    pub trouble: Option<String>,
}

fn crc32_of_words(words: &[u64]) -> u32 {
    !words.iter().fold(!0, |crc, word| crc32_step(crc, &word.to_le_bytes()))
}

/// CRC-32 (IEEE 802.3): detects every change within 32 bits in a row.
fn crc32(bytes: &[u8]) -> u32 {
    !crc32_step(!0, bytes)
}

fn crc32_step(crc: u32, bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(crc, |crc, byte| (crc >> 8) ^ CRC_TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    fn noted(key: &str, was: u32) -> Line {
        Line::Noted(LogEntry { undo: "test".to_owned(), key: key.to_owned(), was: was.into() })
    }

    #[test]
    fn what_was_given_back_counts_no_more_and_a_torn_end_never_did() {
        let given_back = |key: &str| Line::GivenBack { given_back: key.to_owned() };
        let lines = [
            noted("a", 1),
            noted("b", 2),
            noted("a", 3),
            given_back("a"),
            noted("c", 4),
            given_back("x"),
        ];
        let mut bytes: Vec<u8> =
            lines.iter().flat_map(|line| line.bytes().expect("JSON")).collect();
        let torn = noted("d", 5).bytes().expect("JSON");
        bytes.extend(&torn[..torn.len() - 1]);
        let log = Log::of(&bytes);
        let keys: Vec<(&str, u64)> = log
            .entries
            .iter()
            .map(|entry| (&*entry.key, entry.was.as_u64().expect("a number")))
            .collect();
        assert_eq!(keys, [("c", 4), ("b", 2), ("a", 1)], "the newest first");
        assert_eq!(log.unreadable, 0);
        assert_eq!(Log::of(b""), Log::default());
        assert_eq!(Log::of(b"torn"), Log::default());
    }

    #[test]
    fn another_version_is_told_from_what_is_no_record() {
        let header = Header { boot: [1, 2], made_ticks: 3, capacity: 4, writer: "test".to_owned() };
        let mut bytes: Vec<u8> =
            header.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(Beginning::of(&bytes), Beginning::Record(header));
        bytes[7] = 2;
        assert_eq!(Beginning::of(&bytes), Beginning::OtherVersion(2));
        bytes[0] = b'A';
        assert_eq!(Beginning::of(&bytes), Beginning::Unknown);
        assert_eq!(Beginning::of(b"allotU"), Beginning::Unknown);
    }
}
