//! What allotd and its clients say to each other: JSON over HTTP over a Unix socket, described
//! by the OpenAPI document that allotd serves. And a client library that speaks it.
//!
//! Nothing here knows the ledger: who asks need not be the same program as who keeps it. The
//! feature `ledger` is for those who know it: what each operation means to the ledger, and back.

mod client;
#[cfg(feature = "ledger")]
mod convert;
mod error_code;
mod exchange;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod operation;
mod pattern;
mod reference;
#[cfg(feature = "ledger")]
mod resolver;
mod unix_transport;
mod view;

pub use client::{Client, ClientError, Lines, default_socket, private_socket};
pub use error_code::ErrorCode;
pub use exchange::{
    ConflictView, ExchangeView, Good, HoldingView, Lease, LeaseView, LegRef, LegView, MarketView,
    OfferPoint, OfferView, PriceView, TraderView, TradersView,
};
pub use operation::{OPERATIONS_MAX, Operation, OperationResult, Operations, OperationsDone};
pub use pattern::matches;
pub use reference::{Amount, Class, CurrencyRef, DiskLimit, MemberRef, TicketKind};
#[cfg(feature = "ledger")]
pub use resolver::Resolver;
pub use view::{
    ApiError, Check, ClientSample, ClientState, CurrencyKind, CurrencyView, DiskLimitView, Doctor,
    DoctorResource, EnforcerView, ErrorBody, Event, EventKind, Grant, LedgerView, MemberView,
    PolicyView, ProcessView, ResourceSample, ResourceUse, ResourceValue, Sample, SetPolicy, Status,
    TicketView, TraceKind, TraceLine,
};
