//! The command line of allotd.

use crate::registrations::ENFORCERS;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Parser, Subcommand, ValueEnum};
use enforcement::Choice;
use enforcer::{CpuSettings, HoldMethod, MemorySettings, Settings};
use std::collections::BTreeMap;
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
    /// The socket of the machine's allotd, to which a private one defers while both would hold processes
    #[arg(long, value_name = "PATH", default_value_os_t = wire::default_socket())]
    pub machine_socket: PathBuf,
    /// Algorithm that chooses who runs next
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
    /// Enforcer of cpu tickets
    #[arg(long, value_name = "ENFORCER", default_value = "auto", value_parser = enforcer_names())]
    pub enforcer: String,
    /// A thread that waits for a lock of the kernel does not lend its tickets to the holder (sched-ext)
    #[arg(long)]
    pub no_transfer: bool,
    /// How the losers of a draw wait (user-level)
    #[arg(long, value_enum, default_value_t = HoldName::Auto)]
    pub hold: HoldName,
    /// Enforcers of memory and of disks, once anybody has tickets of them
    #[arg(long, value_enum, default_value_t = OthersName::Auto)]
    pub others: OthersName,
    /// Policy that chooses who loses memory when there is too little: min-funding, inverse-lottery or fault-share; or
    /// kernel, which chooses by itself within everybody's share
    #[arg(long, value_name = "POLICY", default_value = "min-funding", value_parser = memory_policy)]
    pub memory_policy: MemoryPolicy,
    /// Part of a client's unused memory that min-funding does not count, in thousandths
    #[arg(long, value_name = "N", default_value_t = 750,
        value_parser = clap::value_parser!(u64).range(0..=999))]
    pub memory_idle_tax: u64,
    /// The memory tickets of who has been idle for so long do not count
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub memory_idle_seconds: u64,
    /// Most memory that all clients together may have, as in 24G (not where systemd owns the
    /// cgroup tree) [default: all there is]
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    pub memory_limit: Option<u64>,
    /// Thresholds for the memory of all guests together, low and high: above high theirs goes
    /// first, below low the hosts' does, as in 5%,10%
    #[arg(long, value_name = "LOW,HIGH", value_parser = thresholds)]
    pub guest_memory: Option<Thresholds>,
    /// Where speeds of disks are kept that `allotd calibrate` has measured
    #[arg(long, value_name = "FILE", default_value = disk::DEFAULT_DISKS_FILE)]
    pub disks_file: PathBuf,
    /// A setting of a kind of resource that has no option here, as in token.seats=4
    #[arg(long = "set", value_name = "KIND.NAME=VALUE", value_parser = own_setting)]
    pub own: Vec<(String, String)>,
    /// The user whom the keeper of the ledger becomes, by name or number (not for a private allotd)
    /// [default: allot, where there is that user]
    #[arg(long, value_name = "USER", conflicts_with = "user")]
    pub keeper_user: Option<String>,
    /// End when the process that started this one ends
    #[arg(long)]
    pub with_parent: bool,
    /// Put a damaged journal aside and go on with what of it is sound
    #[arg(long)]
    pub recover: bool,
}

/// The commands of allotd besides serving.
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
    /// Enforce what the parent asks for; started by allotd itself
    #[command(hide = true)]
    Enforce,
    /// Be a process of an enforcer's own; started by allotd itself
    #[command(hide = true)]
    Helper {
        /// The enforcer
        of: String,
    },
    /// Speak HTTP with callers, without rights; started by allotd itself
    #[command(hide = true)]
    Front,
}

/// The names that `--enforcer` takes, with what each is.
fn enforcer_names() -> impl clap::builder::TypedValueParser<Value = String> {
    let best = "The best that this machine offers, in the order below; a private allotd has cgroup or \
                user-level";
    let nobody = "Nobody: the ledger is kept and nothing is touched";
    let named = |name: &'static str, help: &'static str| PossibleValue::new(name).help(help);
    let of_cpu = ENFORCERS.iter().filter(|it| it.serves(ledger::KindName::CPU));
    let all = std::iter::once(named("auto", best))
        .chain(of_cpu.map(|it| named(it.name, it.summary)))
        .chain([named("none", nobody)]);
    PossibleValuesParser::new(all)
}

/// The enforcers of memory and disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OthersName {
    /// cgroup v2, where this machine has it
    Auto,
    /// Nobody: such tickets are kept and have no effect
    None,
}

/// The policy that chooses who loses memory when there is too little; `None`: the kernel chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPolicy(pub Option<policy::ReclaimName>);

