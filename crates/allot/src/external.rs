//! Commands that are programs of their own: `allot NAME` runs `allot-NAME`.

use clap::Args;
use command_line::{CliError, Definition, GlobalOptions, programs};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// All that is typed after the command's name; the program reads it.
#[derive(Args)]
pub struct ExternalArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    program_arguments: Vec<OsString>,
}

/// Replaces this process by the program `allot-NAME`. Returns only where that fails.
pub fn exec(name: &str, global: &GlobalOptions, args: &ExternalArgs) -> Result<ExitCode, CliError> {
    let program = format!("allot-{name}");
    let mut command = Command::new(programs::path(&program));
    let cause = command.args(global.arguments()).args(&args.program_arguments).exec();
    Err(match cause.kind() {
        io::ErrorKind::NotFound => CliError::NoProgram { name: name.to_owned() },
        _ => CliError::Exec { command: program, cause },
    })
}

/// The command with the options and commands that its program has, where it is another program's
/// and that is installed.
pub fn described(command: &clap::Command) -> clap::Command {
    let is_external = command.get_arguments().any(|it| it.get_id() == "program_arguments");
    let name = command.get_name();
    let program = is_external.then(|| programs::path(&format!("allot-{name}")));
    let definition = program.and_then(|program| Definition::of(&program));
    definition.map_or_else(|| command.clone(), |it| clap::Command::from(it).name(name.to_owned()))
}
