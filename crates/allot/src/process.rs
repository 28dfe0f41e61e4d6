//! `allot adopt` and `allot release`: processes that run already.

use crate::job;
use crate::run::FundingArgs;
use clap::Args;
use command_line::error;
use command_line::style::clean;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use wire::{CurrencyRef, Operation};

/// Make a running process, or a cgroup, a client
///
/// A process's forks become clients too, funded by whoever funds it. A cgroup's client has the
/// processes in it and below that are no clients themselves.
#[derive(Args)]
#[command(after_help = "Example:\n  allot adopt 4711 --from build --tickets 500\n  \
        allot adopt --cgroup /build --from build")]
pub struct AdoptArgs {
    /// The process
    #[arg(value_parser = argument_parsing::pid, required_unless_present = "cgroup")]
    pub pid: Option<u32>,
    /// A cgroup (v2) by its directory, whose owner you are
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub cgroup: Option<String>,
    #[command(flatten)]
    pub funding: FundingArgs,
}

/// Manage a process no longer
///
/// It goes on under the kernel's own policy.
#[derive(Args)]
#[command(after_help = "Example:\n  allot release 4711\n  allot release '#12'")]
pub struct ReleaseArgs {
    /// The process, or its client (`#ID`, `pid:PID`)
    #[arg(value_name = "PID|CLIENT")]
    pub client: String,
}

pub fn adopt(global: &GlobalOptions, args: &AdoptArgs) -> Result<ExitCode, CliError> {
    let from = args.funding.from.as_deref().map(CurrencyRef::from);
    let funding = args.funding.amounts();
    let (operation, who) = match (&args.cgroup, args.pid) {
        (Some(cgroup), _) => {
            let cgroup = cgroup.clone();
            let who = format!("cgroup {}", clean(&cgroup));
            (Operation::AdoptCgroup { cgroup, from, funding }, who)
        }
        (None, pid) => {
            let who = pid.map_or(String::new(), |pid| format!("process {pid}"));
            (Operation::Adopt { pid, start_time_ticks: None, from, funding }, who)
        }
    };
    let done = connection::connect(global)?.operate(operation)?;
    let created = done.results.first().and_then(|result| result.created);
    let news = created.map(|id| format!("{who} is client #{id}"));
    output::done(global, &done, news.as_deref())?;
    if let Some(pid) = args.pid.filter(|pid| job::is_foreground_job(*pid))
        && job::holds_processes(global)
    {
        error::warn(&format!(
            "process {pid} is not held while a shell runs it in the foreground: the shell would take a stop for \
             its user's own. `bg` puts it in the background; `allot run` starts a command so that it can be held"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn release(global: &GlobalOptions, args: &ReleaseArgs) -> Result<ExitCode, CliError> {
    let client = client_ref(&args.client);
    let done = connection::connect(global)?.operate(Operation::Release { client })?;
    output::done(global, &done, None)?;
    Ok(ExitCode::SUCCESS)
}

/// The client that a text names; a bare number is a process.
pub fn client_ref(text: &str) -> CurrencyRef {
    match argument_parsing::pid(text) {
        Ok(pid) => CurrencyRef(format!("pid:{pid}")),
        Err(_) => CurrencyRef(text.to_owned()),
    }
}
