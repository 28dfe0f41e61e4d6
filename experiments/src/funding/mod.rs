//! Funding graphs: reading one, its phases over a run, and the shares that it promises.

pub(crate) mod graph;
mod graph_file;
pub(crate) mod independent_valuation;
pub(crate) mod phases;
