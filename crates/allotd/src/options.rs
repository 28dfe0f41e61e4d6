//! The command line of allotd.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The daemon of allot: keeps the ledger and shares the machine by it.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "allotd",
    version,
    about,
    after_help = "Example: allotd --user            a private allotd for your own processes\n\
                  Example: allotd --policy stride  the system's, with deterministic shares"
)]
pub struct Options {
    /// Something else than to serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Be private: manage the processes that you are given and no others
    #[arg(long)]
    pub user: bool,
    /// Where the journal is kept [default: /var/lib/allot; private: $XDG_STATE_HOME/allot or
    /// ~/.local/state/allot]
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where to listen [default: /run/allot/allotd.sock; private: $XDG_RUNTIME_DIR/allot/
    /// allotd.sock or /tmp/allot-UID/allotd.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The funding policy: who gets which currency (not for a private allotd)
    #[arg(long, value_name = "FILE", default_value = "/etc/allot/policy.toml")]
    pub funding_policy: PathBuf,
    /// Who draws
    #[arg(long, value_name = "POLICY", default_value = "lottery")]
    pub policy: policy::PolicyName,
    /// Of the policy's random numbers [default: from the system]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Milliseconds between draws, 1 to 1000; sched-ext: to 100 [default: 10; sched-ext: 4]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub quantum_ms: Option<u64>,
    /// The CPUs to share out, as in 0,2-3, of user-level; the others share out all [default: all
    /// that allotd may use]
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    pub cpus: Option<CpuList>,
    /// Who enforces cpu tickets
    #[arg(long, value_enum, default_value_t = EnforcerName::Auto)]
    pub enforcer: EnforcerName,
    /// Who waits for a lock of the kernel does not lend its tickets to who holds it (sched-ext)
    #[arg(long)]
    pub no_transfer: bool,
    /// How the losers of a draw wait (user-level)
    #[arg(long, value_enum, default_value_t = HoldName::Auto)]
    pub hold: HoldName,
    /// End when the process that started this one ends
    #[arg(long)]
    pub with_parent: bool,
    /// Put a damaged journal aside and go on with what of it is sound
    #[arg(long)]
    pub recover: bool,
}

/// What allotd does besides serving.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Say what this machine offers, and what allot makes of it
    Doctor {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure how fast a disk is, and keep that for its shares (as `allot calibrate`)
    Calibrate(crate::calibrate::CalibrateArgs),
    /// Restore processes when allotd dies; started by allotd itself
    #[command(hide = true)]
    Guardian,
}

/// Who enforces cpu tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EnforcerName {
    /// The best that this machine offers: sched-ext, else cgroup, else user-level; a private
    /// allotd has user-level
    Auto,
    /// The kernel: it draws at every wake-up and every quantum, among all threads of the machine
    SchedExt,
    /// The kernel's own weights, by cgroup v2
    Cgroup,
    /// A lottery over real processes, in user space
    UserLevel,
    /// Nobody: the ledger is kept and nothing is touched
    None,
}

impl EnforcerName {
    /// As users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            EnforcerName::Auto => "auto",
            EnforcerName::SchedExt => "sched-ext",
            EnforcerName::Cgroup => "cgroup",
            EnforcerName::UserLevel => "user-level",
            EnforcerName::None => "none",
        }
    }
}

/// How the losers of a draw wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HoldName {
    /// In SCHED_IDLE where we may bring them back from it, else stopped
    Auto,
    /// In SCHED_IDLE: they use what nobody else wants
    Idle,
    /// Stopped
    Stop,
}

/// Numbers of CPUs, in order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<u32>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    const CPU_MAX: u32 = 8191;
    let bad = |part: &str| format!("`{part}` is no CPU or range of CPUs; write 0,2-3");
    let mut cpus = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad(part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last > CPU_MAX {
            return Err(bad(part));
        }
        cpus.extend(first..=last);
    }
    Ok(CpuList(cpus.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(cpu_list("0,2-3,2"), Ok(CpuList(vec![0, 2, 3])));
        for bad in ["", "a", "3-2", "1,,2", "-1", "99999"] {
            assert!(cpu_list(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
