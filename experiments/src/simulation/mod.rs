//! The simulated machine under experiments: the ledger, the valuation and the policies themselves,
//! in virtual time. It counts and measures nothing else, so equal seeds give equal reports.

pub(crate) mod exchange_loads;
pub(crate) mod four_readers;
pub(crate) mod plan;
pub(crate) mod samples;
pub(crate) mod tickets;
