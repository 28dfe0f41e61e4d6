//! What can be asked of allotd.

use crate::{
    Amount, Class, ConflictView, CurrencyRef, DiskLimit, Good, Lease, LegRef, MemberRef,
    OfferPoint, TicketKind,
};
#[cfg(feature = "ledger")]
use crate::{ApiError, Resolver};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// The tickets of a new client where nothing else is said.
#[cfg(feature = "ledger")]
const DEFAULT_AMOUNT: u64 = 1000;

#[cfg(feature = "ledger")]
impl Operation {
    /// What the operation means to the ledger.
    ///
    /// # Errors
    /// What cannot be understood or found.
    pub fn intent(self, at: &mut impl Resolver) -> Result<ledger::Intent, ApiError> {
        use crate::resolver::invalid;
        use ledger::operation as to;
        Ok(match self {
            Operation::CreateCurrency { name, owner, group, mode } => {
                let owner = owner.unwrap_or(at.caller().uid);
                let group = group.unwrap_or(at.caller().gid);
                let mode = mode.map_or(Ok(ledger::Mode::PRIVATE), |mode| mode.parse());
                let mode = mode.map_err(invalid)?;
                to::CreateCurrency { name, owner, group, mode }.into()
            }
            Operation::DestroyCurrency { currency } => {
                to::DestroyCurrency { currency: at.currency(&currency)? }.into()
            }
            Operation::ChangeMode { currency, mode } => {
                let (currency, mode) = (at.currency(&currency)?, mode.parse().map_err(invalid)?);
                to::ChangeMode { currency, mode }.into()
            }
            Operation::ChangeOwner { currency, owner, group } => {
                to::ChangeOwner { currency: at.currency(&currency)?, owner, group }.into()
            }
            Operation::Grant { currency, to, rights } => to::Grant {
                currency: at.currency(&currency)?,
                subject: at.subject(&to)?,
                rights: rights.parse().map_err(invalid)?,
            }
            .into(),
            Operation::Fund { currency, from, amount } => to::Fund {
                holder: at.currency(&currency)?,
                issuer: at.currency(&from)?,
                funding: at.funding(&amount)?,
            }
            .into(),
            Operation::Unfund { currency, from, resource, kind } => to::Unfund {
                holder: at.currency(&currency)?,
                issuer: at.currency(&from)?,
                resource: at.resource(&resource)?,
                kind: kind.into(),
            }
            .into(),
            Operation::Adopt { pid, start_time_ticks, from, funding } => {
                adopt(at.process(pid, start_time_ticks)?, from, funding, at)?.into()
            }
            Operation::AdoptCgroup { cgroup, from, funding } => {
                adopt(at.cgroup(&cgroup)?, from, funding, at)?.into()
            }
            Operation::Join { member, client } => {
                let client = at.currency(&client)?;
                to::Join { client, member: at.member(member)? }.into()
            }
            Operation::Leave { member } => to::Leave { member: at.member(member)? }.into(),
            Operation::SetClass { client, class } => {
                to::SetClass { client: at.client_or_own(client)?, class: class.into() }.into()
            }
            Operation::LimitDisk { currency, disk, limit } => to::LimitDisk {
                currency: at.currency(&currency)?,
                resource: at.resource(&format!("disk:{disk}"))?,
                limit: limit.into(),
            }
            .into(),
            Operation::Transfer { from, to, resource } => to::Transfer {
                lender: at.client_or_own(from)?,
                holder: at.currency(&to)?,
                resource: at.resource_or_cpu(resource)?,
            }
            .into(),
            Operation::TakeBack { from, resource } => to::TakeBack {
                lender: at.client_or_own(from)?,
                resource: at.resource_or_cpu(resource)?,
            }
            .into(),
            Operation::Offer {
                party,
                gives,
                wants,
                points,
                partial,
                least,
                most,
                until_s,
                lease,
            } => {
                let party = at.client_or_own(party)?;
                let last = points.last().map_or(0, |point| point.want);
                let terms = ledger::Terms {
                    gives: at.good(&gives)?,
                    wants: at.good(&wants)?,
                    points: points.into_iter().map(ledger::Point::from).collect(),
                    partial,
                    least,
                    most: most.unwrap_or_else(|| last.saturating_mul(2)),
                };
                for ends_s in lease.iter().flat_map(|it| [it.offer_until_s, it.exchange_until_s]) {
                    at.to_come(Some(ends_s))?;
                }
                let (until_s, lease) = (at.to_come(until_s)?, lease.map(ledger::Lease::from));
                to::MakeOffer { offer: ledger::Offer { party, terms, until_s, lease } }.into()
            }
            Operation::CancelOffer { offer } => {
                to::CancelOffer { offer: ledger::OfferId(offer) }.into()
            }
            Operation::Exchange { legs, until_s } => {
                let legs = legs.iter().map(|it| leg(it, at)).collect::<Result<_, _>>()?;
                to::MakeExchange { legs, until_s: at.to_come(until_s)? }.into()
            }
            Operation::EndExchange { exchange } => {
                to::EndExchange { exchange: ledger::ExchangeId(exchange) }.into()
            }
            Operation::RenewExchange { exchange, party, until_s } => to::Renew {
                exchange: ledger::ExchangeId(exchange),
                party: at.currency(&party)?,
                until_s: at.to_come(until_s)?,
            }
            .into(),
            Operation::Release { client } => {
                let client = at.currency(&client)?;
                to::Release { client, named: at.is_named(client) }.into()
            }
            Operation::Nice { pid, resource, amount } => to::Nice {
                client: at.process(pid, None)?,
                resource: at.resource_or_cpu(resource)?,
                amount,
            }
            .into(),
            Operation::SetBase { uid, amount } => {
                let placements = at.placements_of_user(uid);
                let placements = placements.ok_or(ledger::Refusal::NoOwnHome(uid))?;
                to::SetBase { uid, placements, amount }.into()
            }
            Operation::SetTickets { pid, amount } => {
                set_tickets(at.identity(pid)?, amount, at)?.into()
            }
        })
    }
}

