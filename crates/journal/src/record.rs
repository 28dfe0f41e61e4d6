//! Entries and how they are chained.

use ledger::{Authority, Change, Intent};
use serde::{Deserialize, Serialize};

/// One operation that was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number: 1 is the first ever, no number is skipped.
    pub sequence: u64,
    /// When, by the daemon's clock, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// On whose authority.
    pub authority: Authority,
    /// What was asked.
    pub intent: Intent,
    /// What it changed.
    pub changes: Vec<Change>,
}

impl Entry {
    /// About how large it is in the journal.
    pub fn bytes(&self) -> u64 {
        let mut count = Count(0);
        let Entry { at_unix_ms, authority, intent, changes, .. } = self;
        let body = BodyRef { at_unix_ms: *at_unix_ms, authority, intent, changes };
        serde_json::to_writer(&mut count, &body).expect("an operation can be written");
        count.0
    }
}

/// Counts what is written.
struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What an entry holds besides its number, as it is written down (JSON, so that a person with
/// `sqlite3` can read it).
#[derive(Serialize)]
pub(crate) struct BodyRef<'a> {
    pub at_unix_ms: u64,
    pub authority: &'a Authority,
    pub intent: &'a Intent,
    pub changes: &'a [Change],
}

#[derive(Deserialize)]
struct RecordBody {
    at_unix_ms: u64,
    authority: Authority,
    intent: Intent,
    changes: Vec<Change>,
}

/// The checksum of an entry together with all before it.
pub(crate) type Chain = [u8; 32];

/// A row of `entries`, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub sequence: u64,
    pub boot: String,
    pub prior: Chain,
    pub chain: Chain,
    pub body: Vec<u8>,
}

impl Row {
    pub(crate) fn new(sequence: u64, boot: &str, prior: Chain, body: Vec<u8>) -> Row {
        let chain = checksum(b'e', &prior, sequence, boot, &body);
        Row { sequence, boot: boot.to_owned(), prior, chain, body }
    }

    /// Whether its checksum is that of its content.
    pub(crate) fn is_whole(&self) -> bool {
        self.chain == checksum(b'e', &self.prior, self.sequence, &self.boot, &self.body)
    }

    pub(crate) fn entry(&self) -> Result<Entry, serde_json::Error> {
        let RecordBody { at_unix_ms, authority, intent, changes } =
            serde_json::from_slice(&self.body)?;
        Ok(Entry { sequence: self.sequence, at_unix_ms, authority, intent, changes })
    }
}

/// A row of `snapshots`, as stored: the ledger after entry `sequence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub sequence: u64,
    pub boot: String,
    /// That entry's.
    pub chain: Chain,
    /// Over this row.
    pub seal: Chain,
    pub body: Vec<u8>,
}

impl Stored {
    pub(crate) fn new(sequence: u64, boot: &str, chain: Chain, body: Vec<u8>) -> Stored {
        let seal = checksum(b's', &chain, sequence, boot, &body);
        Stored { sequence, boot: boot.to_owned(), chain, seal, body }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.seal == checksum(b's', &self.chain, self.sequence, &self.boot, &self.body)
    }

    pub(crate) fn ledger(&self) -> Result<ledger::Ledger, String> {
        let snapshot = serde_json::from_slice(&self.body).map_err(|error| error.to_string())?;
        ledger::Ledger::restore(snapshot).map_err(|error| error.to_string())
    }
}

/// The chain that a new ledger begins with.
pub(crate) fn first_chain(snapshot: &[u8]) -> Chain {
    checksum(b'0', &[0; 32], 0, "", snapshot)
}

fn checksum(kind: u8, prior: &Chain, sequence: u64, boot: &str, body: &[u8]) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(prior);
    hasher.update(&sequence.to_le_bytes());
    hasher.update(&(boot.len() as u64).to_le_bytes());
    hasher.update(boot.as_bytes());
    hasher.update(body);
    *hasher.finalize().as_bytes()
}
