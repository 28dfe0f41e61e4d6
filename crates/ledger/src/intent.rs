//! What can be asked of the ledger, and by whom.

use crate::{
    CurrencyId, Funding, Mode, Placements, ProcessIdentity, Resource, Rights, Subject, TicketKind,
};
use serde::{Deserialize, Serialize};

/// A caller, as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary group ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<u32>,
    /// The calling process, where rights granted to a process may matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

/// On whose authority something is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authority {
    /// The daemon itself, reporting what it observed.
    System,
    /// Somebody who asked.
    Caller(Caller),
}

/// A process that is to become a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewClient {
    /// The process.
    pub process: ProcessIdentity,
    /// Its real uid, as observed.
    pub uid: u32,
    /// Its real gid, as observed.
    pub gid: u32,
}

/// A wish. The broker turns it into an [`Authorised`](crate::Authorised) operation or refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Intent {
    /// Make a pure currency (paper 1, table 1: the caller must match uid and gid).
    CreateCurrency {
        /// Its name.
        name: String,
        /// Owner's uid.
        owner: u32,
        /// Group's gid.
        group: u32,
        /// Rights.
        mode: Mode,
    },
    /// Destroy a pure currency that funds nothing. Needs `c`.
    DestroyCurrency {
        /// Which.
        currency: CurrencyId,
    },
    /// Set the mode. Owner or superuser.
    ChangeMode {
        /// Of which.
        currency: CurrencyId,
        /// To what.
        mode: Mode,
    },
    /// Give a currency away. The owner's uid: superuser; the group: the owner, to a group of
    /// theirs.
    ChangeOwner {
        /// Which.
        currency: CurrencyId,
        /// New owner.
        owner: Option<u32>,
        /// New group.
        group: Option<u32>,
    },
    /// Grant rights besides the mode, replacing what the subject was granted before; no rights
    /// take the grant back. Owner or superuser.
    Grant {
        /// On which.
        currency: CurrencyId,
        /// To whom.
        subject: Subject,
        /// What.
        rights: Rights,
    },
    /// Make the holder's ticket from the issuer worth `amount`. More: needs `f` on the holder
    /// and `i` on the issuer; less: `c` on the holder or `i` on the issuer.
    Fund {
        /// Who gets it.
        holder: CurrencyId,
        /// Who gives it.
        issuer: CurrencyId,
        /// Of what, how, how many.
        #[serde(flatten)]
        funding: Funding,
    },
    /// Revoke the holder's ticket from the issuer. Needs `c` on the holder or `i` on the issuer.
    Unfund {
        /// Who has it.
        holder: CurrencyId,
        /// Who gave it.
        issuer: CurrencyId,
        /// Of what.
        resource: Resource,
        /// Which kind.
        kind: TicketKind,
    },
    /// Make a process a client with a ticket from `issuer`. The caller's own process (or
    /// superuser); needs `i` on the issuer.
    Adopt {
        /// Which process.
        client: NewClient,
        /// Who funds it.
        issuer: CurrencyId,
        /// With what; nothing leaves it frozen.
        funding: Vec<Funding>,
    },
    /// Manage a client no longer. Needs `c` on it; superuser where the policy placed it.
    Release {
        /// Which.
        client: CurrencyId,
    },
    /// Run a process as a job funded from base, taken out of the caller's own currencies for as
    /// long as the job lives (paper 1, 4.4 and 5.6).
    Nice {
        /// The caller's process; a client already, or a new one.
        client: NewClient,
        /// Of what.
        resource: Resource,
        /// How many soft base tickets, at least 1.
        amount: u64,
    },
    /// Set a user's base tickets (paper 3, 3.1.3). More than the policy's amount, or another
    /// user's: superuser.
    SetBase {
        /// Whose.
        uid: u32,
        /// The policy's path for that user; its first level is set.
        placements: Placements,
        /// How many soft CPU tickets.
        amount: u64,
    },
    /// System: a process was found that the policy names.
    Place {
        /// Which.
        client: NewClient,
        /// Where it belongs.
        placements: Placements,
    },
    /// System: a client forked. The child is funded by every issuer that funds its parent
    /// (paper 1, 5.2, footnote 3).
    Fork {
        /// The client.
        parent: ProcessIdentity,
        /// Its child.
        child: NewClient,
    },
    /// System: a client is gone.
    Exit {
        /// Which.
        process: ProcessIdentity,
    },
    /// System: a client's real uid or gid changed; where there is a policy it is funded anew
    /// (paper 1, 5.2).
    UserChanged {
        /// Which.
        client: NewClient,
        /// Where it belongs now; `None` leaves its funding.
        placements: Option<Placements>,
    },
}
