//! How commands fail, and their exit statuses.

use allot_experiments::ExperimentError;
use command_line::{CliError, error};
use std::io;
use std::process::ExitCode;

/// The reason why a command did not do what was asked.
pub enum Failure {
    /// An experiment ended without a report.
    Experiment(ExperimentError),
    /// Any other, such as output that could not be written.
    Other(CliError),
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Failure {
        Failure::Experiment(error)
    }
}

impl From<CliError> for Failure {
    fn from(error: CliError) -> Failure {
        Failure::Other(error)
    }
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Failure {
        Failure::Other(cause.into())
    }
}

impl Failure {
    /// Says it on standard error. Returns the exit status.
    pub fn show(&self, json: bool) -> ExitCode {
        match self {
            Failure::Experiment(failed) => {
                error::say(json, "experiment", &failed.to_string());
                ExitCode::from(failed.exit_status())
            }
            Failure::Other(error) => error.show(json),
        }
    }
}
