//! Valuation: from the funding graph and who is active to what everybody is due.
//!
//! Pure. A [`Graph`] holds one resource's part of the ledger. It follows the ledger's changes,
//! keeps count of what is active, and answers what a currency is worth now
//! ([`Graph::value`]) and what it is sure of when all compete ([`Graph::guaranteed`]).

mod exchanged;
mod graph;

pub use exchanged::{Charges, Goods};
use graph::Sum;
pub use graph::{Backing, Graph, NodeView, Pools, WHOLE};
