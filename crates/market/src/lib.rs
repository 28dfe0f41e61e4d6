//! The market for tickets: who trades what with whom, and for how much (paper 1, 4.2).
//!
//! Pure: no clock, no randomness, no files, no threads. The same book is cleared in the same way
//! on every machine.
//!
//! - [`clear`]: the dealer; what to exchange, given the offers and what everybody can still give.
//! - [`conflicts`]: the offers that one would meet if either asked for less.
//! - [`PriceHistory`]: what the last clearings paid.
//! - [`Negotiator`]: makes offers for a client that knows nothing of tickets.

mod dealer;
pub mod negotiator;
mod prices;
#[cfg(test)]
mod test_terms;

pub use dealer::conflicts::{Conflict, conflicts};
pub use dealer::{CYCLES_MAX, Clearing, FAILURES_MAX, Leg, Match, RING_MAX, WALK_MAX, clear};
pub use negotiator::Negotiator;
pub use prices::{PRICES_KEPT, Price, PriceHistory, price_all};
