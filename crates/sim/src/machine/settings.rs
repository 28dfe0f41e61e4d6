//! How a machine is made.

use policy::PolicyName;
use policy::idle::IdleOptions;

use super::disk::DiskSettings;
use super::link::LinkSettings;

/// When the memory tickets of a client count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketsCount {
    /// Always, as paper 1 has it in the end.
    Always,
    /// While one of its threads runs or waits for a CPU: what paper 1, figure 6, warns of.
    WhileRunnable,
    /// Until their holder has been idle for long, and again when it is busy ([`policy::idle`]): paper 1's "more
    /// complete implementation".
    UnlessIdle(IdleOptions),
}

/// Memory, and when it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySettings {
    /// How many pages of 4 KiB there are, those of the kernel aside.
    pub pages: u64,
    /// With fewer free ones than this, pages are taken,
    pub free_low_pages: u64,
    /// until so many are free or about to be. What is beyond them is what base's memory tickets divide.
    pub free_high_pages: u64,
    /// When tickets count.
    pub tickets: TicketsCount,
    /// Whether tickets guarantee memory. Without, they only tell policies who is to lose it.
    pub guarantees: bool,
    /// A page that was used within this time is active, for policies that ask.
    pub active_ns: u64,
    /// A client with more changed pages of files than this has them written back,
    pub dirty_background_pages: u64,
    /// and with this many it waits before it changes more.
    pub dirty_limit_pages: u64,
    /// So many of a client's pages are written back at a time.
    pub write_back_depth: u64,
}

impl Default for MemorySettings {
    /// 64 MiB.
    fn default() -> Self {
        MemorySettings {
            pages: 16_384,
            free_low_pages: 128,
            free_high_pages: 256,
            tickets: TicketsCount::Always,
            guarantees: true,
            active_ns: 5_000_000_000,
            dirty_background_pages: 256,
            dirty_limit_pages: 512,
            write_back_depth: 8,
        }
    }
}

/// CPU time of what the kernel does for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To use a page that is mapped and in memory.
    pub touch_ns: u64,
    /// To copy a page that is in memory.
    pub copy_ns: u64,
    /// To handle a fault, besides waiting.
    pub fault_ns: u64,
    /// To ask the disk or the link for something.
    pub request_ns: u64,
    /// A thread that finds all its pages in memory is simulated for so long at a time: what it uses may appear
    /// used so much earlier.
    pub burst_ns: u64,
}

impl Default for Costs {
    /// About those of paper 1's 200 MHz Pentium Pro.
    fn default() -> Self {
        Costs {
            touch_ns: 2_000,
            copy_ns: 30_000,
            fault_ns: 50_000,
            request_ns: 50_000,
            burst_ns: 1_000_000,
        }
    }
}

/// How a machine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How many CPUs, at least 1.
    pub cpus: u32,
    /// How long a turn on a CPU is, at most 2³⁰ ns.
    pub quantum_ns: u64,
    /// Who holds a CPU.
    pub cpu_policy: PolicyName,
    /// Memory.
    pub memory: MemorySettings,
    /// The disk.
    pub disk: DiskSettings,
    /// The link.
    pub link: LinkSettings,
    /// What the kernel's work costs.
    pub costs: Costs,
}

impl Default for Settings {
    /// One CPU by stride, paper 1's disk, 64 MiB.
    fn default() -> Self {
        Settings {
            seed: 1,
            cpus: 1,
            quantum_ns: 4_000_000,
            cpu_policy: PolicyName::Stride,
            memory: MemorySettings::default(),
            disk: DiskSettings::default(),
            link: LinkSettings::default(),
            costs: Costs::default(),
        }
    }
}
