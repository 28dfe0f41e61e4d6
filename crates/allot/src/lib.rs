//! The command line of allot: what people type, and what they see. Every command is a view over
//! what allotd does; nothing is kept here.

mod calibrate;
mod cli;
mod completions;
mod currency;
mod doctor;
mod error;
mod events;
mod exchange;
mod exp;
mod fund;
pub mod graph;
mod lend;
mod limit;
mod live;
mod member;
mod negotiate;
mod nice;
mod numbers;
mod output;
mod people;
mod policy;
mod process;
mod run;
mod session;
mod status;
pub mod style;
pub mod top;
mod trace;
pub mod tree;
mod utilities;

use clap::Parser;
use cli::{Cli, Command};
use error::CliError;
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
    let json = cli.global.json;
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => error.show(json),
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, CliError> {
    let global = &cli.global;
    match cli.command {
        Command::Run(args) => run::run(global, &args),
        Command::Adopt(args) => process::adopt(global, &args),
        Command::Release(args) => process::release(global, &args),
        Command::Currency(args) => currency::currency(global, args.command),
        Command::Fund(args) => fund::fund(global, &args),
        Command::Unfund(args) => fund::unfund(global, &args),
        Command::Nice(args) => nice::nice(global, &args),
        Command::Join(args) => member::join(global, &args),
        Command::Leave(args) => member::leave(global, &args),
        Command::Exchange(args) => exchange::exchange(global, &args),
        Command::Lend(args) => exchange::lend(global, &args),
        Command::Negotiate(args) => negotiate::negotiate(global, &args),
        Command::Transfer(args) => lend::transfer(global, &args),
        Command::Guest(args) => lend::guest(global, &args),
        Command::Limit(args) => limit::limit(global, &args),
        Command::Policy(args) => policy::policy(global, &args),
        Command::Trace(args) => trace::trace(global, &args),
        Command::Tree(args) => tree::tree(global, &args),
        Command::Top(args) => top::top(global, &args),
        Command::Events(args) => events::events(global, &args),
        Command::Doctor(_) => doctor::doctor(global),
        Command::Calibrate(args) => calibrate::calibrate(global, &args),
        Command::Status(_) => status::status(global),
        Command::Exp(args) => exp::exp(global, args.command),
        Command::Completions(args) => completions::completions(&args),
        Command::Lnice(args) => utilities::lnice(global, &args),
        Command::Lrenice(args) => utilities::lrenice(global, &args),
        Command::Lsetbase(args) => utilities::lsetbase(global, &args),
        Command::Ltix(args) => utilities::ltix(global, &args),
        Command::Workload(args) => exp::workload(&args),
    }
}
