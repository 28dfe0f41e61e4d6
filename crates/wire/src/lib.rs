//! What allotd and its clients say to each other: JSON over HTTP over a Unix socket, described
//! by the OpenAPI document that allotd serves. And a client library that speaks it.
//!
//! Nothing here knows the ledger: who asks need not be the same program as who keeps it.

mod client;
mod exchange;
mod operation;
mod pattern;
mod view;

pub use client::{Client, ClientError, Lines, default_socket, private_socket};
pub use exchange::{
    ConflictView, ExchangeView, Good, HoldingView, Lease, LeaseView, LegRef, LegView, MarketView,
    OfferPoint, OfferView, PriceView, TraderView, TradersView,
};
pub use operation::{
    Amount, Class, CurrencyRef, DiskLimit, MemberRef, Operation, OperationResult, Operations,
    OperationsDone, TicketKind,
};
pub use pattern::matches;
pub use view::{
    Check, ClientSample, ClientState, CurrencyView, DiskLimitView, Doctor, DoctorResource,
    EnforcerView, ErrorBody, Event, EventKind, Grant, LedgerView, MemberView, Nature, PolicyView,
    ProcessView, ResourceValue, Sample, SetPolicy, Status, TicketView, TraceKind, TraceLine,
    Trouble,
};