fn memory_policy(text: &str) -> Result<MemoryPolicy, String> {
    match text {
        "kernel" => Ok(MemoryPolicy(None)),
        name => name
            .parse()
            .map(|name| MemoryPolicy(Some(name)))
            .map_err(|error: policy::reclaim::UnknownReclaim| format!("{error}, or kernel")),
    }
}

/// A size, as in 24G; K, M, G and T are powers of 1024.
fn size_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_size::Config::new().with_binary().parse_size(text);
    bytes.map_err(|error| format!("{error}; write a size as in 24G"))
}

/// Two parts of all memory, in hundredths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The lower.
    pub low: u64,
    /// The higher.
    pub high: u64,
}

fn thresholds(text: &str) -> Result<Thresholds, String> {
    let part = |text: &str| text.strip_suffix('%')?.parse().ok().filter(|part| *part <= 100);
    let parts = text.split_once(',').map(|(low, high)| (part(low), part(high)));
    match parts {
        Some((Some(low), Some(high))) if low <= high => Ok(Thresholds { low, high }),
        _ => Err("write two parts of memory, the lower first, as in 5%,10%".to_owned()),
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

fn own_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if name.contains('.') => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write KIND.NAME=VALUE, as in token.seats=4".to_owned()),
    }
}

impl Options {
    /// Returns the choice of the enforcer.
    pub fn choice(&self) -> Choice {
        match self.enforcer.as_str() {
            "auto" => Choice::Best,
            "none" => Choice::Nobody,
            name => Choice::Named(name.to_owned()),
        }
    }

    /// The settings of all enforcers. Their records are kept at `records`.
    pub fn settings(&self, program: PathBuf, records: PathBuf, seed: u64) -> Settings {
        let cpu = CpuSettings {
            algorithm: self.policy,
            quantum_ns: self.quantum_ms.map(|ms| ms * 1_000_000),
            cpus: self.cpus.as_ref().map(|list| list.0.clone()),
            hold: match self.hold {
                HoldName::Auto => HoldMethod::Auto,
                HoldName::Idle => HoldMethod::Idle,
                HoldName::Stop => HoldMethod::Stop,
            },
            transfers: !self.no_transfer,
        };
        Settings {
            is_private: self.user,
            program,
            records,
            seed,
            cpu,
            memory: self.memory_settings(),
            disks_file: self.disks_file.clone(),
            own: self.own.iter().cloned().collect::<BTreeMap<_, _>>(),
        }
    }

    fn memory_settings(&self) -> MemorySettings {
        let total_bytes = observe::machine().memory_total_bytes;
        let there = total_bytes.unwrap_or(u64::MAX);
        let all_bytes = self.memory_limit.unwrap_or(there).min(there);
        let part = |hundredths: u64| all_bytes / 100 * hundredths;
        MemorySettings {
            policy: self.memory_policy.0,
            idle_tax: self.memory_idle_tax,
            idle_ns: self.memory_idle_seconds * 1_000_000_000,
            limit_bytes: self.memory_limit,
            guests_bytes: self.guest_memory.map(|parts| (part(parts.low), part(parts.high))),
            most_bytes: self.memory_to_promise_kib().map(|kib| kib * 1024),
        }
    }

    /// How much memory hard tickets from base can promise: seven eighths of what clients may have. The
    /// kernel has the rest, and who has no tickets (paper 1, 6.3: of 8 MB about 4.2 could be reserved).
    /// A private allotd shares no memory and promises none.
    pub fn memory_to_promise_kib(&self) -> Option<u64> {
        if self.user {
            return None;
        }
        let total = observe::machine().memory_total_bytes;
        let most_bytes = match (self.memory_limit, total) {
            (Some(limit), Some(total)) => limit.min(total),
            (limit, total) => limit.or(total)?,
        };
        Some((most_bytes / 8 * 7 / 1024).clamp(1, ledger::MEMORY_KIB_MAX))
    }
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
    fn memory_policies_and_thresholds() {
        assert_eq!(memory_policy("kernel"), Ok(MemoryPolicy(None)));
        let name = policy::ReclaimName::InverseLottery;
        assert_eq!(memory_policy("inverse-lottery"), Ok(MemoryPolicy(Some(name))));
        assert!(memory_policy("lru").unwrap_err().ends_with("or kernel"));
        assert_eq!(size_bytes("24G"), Ok(24 << 30));
        assert!(size_bytes("much").unwrap_err().contains("as in 24G"));
        assert_eq!(thresholds("5%,10%"), Ok(Thresholds { low: 5, high: 10 }));
        for bad in ["", "5,10", "10%,5%", "5%", "5%,101%", "-1%,5%"] {
            assert!(thresholds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
