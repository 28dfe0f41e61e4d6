//! allot-journal
