//! The ledger: tickets, currencies and their brokers, after Sullivan and Seltzer, *A Resource
//! Management Framework for Central Servers* (cited as "paper 1").
//!
//! One state, changed in one way: somebody's [`Intent`] becomes an [`Authorised`] operation in
//! [`decide`], or a [`Refusal`]; [`Ledger::apply`] takes nothing but what was authorised and
//! answers with the [`Change`]s that it made. Those are what the journal writes down, what
//! valuation follows, and what undoes a batch that failed.
//!
//! Pure: no clock, no randomness, no files, no threads.

mod broker;
mod caller;
mod change;
mod cover;
mod currency;
mod decide;
mod disk_limit;
mod exchange;
mod home;
#[allow(clippy::module_inception)]
mod ledger;
mod member;
mod offer;
pub mod operation;
mod person;
mod quota;
mod refusal;
mod resource;
mod resource_kind;
mod settle;
mod sighting;
mod ticket;
mod trades;
mod work;
mod writer;

pub use caller::{Authority, Caller, NewClient};
pub use change::Change;
pub use cover::{COVER_ONE, Holding, cover_by_base, cover_of, cover_through};
pub use currency::{
    BASE, BadMode, BadRights, Currency, CurrencyId, CurrencyKind, CurrencyRecord, Issued, Loan,
    Mode, Rights, Subject,
};
pub use decide::{Authorised, decide};
pub use disk_limit::{DiskLimit, LIMIT_BYTES, LIMIT_REQUESTS, SetLimit};
pub use exchange::{Clearing, EXCHANGES_MAX, Exchange, ExchangeId, LEGS_MAX, LOANS_MAX, Leg};
pub use home::{BadPolicyKey, Funding, Home, Placement, Placements, PolicyKey};
pub use identity::{ProcessIdentity, ThreadIdentity};
pub use ledger::{Ledger, Misfit, Snapshot};
pub use member::{Class, Member};
pub use offer::{BadTerms, Good, Lease, OFFER_POINTS_MAX, Offer, OfferId, Point, Terms};
pub use operation::Intent;
pub use person::Persons;
pub use quota::{Part, Quota};
pub use refusal::{Refusal, RefusalKind, memory_size};
pub use resource::{
    BadKindName, INSTANCE_LEN_MAX, KIND_LEN_MAX, KindName, Resource, UnknownResource,
};
pub use resource_kind::{HardAmount, ResourceKind, ResourceKinds};
pub use sighting::{JoinedAs, Sighting};
pub use ticket::{
    AMOUNT_MAX, HARD_TOTAL, ISSUED_MAX, MEMORY_KIB_MAX, TRANSFER_AMOUNT, Ticket, TicketId,
    TicketKind,
};

/// The greatest id that is believed where one is read: ledgers count up from 0, and what is made next has a greater one.
pub const ID_MAX: u64 = 1 << 62;
/// The longest path of currencies below base that funding may make.
pub const DEPTH_MAX: usize = 32;
/// The most tickets that one currency may hold, transfers not counted.
pub const BACKERS_MAX: usize = 64;
/// The most transfers that one client may hold. They do not count as backers, or whoever lends
/// could keep the holder's owner from funding it.
pub const TRANSFERS_MAX: usize = 256;
/// The most grants that one currency may have.
pub const GRANTS_MAX: usize = 64;
/// The most disks on which one currency may have limits.
pub const LIMITS_MAX: usize = 16;
/// The longest name of a currency, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// What each member of a job holds of its currency, unless set otherwise: they share equally.
pub const JOB_SHARE: u64 = 1000;
