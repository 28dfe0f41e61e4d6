//! `allot policy`: who is next.

use clap::{Args, ValueEnum};
use command_line::{CliError, GlobalOptions, connection, output};
use std::process::ExitCode;

/// Show who chooses the next client, or change it without stopping
///
/// The shares stay what the tickets say; the policies differ in how evenly they come. Only the
/// superuser changes it, and the owner of a private allotd.
#[derive(Args)]
#[command(after_help = "Example:\n  allot policy\n  allot policy stride")]
pub struct PolicyArgs {
    /// From now on
    #[arg(value_enum)]
    pub policy: Option<PolicyChoice>,
}

/// The policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyChoice {
    /// Wins are random
    Lottery,
    /// The same shares without chance
    Stride,
    /// Guarantees within a round (Eclipse/BSD's)
    MtrLs,
}

impl PolicyChoice {
    fn name(self) -> &'static str {
        match self {
            PolicyChoice::Lottery => "lottery",
            PolicyChoice::Stride => "stride",
            PolicyChoice::MtrLs => "mtr-ls",
        }
    }
}

/// Shows or sets it.
pub fn policy(global: &GlobalOptions, args: &PolicyArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
    let set = match args.policy {
        Some(policy) => client.set_policy(policy.name())?,
        None => client.policy()?,
    };
    if global.json {
        output::json(&set)?;
    } else {
        output::text(&set.policy)?;
    }
    Ok(ExitCode::SUCCESS)
}
