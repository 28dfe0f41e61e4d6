//! The ledger: tickets, currencies and their brokers, after Sullivan and Seltzer, *A Resource
//! Management Framework for Central Servers* (cited as "paper 1").
//!
//! One state, changed in one way: somebody's [`Intent`] becomes an [`Authorised`] operation in
//! [`decide`], or a [`Refusal`]; [`Ledger::apply`] takes nothing but what was authorised and
//! answers with the [`Change`]s that it made. Those are what the journal writes down, what
//! valuation follows, and what undoes a batch that failed.
//!
//! Pure: no clock, no randomness, no files, no threads.

mod apply;
mod broker;
mod change;
mod clear;
mod cover;
mod currency;
mod disk_limit;
mod exchange;
mod home;
mod identity;
mod intent;
#[allow(clippy::module_inception)]
mod ledger;
mod member;
mod offer;
mod refusal;
mod resource;
mod settle;
mod ticket;
mod trades;

pub use broker::{Authorised, decide};
pub use change::Change;
pub use cover::{COVER_ONE, Holding, cover_by_base, cover_of, cover_through};
pub use currency::{
    BASE, BadMode, BadRights, Currency, CurrencyId, CurrencyRecord, Issued, Loan, Mode, Nature,
    Rights, Subject,
};
pub use disk_limit::{DiskLimit, LIMIT_BYTES, LIMIT_REQUESTS, SetLimit};
pub use exchange::{
    Clearing, EXCHANGES_MAX, EXCHANGES_PER_OWNER_MAX, Exchange, ExchangeId, LEGS_MAX, LOANS_MAX,
    Leg, OFFERS_PER_OWNER_MAX,
};
pub use home::{BadPolicyKey, Funding, Home, Placement, Placements, PolicyKey};
pub use identity::ProcessIdentity;
pub use intent::{Authority, Caller, Intent, NewClient};
pub use ledger::{Ledger, Misfit, Snapshot};
pub use member::{Class, Member, ThreadIdentity};
pub use offer::{BadTerms, Good, Lease, OFFER_POINTS_MAX, Offer, OfferId, Point, Terms};
pub use refusal::Refusal;
pub use resource::{Resource, UnknownResource};
pub use ticket::{
    AMOUNT_MAX, HARD_TOTAL, ISSUED_MAX, MEMORY_KIB_MAX, TRANSFER_AMOUNT, Ticket, TicketId,
    TicketKind,
};

/// The longest path of currencies below base that funding may make.
pub const DEPTH_MAX: usize = 32;
/// The most tickets that one currency may hold, transfers not counted.
pub const BACKERS_MAX: usize = 64;
/// The most transfers that one client may hold. They do not count as backers, or whoever lends
/// could keep the holder's owner from funding it.
pub const TRANSFERS_MAX: usize = 256;
/// The most grants that one currency may have.
pub const GRANTS_MAX: usize = 64;
/// The most pure currencies and jobs that one ordinary uid may own, so that nobody fills the
/// ledger.
pub const CURRENCIES_PER_OWNER_MAX: usize = 4096;
/// The most disks on which one currency may have limits.
pub const LIMITS_MAX: usize = 16;
/// The longest name of a currency, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// What each member of a job holds of its currency, unless set otherwise: they share equally.
pub const JOB_SHARE: u64 = 1000;
