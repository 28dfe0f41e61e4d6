//! What tests and measurements ask the scheduler.

use crate::abi::types;
use ledger::CurrencyId;
use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;
use serde::Serialize;

/// Counters of the whole scheduler since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Choices of who runs next.
    pub draws: u64,
    /// Of those: who ran goes on.
    pub kept: u64,
    /// Guests and frozen clients that ran for a moment so that the watchdog stays calm.
    pub rescued: u64,
    /// Loans of tickets by waiting for a lock.
    pub transfers: u64,
    /// Values computed.
    pub revalued: u64,
    /// Clients that left with a debt and found no place to pay it off.
    pub crowded: u64,
    /// Events of the trace that were lost because nobody read fast enough.
    pub dropped: u64,
    /// Threads taken from another domain of CPUs.
    pub steals: u64,
    /// Debts that were forgiven, in ns (bpf/sched/main.bpf.c, rule 6).
    pub forgiven_ns: u64,
}

impl From<types::totals> for Totals {
    fn from(totals: types::totals) -> Totals {
        Totals {
            draws: totals.draws,
            kept: totals.kept,
            rescued: totals.rescued,
            transfers: totals.transfers,
            revalued: totals.revalued,
            crowded: totals.crowded,
            dropped: totals.dropped,
            steals: totals.steals,
            forgiven_ns: totals.forgiven_ns,
        }
    }
}

/// One function of a policy (bpf/sched/policy.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOperation {
    /// The client's first member became runnable; answers its place in the list of MTR-LS.
    Join,
    /// Where a thread is queued that has `argument` other members of its client before it.
    Key,
    /// The client used `argument` ns; answers what it was charged so far (MTR-LS: what is
    /// left of its quota).
    Charge,
    /// How much of a slice of `argument` ns its thread gets.
    Slice,
    /// Whether a client that left owes nothing for what it used: 0 or 1. `argument` is the
    /// time, in ns.
    Settled,
}

/// One call of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyStep {
    /// Of which function.
    pub operation: PolicyOperation,
    /// For which client.
    pub client: CurrencyId,
    /// See [`PolicyOperation`].
    pub argument: u64,
    /// What the client's tickets are worth, in parts of [`valuation::WHOLE`].
    pub value: u64,
    /// CPU time that the client was due so far, in ns.
    pub due_ns: u64,
    /// Virtual time, in ns.
    pub now: u64,
}

impl PolicyStep {
    pub(crate) fn arguments(&self, slot: u32) -> types::policy_args {
        let operation = match self.operation {
            PolicyOperation::Join => 0,
            PolicyOperation::Key => 1,
            PolicyOperation::Charge => 2,
            PolicyOperation::Slice => 3,
            PolicyOperation::Settled => 4,
        };
        let PolicyStep { argument, value, due_ns, now, .. } = *self;
        types::policy_args { operation, slot, argument, value, due_ns, now, answer: 0 }
    }
}

/// What one function of a scheduler has cost, while the kernel's bpf_stats_enabled was on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramCost {
    /// The function's name, cut to 15 letters.
    pub name: String,
    /// How often it ran.
    pub runs: u64,
    /// For how long in all, in ns.
    pub run_time_ns: u64,
}

/// What the functions of all schedulers that are loaded have cost; needs CAP_SYS_ADMIN, and
/// `/proc/sys/kernel/bpf_stats_enabled` at 1.
pub fn program_costs() -> Vec<ProgramCost> {
    ProgInfoIter::default()
        .filter(|program| program.ty == ProgramType::StructOps)
        .map(|program| ProgramCost {
            name: program.name.to_string_lossy().into_owned(),
            runs: program.run_cnt,
            run_time_ns: program.run_time_ns,
        })
        .collect()
}
