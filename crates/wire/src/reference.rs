//! What operations speak of: currencies, members, tickets, limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Names a currency: `base`; `#12` by id; `pid:4711`, `thread:4712` and `cgroup:PATH` the client
/// that each has founded; `kernel` and `rest`, the clients of the kernel's threads and of the
/// processes that nobody manages, where there are such; `NAME`, the caller's own of that name,
/// else that of base's owner; `USER:NAME`, of a user (name or uid); `USER:`, the one that the
/// funding policy keeps for that user. Nobody is given or charged anything by a name that they took first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct CurrencyRef(pub String);

impl From<&str> for CurrencyRef {
    fn from(text: &str) -> Self {
        CurrencyRef(text.to_owned())
    }
}

impl From<String> for CurrencyRef {
    fn from(text: String) -> Self {
        CurrencyRef(text)
    }
}

/// Relative (`soft`) or a fixed thousandth share (`hard`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TicketKind {
    /// A relative share.
    #[default]
    Soft,
    /// A fixed share, in thousandths.
    Hard,
    /// All that a client has, lent while it waits for the holder. Shown, never asked for.
    Transfer,
}

/// Names what consumes: `{"thread": 4712}`, `{"process": 4711}` or `{"cgroup": "/build"}`. Whose
/// that is, the kernel says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberRef {
    /// One thread, by its number.
    Thread(u32),
    /// A process: all its threads that are no members themselves.
    Process(u32),
    /// A cgroup (v2) and those below it, by its directory.
    Cgroup(String),
}

/// How a client competes (paper 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// By its tickets.
    #[default]
    Host,
    /// It gets only what no host wants, whatever its tickets.
    Guest,
}

/// An amount of tickets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// `cpu`, `memory`, `disk:DEVICE` or `net:INTERFACE`.
    pub resource: String,
    /// Relative or fixed.
    #[serde(default)]
    pub kind: TicketKind,
    /// How many; 0 freezes a client that has no other.
    pub amount: u64,
}

/// Hard caps on a disk. What is left out is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskLimit {
    /// Bytes read, a second; 64 KiB at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written, a second; 64 KiB at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Reads a second; 16 at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<u64>,
    /// Writes a second; 16 at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<u64>,
}
