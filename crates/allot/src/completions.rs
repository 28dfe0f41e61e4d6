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
    clap_complete::generate(args.shell, &mut visible(), "allot", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command without what people do not type.
fn visible() -> clap::Command {
    let all = crate::command();
    clap::Command::new("allot")
        .about(all.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned())
}
