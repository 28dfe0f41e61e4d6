//! The outcome of giving back.

use crate::record::LogEntry;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;

/// Processes taken out of SCHED_IDLE.
pub const FREED: &str = "processes freed";
/// Processes continued.
pub const CONTINUED: &str = "processes continued";

/// The outcome of giving back: what was, what was left and what failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// By what it is, in words.
    counts: BTreeMap<&'static str, usize>,
    /// Things left as they are, since they are somebody else's by now or their entry is damaged, in words.
    pub left: Vec<String>,
    /// Things that could not be given back, in words.
    pub failed: Vec<String>,
}

impl Restored {
    /// Reads a restorer's entries, in their order. One of an unknown form is left, and that is said.
    pub fn read<E: DeserializeOwned>(&mut self, kept: &[LogEntry]) -> Vec<E> {
        let mut entries = Vec::with_capacity(kept.len());
        for entry in kept {
            match E::deserialize(&entry.was) {
                Ok(read) => entries.push(read),
                Err(_) => self.left.push(format!("{} stays changed: unknown entry", entry.key)),
            }
        }
        entries
    }

    /// Notes what could not be given back, once however often it was tried.
    pub fn fail(&mut self, what: String) {
        if !self.failed.contains(&what) {
            self.failed.push(what);
        }
    }

    /// Counts so many more of a kind.
    pub fn count(&mut self, kind: &'static str, number: usize) {
        if number > 0 {
            *self.counts.entry(kind).or_default() += number;
        }
    }

    /// Number of a kind that was given back.
    pub fn number_of(&self, kind: &str) -> usize {
        self.counts.get(kind).copied().unwrap_or_default()
    }

    /// Number of all that was given back.
    pub fn total(&self) -> usize {
        self.counts.values().sum()
    }
}

impl fmt::Display for Restored {
    /// The counts: `2 cgroups removed, 5 processes moved`, or `nothing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return f.write_str("nothing");
        }
        for (index, (kind, number)) in self.counts.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{number} {kind}")?;
        }
        Ok(())
    }
}
