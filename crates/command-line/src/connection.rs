//! The choice of the allotd to ask.

use crate::error::CliError;
use crate::users::own_uid;
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use wire::Client;

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalOptions {
    /// The socket of the allotd to ask. Without it: $ALLOT_SOCKET, else the system's
    /// (/run/allot/allotd.sock) where there is one, else your private one
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "user")]
    pub socket: Option<PathBuf>,
    /// Ask your private allotd (`allotd --user`)
    #[arg(long, global = true)]
    pub user: bool,
    /// Show JSON, for programs; errors too
    #[arg(long, global = true)]
    pub json: bool,
}

impl GlobalOptions {
    /// The same options as arguments of another program.
    pub fn arguments(&self) -> Vec<OsString> {
        let socket = self.socket.iter().flat_map(|path| ["--socket".as_ref(), path.as_os_str()]);
        let flags = [(self.user, "--user"), (self.json, "--json")];
        let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag.as_ref());
        socket.chain(flags).map(OsStr::to_owned).collect()
    }
}

/// Connects to the allotd that the options, the environment and the machine name, in that order.
pub fn connect(global: &GlobalOptions) -> Result<Client, CliError> {
    Ok(Client::new(socket(global)?))
}

/// Returns that allotd's socket: `--socket`, `--user`, `$ALLOT_SOCKET`, the system's where there is
/// one, else the caller's private one.
pub fn socket(global: &GlobalOptions) -> Result<PathBuf, CliError> {
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
        Ok(found) if found.uid() != own_uid() => {
            Err(CliError::ForeignSocket { socket, owner: found.uid() })
        }
        _ => Ok(socket),
    }
}
