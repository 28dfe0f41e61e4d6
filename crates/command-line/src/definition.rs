//! A program's arguments as data: the programs that are commands of `allot`
//! describe themselves to it, and its completions cover them.

use crate::error::CliError;
use crate::output;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command as Process, ExitCode};

/// A command with its arguments and its own commands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    name: String,
    about: Option<String>,
    arguments: Vec<Argument>,
    commands: Vec<Definition>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Argument {
    id: String,
    long: Option<String>,
    short: Option<char>,
    help: Option<String>,
    /// True if a value follows; always so for a positional argument.
    takes_value: bool,
    is_path: bool,
    /// The possible values; empty where they cannot be listed.
    choices: Vec<String>,
    repeats: bool,
}

/// The argument, alone, that asks a program for its definition.
const ASKED: &str = "--definition";

impl Definition {
    /// Asks a program for its definition; `None` where it has none.
    pub fn of(program: &Path) -> Option<Definition> {
        let output = Process::new(program).arg(ASKED).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Writes the definition of this program, if that is what its arguments ask for.
    pub fn answer(words: &[OsString], command: &Command) -> Option<Result<ExitCode, CliError>> {
        let asked = words.len() == 2 && words[1] == ASKED;
        asked.then(|| output::json(&Definition::from(command)).map(|()| ExitCode::SUCCESS))
    }
}

impl From<&Command> for Definition {
    fn from(command: &Command) -> Definition {
        let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
        Definition {
            name: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string),
            arguments: arguments.map(Argument::from).collect(),
            commands: commands.map(Definition::from).collect(),
        }
    }
}

impl From<&Arg> for Argument {
    fn from(argument: &Arg) -> Argument {
        let choices = argument.get_possible_values();
        Argument {
            id: argument.get_id().to_string(),
            long: argument.get_long().map(str::to_owned),
            short: argument.get_short(),
            help: argument.get_help().map(ToString::to_string),
            takes_value: argument.is_positional() || argument.get_action().takes_values(),
            is_path: argument.get_value_hint() == ValueHint::AnyPath,
            choices: choices.iter().map(|choice| choice.get_name().to_owned()).collect(),
            repeats: matches!(argument.get_action(), ArgAction::Append | ArgAction::Count),
        }
    }
}

impl From<Definition> for Command {
    fn from(definition: Definition) -> Command {
        let mut command = Command::new(definition.name)
            .args(definition.arguments.into_iter().map(Arg::from))
            .subcommands(definition.commands.into_iter().map(Command::from));
        if let Some(about) = definition.about {
            command = command.about(about);
        }
        command
    }
}

impl From<Argument> for Arg {
    fn from(argument: Argument) -> Arg {
        let action = match (argument.takes_value, argument.repeats) {
            (true, false) => ArgAction::Set,
            (true, true) => ArgAction::Append,
            (false, false) => ArgAction::SetTrue,
            (false, true) => ArgAction::Count,
        };
        let mut arg = Arg::new(argument.id).action(action);
        if let Some(long) = argument.long {
            arg = arg.long(long);
        }
        if let Some(short) = argument.short {
            arg = arg.short(short);
        }
        if let Some(help) = argument.help {
            arg = arg.help(help);
        }
        if argument.is_path {
            arg = arg.value_hint(ValueHint::AnyPath);
        }
        if !argument.choices.is_empty() && argument.takes_value {
            arg = arg.value_parser(PossibleValuesParser::new(argument.choices));
        }
        arg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_the_journey() {
        let run = Command::new("run")
            .about("Run one")
            .arg(Arg::new("name").value_parser(["a", "b"]))
            .arg(Arg::new("out").long("out").value_hint(ValueHint::AnyPath))
            .arg(Arg::new("live").long("live").short('l').action(ArgAction::SetTrue))
            .arg(Arg::new("verbose").short('v').action(ArgAction::Count));
        let hidden = Command::new("workload").hide(true);
        let all = Command::new("exp").subcommands([run, hidden]);
        let definition = Definition::from(&all);
        let text = serde_json::to_string(&definition).expect("it is JSON");
        assert!(!text.contains("workload"), "{text}");
        let read: Definition = serde_json::from_str(&text).expect("it was JSON");
        let again = Command::from(read);
        again.clone().debug_assert();
        assert_eq!(Definition::from(&again), definition);
        assert!(again.try_get_matches_from(["exp", "run", "c"]).is_err(), "only a and b");
    }
}
