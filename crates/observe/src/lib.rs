//! allot-observe
