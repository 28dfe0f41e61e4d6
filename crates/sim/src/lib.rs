//! allot-sim
