//! The places of allot's programs, found as git finds its own.

use std::path::PathBuf;

/// Returns the program of that name in this program's directory, else its bare name, for `$PATH`.
pub fn path(name: &str) -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(name));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}
