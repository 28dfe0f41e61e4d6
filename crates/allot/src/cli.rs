//! The commands, one line each.

use crate::{
    calibrate, completions, currency, doctor, events, exchange, external, fund, lend, limit,
    member, nice, policy, process, run, status, top, trace, tree, utilities,
};
use clap::{CommandFactory, Parser, Subcommand};
use command_line::{CliError, GlobalOptions};
use std::process::ExitCode;

/// Share this machine's CPU, memory, disk and network by tickets.
#[derive(Parser)]
#[command(
    name = "allot",
    version,
    max_term_width = 100,
    after_help = "Example:\n  allot run --tickets 500 -- make -j8\n  allot tree\n\n\
        Exit status: 1 refused or failed, 2 wrong usage; `run`, `nice` and `lnice` end with the \
        command's own, or 125 where allotd did not take it, 126 where it cannot be run, 127 \
        where there is no such command."
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalOptions,
    #[command(subcommand)]
    pub command: Command,
}

/// Registers each command: its name, its arguments, and the function that runs it.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident($arguments:ty) => $run:expr,)+) => {
        /// The commands.
        #[derive(Subcommand)]
        pub enum Command {
            $($(#[$attribute])* $name($arguments),)+
        }

        impl Command {
            /// Does what the command says.
            pub fn run(&self, global: &GlobalOptions) -> Result<ExitCode, CliError> {
                match self {
                    $(Command::$name(arguments) => {
                        let run: fn(&GlobalOptions, &$arguments) -> _ = $run;
                        run(global, arguments)
                    })+
                }
            }
        }
    };
}

commands! {
    Run(run::RunArgs) => run::run,
    Adopt(process::AdoptArgs) => process::adopt,
    Release(process::ReleaseArgs) => process::release,
    Currency(currency::CurrencyArgs) => currency::currency,
    Fund(fund::FundArgs) => fund::fund,
    Unfund(fund::UnfundArgs) => fund::unfund,
    Nice(nice::NiceArgs) => nice::nice,
    Join(member::JoinArgs) => member::join,
    Leave(member::LeaveArgs) => member::leave,
    Exchange(exchange::ExchangeArgs) => exchange::exchange,
    Lend(exchange::LendArgs) => exchange::lend,
    /// Trade tickets for clients that know nothing of them
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  allot negotiate --for build --progress file:/run/build/objects\n  \
            allot negotiate --progress lines -- make -j8\n\n\
            `allot negotiate --help` lists its options."
    )]
    Negotiate(external::ExternalArgs) => |global, args| external::exec("negotiate", global, args),
    Transfer(lend::TransferArgs) => lend::transfer,
    Guest(lend::GuestArgs) => lend::guest,
    Limit(limit::LimitArgs) => limit::limit,
    Policy(policy::PolicyArgs) => policy::policy,
    Tree(tree::TreeArgs) => tree::tree,
    Top(top::TopArgs) => top::top,
    Trace(trace::TraceArgs) => trace::trace,
    Events(events::EventsArgs) => events::events,
    Doctor(doctor::DoctorArgs) => doctor::doctor,
    Calibrate(calibrate::CalibrateArgs) => calibrate::calibrate,
    Status(status::StatusArgs) => status::status,
    /// Run the papers' experiments, on real processes or in virtual time
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  allot exp list\n  allot exp run cpu-hierarchy --live\n  \
            allot exp run disk-shares --simulate\n\n`allot exp --help` lists its commands."
    )]
    Exp(external::ExternalArgs) => |global, args| external::exec("exp", global, args),
    Completions(completions::CompletionsArgs) => |_, args| {
        completions::completions(args, &Cli::command())
    },
    Lnice(utilities::LniceArgs) => utilities::lnice,
    Lrenice(utilities::LreniceArgs) => utilities::lrenice,
    Lsetbase(utilities::LsetbaseArgs) => utilities::lsetbase,
    Ltix(utilities::LtixArgs) => utilities::ltix,
}
