//! `allot completions`.

use crate::error::CliError;
use clap::Args;
use clap_complete::Shell;
use std::io::{self, Write};
use std::process::ExitCode;

/// Write a shell's completions for allot
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot completions bash > /usr/share/bash-completion/completions/allot"
)]
pub struct CompletionsArgs {
    /// Which shell
    pub shell: Shell,
}

pub fn completions(args: &CompletionsArgs) -> Result<ExitCode, CliError> {
    // Generated in memory: the generator would panic on a pipe that closes.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "allot", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
