//! What can be typed.

use crate::{
    calibrate, completions, currency, doctor, events, exchange, exp, fund, lend, limit, member,
    negotiate, nice, policy, process, run, status, top, trace, tree, utilities,
};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

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
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Clone)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// The socket of the allotd to ask. Without it: $ALLOT_SOCKET, else the system's
    /// (/run/allot/allotd.sock) where there is one, else your private one
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "user")]
    pub socket: Option<PathBuf>,
    /// Ask your private allotd (`allotd --user`)
    #[arg(long, global = true)]
    pub user: bool,
    /// Show JSON, for programs; errors too
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    Run(run::RunArgs),
    Adopt(process::AdoptArgs),
    Release(process::ReleaseArgs),
    Currency(currency::CurrencyArgs),
    Fund(fund::FundArgs),
    Unfund(fund::UnfundArgs),
    Nice(nice::NiceArgs),
    Join(member::JoinArgs),
    Leave(member::LeaveArgs),
    Exchange(exchange::ExchangeArgs),
    Lend(exchange::LendArgs),
    Negotiate(Box<negotiate::NegotiateArgs>),
    Transfer(lend::TransferArgs),
    Guest(lend::GuestArgs),
    Limit(limit::LimitArgs),
    Policy(policy::PolicyArgs),
    Tree(tree::TreeArgs),
    Top(top::TopArgs),
    Trace(trace::TraceArgs),
    Events(events::EventsArgs),
    Doctor(doctor::DoctorArgs),
    Calibrate(calibrate::CalibrateArgs),
    Status(status::StatusArgs),
    Exp(exp::ExpArgs),
    Completions(completions::CompletionsArgs),
    Lnice(utilities::LniceArgs),
    Lrenice(utilities::LreniceArgs),
    Lsetbase(utilities::LsetbaseArgs),
    Ltix(utilities::LtixArgs),
    Workload(exp::WorkloadArgs),
}
