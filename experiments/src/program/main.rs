//! The program `allot-exp`, which `allot exp` runs: the papers' figures and tables, on real
//! processes or in virtual time.

mod arguments;
mod failure;
mod list;
mod live;
mod run;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use command_line::{Definition, error};
use failure::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(answered) = Definition::answer(&words, &Arguments::command()) {
        return answered.unwrap_or_else(|error| error.show(false));
    }
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(refused) => return error::show_usage(&refused, &words),
    };
    let json = arguments.global.json;
    dispatch(arguments).unwrap_or_else(|failure| failure.show(json))
}

fn dispatch(arguments: Arguments) -> Result<ExitCode, Failure> {
    let global = &arguments.global;
    match arguments.command {
        Command::List => list::list(global),
        Command::Run(args) => run::run(global, &args),
        Command::Workload { arguments } => {
            Ok(ExitCode::from(allot_experiments::workload_main(&arguments)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_sound() {
        Arguments::command().debug_assert();
    }

    /// Each line of an example is a command that can be typed.
    #[test]
    fn examples_can_be_typed() {
        let all = Arguments::command();
        let commands = all.get_subcommands().chain([&all]);
        let mut typed = 0;
        for command in commands.filter(|command| !command.is_hide_set()) {
            let examples = command.get_after_help().expect("an example").to_string();
            for line in examples.lines().filter_map(|line| line.trim().strip_prefix("allot exp ")) {
                let words = ["allot-exp"].into_iter().chain(line.split_whitespace());
                let parsed = Arguments::try_parse_from(words);
                assert!(parsed.is_ok(), "`{line}`: {}", parsed.err().unwrap());
                typed += 1;
            }
        }
        assert!(typed >= 8, "only {typed} examples were tried");
    }
}
