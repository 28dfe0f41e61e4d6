//! What can be asked of allotd.

use crate::{ConflictView, Good, Lease, LegRef, OfferPoint};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Names a currency: `base`; `#12` by id; `pid:4711`, `thread:4712` and `cgroup:PATH` the client
/// that each has founded; `kernel` and `rest`, the clients of the kernel's threads and of the
/// processes that nobody manages, where there are such; `NAME`, the caller's own of that name,
/// else the only one of that name; `USER:NAME`, of a user (name or uid); `USER:`, the one that the
/// funding policy keeps for that user.
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

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "operation", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Make a currency.
    CreateCurrency {
        /// Its name, unique among its owner's.
        name: String,
        /// Owner's uid; the caller's where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u32>,
        /// Group's gid; the caller's where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<u32>,
        /// `fci------` where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
    },
    /// Destroy a currency that funds nothing.
    DestroyCurrency {
        /// Which.
        currency: CurrencyRef,
    },
    /// Set a currency's mode.
    ChangeMode {
        /// Of which.
        currency: CurrencyRef,
        /// As in `fci--i---`.
        mode: String,
    },
    /// Give a currency another owner or group.
    ChangeOwner {
        /// Which.
        currency: CurrencyRef,
        /// New owner's uid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<u32>,
        /// New group's gid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<u32>,
    },
    /// Grant rights besides the mode; `---` takes them back.
    Grant {
        /// On which.
        currency: CurrencyRef,
        /// `uid:1000`, `gid:100` or `pid:4711`.
        to: String,
        /// As in `f-i`.
        rights: String,
    },
    /// Make a currency's ticket from another worth an amount.
    Fund {
        /// Who gets it.
        currency: CurrencyRef,
        /// Who issues it.
        from: CurrencyRef,
        /// What and how many.
        #[serde(flatten)]
        amount: Amount,
    },
    /// Revoke a currency's ticket from another.
    Unfund {
        /// Who has it.
        currency: CurrencyRef,
        /// Who issued it.
        from: CurrencyRef,
        /// Of what.
        resource: String,
        /// Which kind.
        #[serde(default)]
        kind: TicketKind,
    },
    /// Make a process a client.
    Adopt {
        /// Which; the caller itself where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Its start time, to be sure that it is the process meant (field 22 of
        /// /proc/PID/stat).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        start_time_ticks: Option<u64>,
        /// Who funds it; where it is left out, what the policy says, or base in a private
        /// allotd.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<CurrencyRef>,
        /// With what; 1000 soft cpu tickets where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        funding: Option<Vec<Amount>>,
    },
    /// Make a cgroup (v2) a client: the processes in it and below that are no clients themselves.
    AdoptCgroup {
        /// Its directory, as in `/sys/fs/cgroup/build` or `/build`; the caller's own, or root's
        /// to give.
        cgroup: String,
        /// Who funds it; where it is left out, what the policy says of the directory's owner, or
        /// base in a private allotd.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<CurrencyRef>,
        /// With what; 1000 soft cpu tickets where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        funding: Option<Vec<Amount>>,
    },
    /// Let a thread, a process or a cgroup consume as part of a client from now on, wherever it
    /// was: paper 2's `chcpures`.
    Join {
        /// Who; the calling process where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<MemberRef>,
        /// What it joins.
        client: CurrencyRef,
    },
    /// Undo `join`: it consumes again as what it would without.
    Leave {
        /// Who; the calling process where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<MemberRef>,
    },
    /// Let a client compete as a host, or as a guest that gets only what no host wants (paper 4).
    SetClass {
        /// Which; the caller's own where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<CurrencyRef>,
        /// As what.
        class: Class,
    },
    /// Limit what a currency's clients do on a disk, all together, in place of the limit that there was.
    /// What is left out is not limited; without any the limit is taken away.
    LimitDisk {
        /// Whose: its owner's or the superuser's to say.
        currency: CurrencyRef,
        /// The disk's kernel name, as in `sda`.
        disk: String,
        /// How much.
        #[serde(flatten)]
        limit: DiskLimit,
    },
    /// Lend all tickets of a client to another, for as long as the one waits for the other.
    Transfer {
        /// Who waits and lends; the caller's own client where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<CurrencyRef>,
        /// Who works for it.
        to: CurrencyRef,
        /// Of what; cpu where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    },
    /// Undo `transfer`.
    TakeBack {
        /// Who lent; the caller's own client where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<CurrencyRef>,
        /// Of what; cpu where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
    },
    /// Offer base tickets of one resource for those of another (paper 1, 4.1 and 5.7's
    /// `exch_offer`). A program that offers for itself names nobody.
    Offer {
        /// Whose tickets: a client, or a currency of the caller's; the caller's own client where it
        /// is left out.
        #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
        party: Option<CurrencyRef>,
        /// What it gives.
        gives: Good,
        /// What it wants.
        wants: Good,
        /// How much for how much: 1 to 16, from little to much.
        points: Vec<OfferPoint>,
        /// Whether anything between the points, and below the first, is welcome too.
        #[serde(default)]
        partial: bool,
        /// The least that it will get in one exchange.
        #[serde(default)]
        least: u64,
        /// The most that it has use for; what the last point wants, twice, where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<u64>,
        /// When it and what came of it end: seconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<u64>,
        /// What ends earlier, unless who offers says again that it is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease: Option<Lease>,
    },
    /// Withdraw an offer; exchanges that came of it stay.
    CancelOffer {
        /// Which.
        offer: u64,
    },
    /// Give base tickets away: a loan, or a static exchange among currencies of the caller's.
    Exchange {
        /// Who gives what to whom, 1 to 4.
        legs: Vec<LegRef>,
        /// When it ends: seconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<u64>,
    },
    /// End an exchange, all its tickets at once.
    EndExchange {
        /// Which.
        exchange: u64,
    },
    /// Say that who had offered with a lease is still there, so that an exchange goes on.
    RenewExchange {
        /// Which.
        exchange: u64,
        /// Whose lease: a client, or a currency of the caller's.
        #[serde(rename = "for")]
        party: CurrencyRef,
        /// Until when it takes part now: seconds since 1970; without, it is not asked again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<u64>,
    },
    /// Manage a process no longer.
    Release {
        /// Its client.
        client: CurrencyRef,
    },
    /// Run the caller's process, or another of the caller's, as a job funded from base out of
    /// the caller's own currencies.
    Nice {
        /// Which; the caller itself where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// Of what; cpu where it is left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String>,
        /// How many base tickets.
        amount: u64,
    },
    /// Set a user's base tickets (`lsetbase`).
    SetBase {
        /// Whose.
        uid: u32,
        /// How many.
        amount: u64,
    },
    /// Set a process's tickets from the currency that funds it first (`lrenice`).
    SetTickets {
        /// Which.
        pid: u32,
        /// How many.
        amount: u64,
    },
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

/// Things to do in one step: all of them, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// In their order; at most 1000.
    pub operations: Vec<Operation>,
}

/// What one operation made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationResult {
    /// The currency, job or client that it made.
    pub created: Option<u64>,
    /// The offer that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<u64>,
    /// The exchange that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<u64>,
    /// Offers that would meet the one made but for the rate, nearest first; 16 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<ConflictView>,
}

/// All was done and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationsDone {
    /// The journal's number of the last of them.
    pub sequence: u64,
    /// One for each operation.
    pub results: Vec<OperationResult>,
}