impl Operation {
    /// The resources of which it asks for a share or a limit, as they are written; none where it gives
    /// something up.
    pub fn asked_resources(&self) -> Vec<String> {
        let asked = |amounts: &[Amount]| -> Vec<String> {
            let some = amounts.iter().filter(|amount| amount.amount > 0);
            some.map(|amount| amount.resource.clone()).collect()
        };
        match self {
            Operation::Fund { amount, .. } => asked(std::slice::from_ref(amount)),
            Operation::Adopt { funding, .. } | Operation::AdoptCgroup { funding, .. } => {
                funding.as_deref().map_or(vec!["cpu".to_owned()], asked)
            }
            Operation::Nice { resource, .. } => resource.iter().cloned().collect(),
            Operation::Exchange { legs, .. } => {
                let some = legs.iter().filter(|leg| leg.amount > 0);
                some.map(|leg| leg.good.resource.clone()).collect()
            }
            Operation::LimitDisk { disk, limit, .. } if *limit != DiskLimit::default() => {
                vec![format!("disk:{disk}")]
            }
            _ => Vec::new(),
        }
    }

    /// The resources that must be there for it: those that it asks for, and those that it offers or
    /// wants, which may be given later.
    pub fn named_resources(&self) -> Vec<String> {
        match self {
            Operation::Offer { gives, wants, .. } => {
                vec![gives.resource.clone(), wants.resource.clone()]
            }
            _ => self.asked_resources(),
        }
    }
}

#[cfg(feature = "ledger")]
fn adopt(
    client: ledger::NewClient,
    from: Option<CurrencyRef>,
    funding: Option<Vec<Amount>>,
    at: &mut impl Resolver,
) -> Result<ledger::operation::Adopt, ApiError> {
    let default = || {
        let (resource, kind) = ("cpu".to_owned(), TicketKind::Soft);
        vec![Amount { resource, kind, amount: DEFAULT_AMOUNT }]
    };
    let issuer = match from {
        Some(from) => at.currency(&from)?,
        None => at.currency_of_user(client.uid)?,
    };
    let funding = funding.unwrap_or_else(default);
    let funding = funding.iter().map(|it| at.funding(it)).collect::<Result<_, _>>()?;
    Ok(ledger::operation::Adopt { client, issuer, funding })
}

#[cfg(feature = "ledger")]
fn leg(leg: &LegRef, at: &mut impl Resolver) -> Result<ledger::Leg, ApiError> {
    Ok(ledger::Leg {
        giver: at.currency(&leg.from)?,
        receiver: at.currency(&leg.to)?,
        good: at.good(&leg.good)?,
        amount: leg.amount,
    })
}

/// Sets the tickets from the currency that funds a process first.
#[cfg(feature = "ledger")]
fn set_tickets(
    process: ledger::ProcessIdentity,
    amount: u64,
    at: &impl Resolver,
) -> Result<ledger::operation::Fund, ApiError> {
    let (resource, kind) = (ledger::Resource::CPU, ledger::TicketKind::Soft);
    let holder = at.ledger().client_of(process);
    let holder = holder.ok_or(ledger::Refusal::UnknownProcess(process))?;
    let mut backing = at.ledger().backing(holder).map(|(_, ticket)| ticket);
    let first = backing.find(|ticket| ticket.resource == resource && ticket.kind == kind);
    let issuer = first.map(|ticket| ticket.issuer).ok_or_else(|| {
        let message = format!("{process} holds no soft cpu tickets to set");
        ApiError::new(crate::ErrorCode::Conflict, message)
    })?;
    Ok(ledger::operation::Fund {
        holder,
        issuer,
        funding: ledger::Funding { resource, kind, amount },
    })
}

/// The most operations of one request: they are done as one, and everybody else waits for that.
pub const OPERATIONS_MAX: usize = 250;

/// Things to do in one step: all of them, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Operations {
    /// In their order; at most [`OPERATIONS_MAX`].
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
    /// What of it has no effect now, why, and what would help.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// All was done and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OperationsDone {
    /// The journal's number of the last of them.
    pub sequence: u64,
    /// One for each operation.
    pub results: Vec<OperationResult>,
}
