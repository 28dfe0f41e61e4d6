//! The messages of an allotd and its guardian on the lifeline, one byte each.

/// The guardian is on watch.
pub(super) const READY: u8 = b'r';
/// The guardian is to sweep once more and end.
pub(super) const LEAVE: u8 = b'l';
/// The guardian is to free the children of processes that were released.
pub(super) const SWEEP: u8 = b's';
/// The guardian has swept.
pub(super) const SWEPT: u8 = b'd';
