//! Hard caps on what a currency's clients do on a disk: an attribute, no ticket. It takes no part in
//! valuation: it leaves a disk idle while somebody waits, which is why only who asks for it has one.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Bytes a second that a limit may be. One that waits for its next piece may hold what others of the file
/// system wait for, so not too few.
pub const LIMIT_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 50;
/// Requests a second that a limit may be; the kernel counts them in 32 bits.
pub const LIMIT_REQUESTS: RangeInclusive<u64> = 16..=u32::MAX as u64;

/// Hard caps on one disk. What is `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskLimit {
    /// Bytes read, a second, within [`LIMIT_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written, a second, within [`LIMIT_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Reads a second, within [`LIMIT_REQUESTS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Writes a second, within [`LIMIT_REQUESTS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
}

/// A limit of a currency's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLimit {
    /// What it is.
    #[serde(flatten)]
    pub limit: DiskLimit,
    /// The superuser has set it: then only the superuser changes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_superuser: bool,
}

impl DiskLimit {
    /// Whether it limits nothing.
    pub fn is_none(&self) -> bool {
        *self == DiskLimit::default()
    }

    /// Returns one of so many equal parts, of each at least 1.
    #[must_use]
    pub fn part(&self, count: u64) -> DiskLimit {
        let part = |limit: Option<u64>| limit.map(|limit| (limit / count.max(1)).max(1));
        DiskLimit {
            read_bytes: part(self.read_bytes),
            written_bytes: part(self.written_bytes),
            reads: part(self.reads),
            writes: part(self.writes),
        }
    }

    /// Returns of each the less.
    #[must_use]
    pub fn stricter(&self, other: DiskLimit) -> DiskLimit {
        let less = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        DiskLimit {
            read_bytes: less(self.read_bytes, other.read_bytes),
            written_bytes: less(self.written_bytes, other.written_bytes),
            reads: less(self.reads, other.reads),
            writes: less(self.writes, other.writes),
        }
    }

    /// Why it cannot be one; `None` where it can.
    pub fn wrong(&self) -> Option<String> {
        let outside = |value: Option<u64>, range: &RangeInclusive<u64>| {
            value.filter(|value| !range.contains(value))
        };
        let bytes = outside(self.read_bytes, &LIMIT_BYTES)
            .or_else(|| outside(self.written_bytes, &LIMIT_BYTES));
        let requests =
            outside(self.reads, &LIMIT_REQUESTS).or_else(|| outside(self.writes, &LIMIT_REQUESTS));
        let says = |value: u64, range: &RangeInclusive<u64>, what: &str| {
            format!("{value} {what} a second; it may be {} to {}", range.start(), range.end())
        };
        bytes
            .map(|value| says(value, &LIMIT_BYTES, "bytes"))
            .or_else(|| requests.map(|value| says(value, &LIMIT_REQUESTS, "requests")))
    }
}
