//! Which allotd is asked.

use crate::cli::Global;
use crate::error::CliError;
use nix::unistd::getuid;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use wire::Client;

/// A client of the allotd that the options, the environment and the machine name, in that order.
pub fn connect(global: &Global) -> Result<Client, CliError> {
    Ok(Client::new(socket(global)?))
}

/// Where that allotd listens: `--socket`, `--user`, `$ALLOT_SOCKET`, the system's where there is
/// one, the caller's private one.
pub fn socket(global: &Global) -> Result<PathBuf, CliError> {
    if let Some(socket) = &global.socket {
        return Ok(socket.clone());
    }
    if global.user {
        return own(wire::private_socket());
    }
    if let Some(socket) = std::env::var_os("ALLOT_SOCKET").filter(|socket| !socket.is_empty()) {
        return Ok(PathBuf::from(socket));
    }
    let private = wire::private_socket();
    let system = wire::default_socket();
    if !system.exists() && private.exists() { own(private) } else { Ok(system) }
}

/// Refuses a private socket that somebody else made: in /tmp anybody can sit at its name.
fn own(socket: PathBuf) -> Result<PathBuf, CliError> {
    match std::fs::symlink_metadata(&socket) {
        Ok(found) if found.uid() != getuid().as_raw() => {
            Err(CliError::ForeignSocket { socket, owner: found.uid() })
        }
        _ => Ok(socket),
    }
}
