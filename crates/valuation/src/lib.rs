//! allot-valuation
