//! Errors, their texts for people and programs, and their exit statuses.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use wire::ClientError;

/// Exit status of a command that is refused or fails.
pub const FAILED: u8 = 1;
/// Exit status for wrong arguments.
pub const USAGE: u8 = 2;
/// Exit status of `run`, `nice` and `lnice` where allotd did not take the process (as env(1): failed before COMMAND).
pub const NOT_TAKEN: u8 = 125;
/// Exit status of a command that was found and cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// Exit status where there is no such command.
pub const NO_COMMAND: u8 = 127;
/// The exit status that a shell shows for a program that SIGPIPE ended.
const CLOSED_PIPE: u8 = 128 + 13;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// allotd refused, or did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Arguments that do not make sense.
    #[error("{0}")]
    Usage(String),
    /// The thing named does not exist.
    #[error("{0}")]
    Unknown(String),
    /// The attempt failed.
    #[error("{0}")]
    Failed(String),
    /// The socket of the caller's private allotd belongs to another user.
    #[error(
        "{socket} belongs to uid {owner}, not to you: it is not used. Remove it, or name another \
         socket with --socket"
    )]
    ForeignSocket {
        /// Path of the socket.
        socket: PathBuf,
        /// Uid of its owner.
        owner: u32,
    },
    /// The command was not run, because its process could not be made a client.
    #[error("`{command}` was not run: {cause}{hint}")]
    NotTaken {
        /// Its name.
        command: String,
        /// The reason.
        cause: Box<CliError>,
        /// The option that runs it nevertheless.
        hint: &'static str,
    },
    /// The command cannot be run.
    #[error("cannot run `{command}`: {cause}")]
    Exec {
        /// Its name.
        command: String,
        /// The system's error.
        cause: io::Error,
    },
    /// The program of a command is not installed.
    #[error(
        "`allot {name}` is the program allot-{name}, which is neither beside allot nor in $PATH; \
         `make install` installs it"
    )]
    NoProgram {
        /// The command's name.
        name: String,
    },
    /// Output could not be written, or a file not read.
    #[error("{what}: {cause}")]
    Io {
        /// The attempt.
        what: String,
        /// The system's error.
        cause: io::Error,
    },
}

impl From<io::Error> for CliError {
    fn from(cause: io::Error) -> Self {
        CliError::Io { what: "cannot write the output".to_owned(), cause }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        CliError::from(io::Error::from(error))
    }
}

impl CliError {
    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            CliError::Usage(_) => USAGE,
            CliError::NotTaken { .. } => NOT_TAKEN,
            CliError::Exec { cause, .. } if cause.kind() == io::ErrorKind::NotFound => NO_COMMAND,
            CliError::Exec { .. } => CANNOT_RUN,
            CliError::NoProgram { .. } => NO_COMMAND,
            CliError::Io { cause, .. } if cause.kind() == io::ErrorKind::BrokenPipe => CLOSED_PIPE,
            _ => FAILED,
        }
    }

    /// A short, stable word for programs: allotd's, or one of the command line's.
    fn code(&self) -> &str {
        match self {
            CliError::Client(ClientError::Refused(error)) => error.code.as_str(),
            CliError::Client(ClientError::Unreachable { .. }) => "unreachable",
            CliError::Client(ClientError::Garbled(_)) => "garbled",
            CliError::Usage(_) => "usage",
            CliError::Unknown(_) => "unknown",
            CliError::Failed(_) => "failed",
            CliError::ForeignSocket { .. } => "forbidden",
            CliError::NotTaken { cause, .. } => cause.code(),
            CliError::Exec { .. } => "exec",
            CliError::NoProgram { .. } => "exec",
            CliError::Io { .. } => "io",
        }
    }

    /// Writes the error on standard error, unless the reader of the output has gone.
    pub fn show(&self, json: bool) -> ExitCode {
        let status = self.status();
        if status != CLOSED_PIPE {
            say(json, self.code(), &self.to_string());
        }
        ExitCode::from(status)
    }
}

/// Shows clap's answer: help and version on standard output, an error on standard error, as JSON
/// where `--json` is among the arguments.
pub fn show_usage(refused: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if !refused.use_stderr() {
        let _ = refused.print();
        return ExitCode::SUCCESS;
    }
    let json = arguments.iter().take_while(|own| *own != "--").any(|own| own == "--json");
    let text = refused.render().to_string();
    say(json, "usage", text.trim_start_matches("error: ").trim_end());
    ExitCode::from(USAGE)
}

/// Writes an error on standard error. Nobody is left to hear that this failed.
pub fn say(json: bool, code: &str, message: &str) {
    let line = if json {
        serde_json::json!({ "error": { "code": code, "message": message } }).to_string()
    } else {
        format!("allot: {message}")
    };
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a warning on standard error; the command goes on.
pub fn warn(message: &str) {
    let _ = writeln!(io::stderr(), "allot: {message}");
}
