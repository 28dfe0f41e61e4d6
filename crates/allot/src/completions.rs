//! `allot completions`.

use crate::external;
use clap::Args;
use clap_complete::Shell;
use command_line::CliError;
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

pub fn completions(args: &CompletionsArgs, all: &clap::Command) -> Result<ExitCode, CliError> {
    // Generated in memory: the generator would panic on a pipe that closes.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(all), "allot", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command without what people do not type, and with the commands of other programs.
fn visible(all: &clap::Command) -> clap::Command {
    let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new("allot")
        .about(all.get_about().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(commands.map(external::described))
}
