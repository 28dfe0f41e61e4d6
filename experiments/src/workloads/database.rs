//! Paper 1's look-up server (6.6): random queries of an embedded database, one at a time. The
//! database is built in with the cargo feature `lmdb`.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Whether this program was built with the database.
pub(crate) const IS_BUILT_IN: bool = cfg!(feature = "lmdb");

/// A database, which the workload makes if its file is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Database {
    pub file: PathBuf,
    /// Number of entries, at least 1.
    pub entries: u64,
    /// Length of each entry's value. Its key, the database's own data and its place take 18 bytes
    /// more.
    pub value_bytes: usize,
}
