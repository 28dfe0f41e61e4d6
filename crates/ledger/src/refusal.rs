//! Why an operation was refused, in words for the person who asked.

use crate::{
    AMOUNT_MAX, BACKERS_MAX, BadTerms, CurrencyId, DEPTH_MAX, ExchangeId, GRANTS_MAX, Good,
    HARD_TOTAL, ISSUED_MAX, MEMORY_KIB_MAX, Member, NAME_LEN_MAX, OfferId, Part, ProcessIdentity,
    Resource, Rights, TRANSFERS_MAX,
};

/// A refusal: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such currency.
    #[error("there is no currency {0}")]
    UnknownCurrency(CurrencyId),
    /// No client for a process.
    #[error("{0} is no client of this allot")]
    UnknownProcess(ProcessIdentity),
    /// Neither a client nor in one.
    #[error("{0} has founded or joined no client of this allot")]
    UnknownMember(Member),
    /// It has joined no client.
    #[error("{0} has joined no client that it could leave; to end its own, release it")]
    NotJoined(Member),
    /// Somebody who cannot do that, or to whom it cannot be done.
    #[error("{member} cannot {what}")]
    BadMember {
        /// Who.
        member: Member,
        /// What.
        what: &'static str,
    },
    /// No such ticket.
    #[error("{holder} holds no {resource} ticket of that kind from {issuer}")]
    UnknownTicket {
        /// Who was thought to hold it.
        holder: CurrencyId,
        /// Who was thought to have issued it.
        issuer: CurrencyId,
        /// Of what.
        resource: Resource,
    },
    /// A right is missing.
    #[error(
        "uid {uid} lacks the right {needs} on currency {currency}{name} (mode {mode}, owner uid \
         {owner}); its owner can grant it: allot currency grant"
    )]
    Forbidden {
        /// Who asked.
        uid: u32,
        /// What is missing: `f`, `c`, `i`, or two alternatives.
        needs: String,
        /// On what.
        currency: CurrencyId,
        /// Its name, in brackets, or nothing.
        name: String,
        /// Its mode.
        mode: String,
        /// Its owner.
        owner: u32,
    },
    /// Only the owner may.
    #[error("only its owner (uid {owner}) or the superuser may {what} of currency {currency}")]
    NotOwner {
        /// Of what.
        currency: CurrencyId,
        /// Who owns it.
        owner: u32,
        /// What was asked.
        what: &'static str,
    },
    /// Only the superuser may.
    #[error("only the superuser may {0}")]
    NotSuperuser(&'static str),
    /// Table 1, row 1.
    #[error(
        "a new currency must have the uid and a gid of who makes it; uid {owner} gid {group} is \
         not yours"
    )]
    NotSelf {
        /// Asked owner.
        owner: u32,
        /// Asked group.
        group: u32,
    },
    /// Somebody else's process, thread or cgroup.
    #[error("{member} belongs to uid {owner}, not to you (uid {uid})")]
    NotYours {
        /// Which.
        member: Member,
        /// Whose.
        owner: u32,
        /// Who asked.
        uid: u32,
    },
    /// A bad name.
    #[error(
        "`{0}` cannot name a currency: use 1 to {NAME_LEN_MAX} letters, digits, and . _ - @ \
         starting with a letter or _, and not `base`"
    )]
    BadName(String),
    /// A limit that cannot be.
    #[error("it cannot be limited so: {0}")]
    BadLimit(String),
    /// A name in use.
    #[error("uid {owner} already has a currency named `{name}`: {currency}")]
    NameTaken {
        /// Whose.
        owner: u32,
        /// Which.
        name: String,
        /// The one that has it.
        currency: CurrencyId,
    },
    /// More than one person may have.
    #[error(
        "uid {uid} already has {most} {part}, its subordinate uids' included: as many as one user may have; {}",
        .part.remedy()
    )]
    QuotaOfPerson {
        /// Whose.
        uid: u32,
        /// Of what.
        part: Part,
        /// As many as there may be.
        most: usize,
    },
    /// More than all ordinary persons may have together.
    #[error(
        "all users together have {most} {part}, as many as there may be; only the superuser can add any until \
         others {}",
        .part.remedy()
    )]
    QuotaInAll {
        /// Of what.
        part: Part,
        /// As many as there may be.
        most: usize,
    },
    /// Too many grants.
    #[error("currency {0} already has {GRANTS_MAX} grants; take one back first")]
    TooManyGrants(CurrencyId),
    /// Too many backers.
    #[error("currency {0} already holds {BACKERS_MAX} tickets; unfund it somewhere first")]
    TooManyBackers(CurrencyId),
    /// A soft amount out of range.
    #[error("{0} tickets are too many: a soft ticket has 0 to {AMOUNT_MAX}")]
    AmountTooLarge(u64),
    /// The issuer's soft total would overflow.
    #[error(
        "currency {issuer} has issued {issued} soft {resource} tickets; {amount} would bring it \
         above {ISSUED_MAX}"
    )]
    IssuedTooMuch {
        /// Who issues.
        issuer: CurrencyId,
        /// Of what.
        resource: Resource,
        /// So far, this ticket not counted.
        issued: u64,
        /// Asked.
        amount: u64,
    },
    /// The issuer's hard total would pass 1000.
    #[error(
        "a currency's hard tickets total {HARD_TOTAL}: {issuer} has {left} {resource} left, not \
         {amount}"
    )]
    HardExhausted {
        /// Who issues.
        issuer: CurrencyId,
        /// Of what.
        resource: Resource,
        /// What is left.
        left: u64,
        /// Asked.
        amount: u64,
    },
    /// Base's hard tickets of memory would promise more than there is.
    #[error(
        "base can promise {} of memory in all: {} are left ({left} KiB), not {}",
        memory_size(*total), memory_size(*left), memory_size(*amount)
    )]
    MemoryExhausted {
        /// In all, in KiB.
        total: u64,
        /// What is left, in KiB.
        left: u64,
        /// Asked, in KiB.
        amount: u64,
    },
    /// An amount of memory from a base that was given none to promise.
    #[error(
        "base has no memory to promise here, so not {}: a private allotd shares no memory. Ask the \
         machine's allotd (`allot --socket /run/allot/allotd.sock`)",
        memory_size(*amount)
    )]
    NoMemory {
        /// Asked, in KiB.
        amount: u64,
    },
    /// Base has promised more memory than that.
    #[error("{issued} KiB of memory are promised by hard tickets from base, more than {kib}")]
    MemoryPromised {
        /// By hard tickets from base.
        issued: u64,
        /// What base was to have.
        kib: u64,
    },
    /// No amount of memory.
    #[error("base cannot have {0} KiB of memory: it has 1 to {MEMORY_KIB_MAX}")]
    BadMemory(u64),
    /// A cycle.
    #[error("{holder} already funds {issuer}, directly or not: {issuer} cannot fund it in return")]
    Cycle {
        /// Who was to be funded.
        holder: CurrencyId,
        /// By whom.
        issuer: CurrencyId,
    },
    /// Too deep a graph.
    #[error("funding {0} there would make a path of more than {DEPTH_MAX} currencies from base")]
    TooDeep(CurrencyId),
    /// A client cannot issue.
    #[error(
        "{0} is a client: it can be funded but it issues no tickets; it can lend those that it \
         holds: allot transfer"
    )]
    ClientIssues(CurrencyId),
    /// A transfer is no funding.
    #[error("a transfer ticket is made by lending (transfer) and ends by taking back")]
    TransferKind,
    /// It has lent these tickets already.
    #[error("client {lender} has already lent its {resource} tickets to {holder}")]
    AlreadyLent {
        /// Who.
        lender: CurrencyId,
        /// To whom.
        holder: CurrencyId,
        /// Of what.
        resource: Resource,
    },
    /// It has lent nothing.
    #[error("client {lender} has lent no {resource} tickets")]
    NotLent {
        /// Who.
        lender: CurrencyId,
        /// Of what.
        resource: Resource,
    },
    /// Too many lend to one.
    #[error("{TRANSFERS_MAX} clients already lend to {0}; no more can")]
    TooManyTransfers(CurrencyId),
    /// No such offer.
    #[error("there is no {0}")]
    UnknownOffer(OfferId),
    /// No such exchange.
    #[error("there is no {0}")]
    UnknownExchange(ExchangeId),
    /// Terms that make no sense.
    #[error("{0}")]
    BadTerms(#[from] BadTerms),
    /// Legs that make no exchange.
    #[error("that is no exchange: {0}")]
    BadExchange(&'static str),
    /// A party that has no lease to renew.
    #[error("{party} has no lease on {exchange} that could be renewed")]
    NoLease {
        /// Which.
        exchange: ExchangeId,
        /// Who.
        party: CurrencyId,
    },
    /// Exchanges that the offers they name would not have.
    #[error("the offers do not make exchange number {index} of the clearing: {why}")]
    BadClearing {
        /// Which of the batch.
        index: usize,
        /// Why.
        why: &'static str,
    },
    /// It would give more than it is sure to have.
    #[error(
        "{giver} can give away {spare} {good} base tickets, not {asked}: what is given must be \
         covered by base tickets of that kind, of which a sixteenth is kept"
    )]
    Uncovered {
        /// Who.
        giver: CurrencyId,
        /// Of what.
        good: Good,
        /// How many more it could give.
        spare: u64,
        /// Asked.
        asked: u64,
    },
    /// Too many exchanges.
    #[error("currency {currency} already takes part in {most} exchanges of that kind; end some")]
    TooManyExchanges {
        /// Which.
        currency: CurrencyId,
        /// How many it can have.
        most: usize,
    },
    /// Base has nobody to exchange with.
    #[error("base takes part in no exchange: it issues what is exchanged")]
    BaseTrades,
    /// Base needs no funding.
    #[error("base holds no tickets: it is what the machine has")]
    BaseHolds,
    /// What only a pure currency can.
    #[error("{currency} is {is}; only a pure currency can {what}")]
    NotPure {
        /// Which.
        currency: CurrencyId,
        /// What it is.
        is: &'static str,
        /// What was asked.
        what: &'static str,
    },
    /// Not a client.
    #[error("{0} is not a client")]
    NotClient(CurrencyId),
    /// It still funds others.
    #[error("currency {currency} still funds {holders} others; unfund them first")]
    StillFunds {
        /// Which.
        currency: CurrencyId,
        /// How many.
        holders: usize,
    },
    /// A member is a client already.
    #[error("{member} is a client already: {client}; fund or unfund that")]
    AlreadyClient {
        /// Which.
        member: Member,
        /// Its client.
        client: CurrencyId,
    },
    /// A job's base tickets are not its own.
    #[error("the base tickets of job {0} are lent by nice; they go back when the job ends")]
    Lent(CurrencyId),
    /// Nice wants at least one ticket.
    #[error("nice needs at least 1 base ticket; to freeze a client, fund it with 0")]
    NiceNothing,
    /// Nothing to lend.
    #[error(
        "uid {uid} owns currencies with {available} soft {resource} base tickets to lend; {asked} \
         were asked (one must remain). Where a group or a rule shares one currency, nice cannot \
         take from it"
    )]
    NothingToLend {
        /// Who asked.
        uid: u32,
        /// Of what.
        resource: Resource,
        /// What could be lent.
        available: u64,
        /// What was asked.
        asked: u64,
    },
    /// A user's base tickets cannot fall below what is lent.
    #[error("uid {uid} has lent {lent} of these base tickets to jobs; set more than that")]
    BelowLent {
        /// Whose.
        uid: u32,
        /// How many.
        lent: u64,
    },
    /// Above the default without the right to it.
    #[error(
        "only the superuser may set base tickets above the policy's {given} or of somebody else"
    )]
    AboveDefault {
        /// What the policy gives.
        given: u64,
    },
    /// A user without a currency of their own to set.
    #[error("the funding policy keeps no currency with soft cpu base tickets for uid {0} alone")]
    NoOwnHome(u32),
    /// Names the policy needs are in use by hand-made currencies of another shape.
    #[error("the policy's currency `{name}` cannot be made: {why}")]
    BadPlacement {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

/// The kinds of refusals that a program may want to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Something named that there is not.
    Unknown,
    /// A missing right.
    Forbidden,
    /// A currency that would fund itself.
    Cycle,
    /// A request that never makes sense.
    Invalid,
    /// A request beyond what one may have.
    Limit,
    /// A request that does not fit how things are now.
    Conflict,
}

