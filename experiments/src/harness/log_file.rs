//! Logs of child processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a log for both outputs of a child.
pub(crate) fn log_file(path: &Path) -> io::Result<(File, File)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let again = file.try_clone()?;
    Ok((file, again))
}
