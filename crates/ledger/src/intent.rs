//! What can be asked of the ledger, and by whom.

use crate::{
    Class, Clearing, CurrencyId, DiskLimit, ExchangeId, Funding, Leg, Member, Mode, Offer, OfferId,
    Placements, ProcessIdentity, Resource, Rights, Subject, TicketKind,
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

/// Somebody who is to become a client, or a member of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewClient {
    /// Who.
    #[serde(flatten)]
    pub member: Member,
    /// The owner's uid, as observed: the real uid of a process (a thread's, its process's), the
    /// owner of a cgroup's directory.
    pub uid: u32,
    /// The gid, likewise.
    pub gid: u32,
}

impl NewClient {
    /// A process and whose it is.
    pub fn process(process: ProcessIdentity, uid: u32, gid: u32) -> NewClient {
        NewClient { member: Member::Process(process), uid, gid }
    }
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
    /// Make a process, a thread or a cgroup a client with a ticket from `issuer`. The caller's
    /// own (or superuser); needs `i` on the issuer.
    Adopt {
        /// Which.
        client: NewClient,
        /// Who funds it.
        issuer: CurrencyId,
        /// With what; nothing leaves it frozen.
        funding: Vec<Funding>,
    },
    /// Manage a client no longer; who had joined it is again where they belong. Needs `c` on it;
    /// superuser where the policy placed it.
    Release {
        /// Which.
        client: CurrencyId,
    },
    /// Let a process, a thread or a cgroup consume as part of a client from now on (paper 2,
    /// 2.5: tags and `chcpures`), wherever it was. The caller's own (or superuser); to use a
    /// client's share is to spend its tickets, so it needs to be the client's owner, or `i` on it.
    Join {
        /// Who.
        member: NewClient,
        /// What it joins.
        client: CurrencyId,
    },
    /// Undo [`Join`](Intent::Join): the member is where it would be without. The member's owner,
    /// or `c` on the client.
    Leave {
        /// Who.
        member: NewClient,
    },
    /// Let a client compete as a host or as a guest (paper 4). Owner, or `c` on it.
    SetClass {
        /// Which.
        client: CurrencyId,
        /// As what.
        class: Class,
    },
    /// Limit what a currency's clients do on a disk, all together, in place of the limit that there was;
    /// one that limits nothing takes it away. Owner or superuser; what the superuser has set, the
    /// superuser alone.
    LimitDisk {
        /// Whose.
        currency: CurrencyId,
        /// Which disk.
        resource: Resource,
        /// To what.
        limit: DiskLimit,
    },
    /// A client that waits for another lends it all its tickets of a resource (paper 1, 5.3).
    /// Owner, or `c` on the lender; the holder, who only gains, is not asked. Ends with
    /// [`TakeBack`](Intent::TakeBack), with either client, or with the lender's user.
    Transfer {
        /// Who waits.
        lender: CurrencyId,
        /// For whom.
        holder: CurrencyId,
        /// Of what.
        resource: Resource,
    },
    /// Undo [`Transfer`](Intent::Transfer). Owner, or `c` on the lender.
    TakeBack {
        /// Who lent.
        lender: CurrencyId,
        /// Of what.
        resource: Resource,
    },
    /// See that the kernel's threads, or the processes that no other member covers, are a client
    /// funded from base like anyone. Makes it where it is missing, and else leaves it as it is.
    /// The system, or the superuser.
    Ensure {
        /// [`Member::Kernel`] or [`Member::Rest`].
        #[serde(flatten)]
        member: Member,
        /// Its base tickets when it is made.
        funding: Vec<Funding>,
    },
    /// Say how much memory base has to promise, never less than its hard tickets amount to. The
    /// system, or the superuser.
    SetMemory {
        /// In KiB, 1 to [`MEMORY_KIB_MAX`](crate::MEMORY_KIB_MAX).
        kib: u64,
    },
    /// Offer an exchange. Owner of the party, or `c` on it; it must cover all that it offers now.
    /// Where it no longer does, the offer stays and waits until it does again.
    Offer {
        /// Who, and what for what.
        offer: Offer,
    },
    /// Withdraw an offer; what came of it stays. Owner of its party, or `c` on that; the system
    /// when its time is over.
    CancelOffer {
        /// Which.
        offer: OfferId,
    },
    /// Give base tickets away: one leg is a loan, several are a *static* exchange (paper 1, 5.7).
    /// Owner of every giver, or `c` on it; who only receives is not asked, as with
    /// [`Transfer`](Intent::Transfer), but may end it.
    Exchange {
        /// Who gives what to whom, 1 to [`LEGS_MAX`](crate::LEGS_MAX).
        legs: Vec<Leg>,
        /// When it ends: seconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<u64>,
    },
    /// System: the dealer found exchanges among the offers. All of them are made, or none.
    Clear {
        /// Which, in this order.
        exchanges: Vec<Clearing>,
    },
    /// End an exchange, all its tickets at once. Owner of a party, or `c` on it; the system when
    /// its time is over.
    EndExchange {
        /// Which.
        exchange: ExchangeId,
    },
    /// Say that a party whose offer had a [`Lease`](crate::Lease) is still there, and until when it
    /// takes part in an exchange now. Owner of that party, or `c` on it.
    Renew {
        /// Which.
        exchange: ExchangeId,
        /// Whose lease.
        party: CurrencyId,
        /// Seconds since 1970; `None`: without a lease from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until_s: Option<u64>,
    },
    /// Run a process as a job funded from base, taken out of the caller's own currencies for as
    /// long as the job lives (paper 1, 4.4 and 5.6).
    Nice {
        /// The caller's process, thread or cgroup; a client already, or a new one.
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
    /// System: a member is gone, with the client that it founded; of a process also what its
    /// threads have founded or joined.
    Exit {
        /// Which.
        #[serde(flatten)]
        member: Member,
    },
    /// System: a process's real uid or gid changed; where there is a policy its client is funded
    /// anew (paper 1, 5.2). What had been arranged between clients of the former user ends: what
    /// the process and its threads have joined or its threads founded, who joined its client, and
    /// what it has lent.
    UserChanged {
        /// Which.
        client: NewClient,
        /// Where it belongs now; `None` leaves its funding.
        placements: Option<Placements>,
    },
}