impl Refusal {
    /// For a missing right on a currency.
    pub(crate) fn forbidden(
        uid: u32,
        needs: impl Into<String>,
        currency: &crate::Currency,
    ) -> Refusal {
        let name = match currency.record.name.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        Refusal::Forbidden {
            uid,
            needs: needs.into(),
            currency: currency.id,
            name,
            mode: currency.record.mode.to_string(),
            owner: currency.record.owner,
        }
    }

    /// The kind, for programs.
    pub fn kind(&self) -> RefusalKind {
        match self {
            Refusal::UnknownCurrency(_)
            | Refusal::UnknownProcess(_)
            | Refusal::UnknownMember(_)
            | Refusal::UnknownOffer(_)
            | Refusal::UnknownExchange(_)
            | Refusal::UnknownTicket { .. } => RefusalKind::Unknown,
            Refusal::Forbidden { .. }
            | Refusal::NotOwner { .. }
            | Refusal::NotSuperuser(_)
            | Refusal::NotSelf { .. }
            | Refusal::NotYours { .. }
            | Refusal::AboveDefault { .. } => RefusalKind::Forbidden,
            Refusal::Cycle { .. } => RefusalKind::Cycle,
            Refusal::BadName(_)
            | Refusal::AmountTooLarge(_)
            | Refusal::BadMember { .. }
            | Refusal::TransferKind
            | Refusal::BadMemory(_)
            | Refusal::BadLimit(_)
            | Refusal::NiceNothing
            | Refusal::BadTerms(_)
            | Refusal::BadExchange(_)
            | Refusal::BadClearing { .. }
            | Refusal::BadPlacement { .. } => RefusalKind::Invalid,
            Refusal::QuotaOfPerson { .. }
            | Refusal::QuotaInAll { .. }
            | Refusal::TooManyGrants(_)
            | Refusal::TooManyBackers(_)
            | Refusal::TooManyTransfers(_)
            | Refusal::TooManyExchanges { .. }
            | Refusal::IssuedTooMuch { .. }
            | Refusal::HardExhausted { .. }
            | Refusal::MemoryExhausted { .. }
            | Refusal::TooDeep(_) => RefusalKind::Limit,
            Refusal::NameTaken { .. }
            | Refusal::ClientIssues(_)
            | Refusal::BaseHolds
            | Refusal::BaseTrades
            | Refusal::Uncovered { .. }
            | Refusal::NotPure { .. }
            | Refusal::NotClient(_)
            | Refusal::StillFunds { .. }
            | Refusal::MemoryPromised { .. }
            | Refusal::NoMemory { .. }
            | Refusal::AlreadyClient { .. }
            | Refusal::Lent(_)
            | Refusal::AlreadyLent { .. }
            | Refusal::NotLent { .. }
            | Refusal::NotJoined(_)
            | Refusal::NothingToLend { .. }
            | Refusal::BelowLent { .. }
            | Refusal::NoLease { .. }
            | Refusal::NoOwnHome(_) => RefusalKind::Conflict,
        }
    }
}

/// The letters of some rights, for a refusal.
pub(crate) fn letters(rights: Rights) -> String {
    rights.to_string().replace('-', "")
}

/// Writes an amount of memory in the largest unit of which there is one, rounded down.
pub fn memory_size(kib: u64) -> String {
    let units = [(1 << 30, "TiB"), (1 << 20, "GiB"), (1 << 10, "MiB"), (1, "KiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| kib >= *unit).unwrap_or((1, "KiB"));
    match (kib % unit) * 10 / unit {
        0 => format!("{} {name}", kib / unit),
        tenths => format!("{}.{tenths} {name}", kib / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_as_people_write_it() {
        for (kib, text) in [(0, "0 KiB"), (1023, "1023 KiB"), (1024, "1 MiB"), (1999, "1.9 MiB")] {
            assert_eq!(memory_size(kib), text);
        }
        let refusal = Refusal::MemoryExhausted { total: 24 << 20, left: 5 << 19, amount: 3 << 20 };
        assert_eq!(
            refusal.to_string(),
            "base can promise 24 GiB of memory in all: 2.5 GiB are left (2621440 KiB), not 3 GiB"
        );
    }
}
