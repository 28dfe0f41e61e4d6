//! What goes wrong, how it is said, and with which exit status.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use wire::ClientError;

/// What a command answers when it is refused or fails.
pub const FAILED: u8 = 1;
/// For wrong arguments.
pub const USAGE: u8 = 2;
/// `run`, `nice`, `lnice`: allotd did not take the process (as env(1): failed before COMMAND).
pub const NOT_TAKEN: u8 = 125;
/// The command was found but cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// There is no such command.
pub const NO_COMMAND: u8 = 127;
/// What a shell shows for a program that SIGPIPE ended.
const CLOSED_PIPE: u8 = 128 + 13;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// No answer, or no.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Arguments that do not make sense.
    #[error("{0}")]
    Usage(String),
    /// Something that is not there.
    #[error("{0}")]
    Unknown(String),
    /// Something that did not work.
    #[error("{0}")]
    Failed(String),
    /// Somebody else sits where the caller's private allotd should.
    #[error(
        "{socket} belongs to uid {owner}, not to you: it is not used. Remove it, or name another \
         socket with --socket"
    )]
    ForeignSocket {
        /// Where.
        socket: PathBuf,
        /// Whose.
        owner: u32,
    },
    /// The command was not run because its process could not be made a client.
    #[error("`{command}` was not run: {cause}{hint}")]
    NotTaken {
        /// Which.
        command: String,
        /// Why.
        cause: Box<CliError>,
        /// What would run it nevertheless.
        hint: &'static str,
    },
    /// The command cannot be run.
    #[error("cannot run `{command}`: {cause}")]
    Exec {
        /// Which.
        command: String,
        /// What the system said.
        cause: io::Error,
    },
    /// An experiment did not end with a report.
    #[error("{message}")]
    Experiment {
        /// Why.
        message: String,
        /// With which exit status.
        status: u8,
    },
    /// Output could not be written, or a file not read.
    #[error("{what}: {cause}")]
    Io {
        /// What was done.
        what: String,
        /// What the system said.
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
            CliError::Experiment { status, .. } => *status,
            CliError::Io { cause, .. } if cause.kind() == io::ErrorKind::BrokenPipe => CLOSED_PIPE,
            _ => FAILED,
        }
    }

    /// A short, stable word for programs: allotd's, or one of ours.
    fn code(&self) -> &str {
        match self {
            CliError::Client(ClientError::Refused(trouble)) => &trouble.code,
            CliError::Client(ClientError::Unreachable { .. }) => "unreachable",
            CliError::Client(ClientError::Garbled(_)) => "garbled",
            CliError::Usage(_) => "usage",
            CliError::Unknown(_) => "unknown",
            CliError::Failed(_) => "failed",
            CliError::ForeignSocket { .. } => "forbidden",
            CliError::NotTaken { cause, .. } => cause.code(),
            CliError::Exec { .. } => "exec",
            CliError::Experiment { .. } => "experiment",
            CliError::Io { .. } => "io",
        }
    }

    /// Says it on standard error. Nothing is said to a reader who has gone.
    pub fn show(&self, json: bool) -> ExitCode {
        let status = self.status();
        if status != CLOSED_PIPE {
            say(json, self.code(), &self.to_string());
        }
        ExitCode::from(status)
    }
}

/// Says what clap has to say: help and version on standard output, what is wrong on standard
/// error, as JSON where `--json` was among the arguments.
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

/// Says on standard error, the way every error is said; who cannot hear it is not told again.
fn say(json: bool, code: &str, message: &str) {
    let line = if json {
        serde_json::json!({ "error": { "code": code, "message": message } }).to_string()
    } else {
        format!("allot: {message}")
    };
    let _ = writeln!(io::stderr(), "{line}");
}

/// A warning on standard error; what was asked goes on.
pub fn warn(message: &str) {
    let _ = writeln!(io::stderr(), "allot: {message}");
}
