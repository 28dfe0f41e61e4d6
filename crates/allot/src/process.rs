//! `allot adopt` and `allot release`: processes that run already.

use crate::job;
use crate::run::FundingArgs;
use clap::Args;
use command_line::error;
use command_line::style::clean;
use command_line::{CliError, GlobalOptions, argument_parsing, connection, output};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wire::{Client, ClientError, CurrencyRef, Operation};

/// How long the enforcer may take to see what it was given, before nothing is said of it.
const PATIENCE: Duration = Duration::from_millis(500);

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
    let client = connection::connect(global)?;
    let before = client.status()?.cpu.generation;
    let done = client.operate(operation)?;
    let created = done.results.first().and_then(|result| result.created);
    let news = created.map(|id| format!("{who} is client #{id}"));
    output::done(global, &done, news.as_deref())?;
    let Some(pid) = args.pid else { return Ok(ExitCode::SUCCESS) };
    if job::is_foreground_job(pid) && job::holds_processes(global) {
        error::warn(&format!(
            "process {pid} is not held while a shell runs it in the foreground: the shell would take a stop for \
             its user's own. `bg` puts it in the background; `allot run` starts a command so that it can be held"
        ));
    } else if let Ok(Some(why)) = why_not_held(&client, pid, before) {
        error::warn(&format!("process {pid} does not get its share: {}", clean(&why)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The enforcer's word on a process that it was given after a generation of its plan, where that is not
/// that it is held.
fn why_not_held(client: &Client, pid: u32, before: u64) -> Result<Option<String>, ClientError> {
    let (begins, since) = (format!("pid {pid} ("), Instant::now());
    loop {
        let cpu = client.status()?.cpu;
        let mut of_process = cpu.drift.iter().filter(|drift| drift.starts_with(&begins));
        let note = of_process.find_map(|drift| Some(drift.split_once("): ")?.1.to_owned()));
        let has_plan = cpu.name == "none" || cpu.generation > before;
        if note.is_some() || has_plan || since.elapsed() > PATIENCE {
            return Ok(note);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
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
