//! allot-enforce
