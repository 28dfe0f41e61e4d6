//! allot-wire
