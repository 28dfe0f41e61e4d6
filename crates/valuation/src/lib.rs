//! Valuation: from the funding graph and who is active to what everybody is due.
//!
//! Pure. A [`Graph`] holds one resource's part of the ledger. It follows the ledger's changes,
//! keeps count of what is active, and answers what a currency is worth now
//! ([`Graph::value`]) and what it is sure of when all compete ([`Graph::guaranteed`]).

#[cfg(test)]
mod arithmetic_proofs;
mod exchanged;
mod facts;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod graph;

pub use exchanged::{Charges, Goods};
pub use facts::{CurrencyFacts, GraphError, GraphFacts, PATH_MAX};
use graph::Sum;
pub use graph::{Backing, Graph, NodeView, Pools, WHOLE};
