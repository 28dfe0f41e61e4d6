//! Reports: what every experiment gives, for programs and for people. Nothing here runs or
//! measures.

pub(crate) mod bound;
pub(crate) mod comparison;
pub(crate) mod cpu_shares;
pub(crate) mod findings;
pub(crate) mod machine;
pub(crate) mod outcome;
pub(crate) mod plot;
pub(crate) mod series;
pub(crate) mod setting;
pub(crate) mod statistics;
pub(crate) mod table;
pub(crate) mod types;
pub(crate) mod verdict;
pub(crate) mod wobble;
