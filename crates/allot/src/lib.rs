//! The command line of allot: what people type, and what they see. Every command is a view over
//! what allotd does; nothing is kept here.

mod calibrate;
mod cli;
mod completions;
mod currency;
mod doctor;
mod events;
mod exchange;
mod external;
mod fund;
pub mod graph;
mod job;
mod lend;
mod limit;
mod member;
mod nice;
mod policy;
mod process;
mod run;
mod status;
pub mod top;
mod trace;
pub mod tree;
mod utilities;

use clap::Parser;
use cli::Cli;
use command_line::error;
use std::ffi::OsString;
use std::process::ExitCode;

/// The command's definition, for help, completions and tests.
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Does what the arguments say; the first is the program's name, which may be one of paper 3's
/// four utilities.
pub fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = utilities::by_program_name(arguments.collect());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(refused) => return error::show_usage(&refused, &arguments),
    };
    match cli.command.run(&cli.global) {
        Ok(code) => code,
        Err(error) => error.show(cli.global.json),
    }
}
