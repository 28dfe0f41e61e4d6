//! `allot join` and `allot leave`: a running thread, process or cgroup changes its client (paper
//! 2's `chcpures`).

use clap::Args;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use wire::{CurrencyRef, MemberRef, Operation};

/// Let a running thread, process or cgroup consume as part of another client
///
/// It takes effect at once. You may move what is yours, into a client of yours or one that you
/// may issue from (`i`). Its own client is kept for its return (`allot leave`).
#[derive(Args)]
#[command(after_help = "Example:\n  allot join --process 4711 --to pid:4700\n  \
        allot join --thread 4712 --to '#12'\n  allot join --cgroup /build --to '#12'")]
pub struct JoinArgs {
    #[command(flatten)]
    pub member: MemberArgs,
    /// The client that it joins: `#ID`, pid:PID, thread:TID, cgroup:PATH, kernel or rest
    #[arg(long, value_name = "CLIENT")]
    pub to: String,
}

/// Let a thread, process or cgroup that has joined a client go back to where it belongs
#[derive(Args)]
#[command(after_help = "Example:\n  allot leave --process 4711")]
pub struct LeaveArgs {
    #[command(flatten)]
    pub member: MemberArgs,
}

/// Who is meant.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct MemberArgs {
    /// One thread
    #[arg(long, value_name = "TID", value_parser = argument_parsing::pid)]
    pub thread: Option<u32>,
    /// A process: all its threads that have not joined or founded a client themselves
    #[arg(long, value_name = "PID", value_parser = argument_parsing::pid)]
    pub process: Option<u32>,
    /// A cgroup (v2): the processes in it and below that are no clients themselves
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
}

impl MemberArgs {
    fn named(&self) -> Option<MemberRef> {
        let thread = self.thread.map(MemberRef::Thread);
        let process = self.process.map(MemberRef::Process);
        thread.or(process).or_else(|| self.cgroup.clone().map(MemberRef::Cgroup))
    }
}

/// Joins.
pub fn join(global: &GlobalOptions, args: &JoinArgs) -> Result<ExitCode, CliError> {
    let (member, client) = (args.member.named(), CurrencyRef::from(args.to.as_str()));
    let done = connection::connect(global)?.operate(Operation::Join { member, client })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves.
pub fn leave(global: &GlobalOptions, args: &LeaveArgs) -> Result<ExitCode, CliError> {
    let member = args.member.named();
    let done = connection::connect(global)?.operate(Operation::Leave { member })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}
