//! The registration of the scheduler in the kernel.

use crate::{Scx, ScxOptions, WhyNot, available as look, loader};
use enforcer::{Check, EnforceError, Enforcer, Helper, Needs, Registration, Settings, Survey};
use ledger::{KindName, ResourceKind};

/// The scheduler in the kernel, for the CPU.
pub const REGISTRATION: Registration = Registration {
    name: crate::NAME,
    kinds: || vec![ResourceKind::cpu()],
    serves_private: false,
    summary: "The kernel: it draws at every wake-up and every quantum, among all threads of the machine",
    merit: |_| "the kernel draws: the best there is",
    available: |_, _| available(),
    start,
    needs,
    helper: Some(Helper { main: loader::loader_main, walls: loader::walls }),
    records: &[],
    restorer: None,
    survey,
};

/// To start the loader, which keeps them.
fn needs(_: &Settings) -> Needs {
    Needs { start: loader::RIGHTS, ..Needs::NOTHING }
}

/// Says what the kernel's scheduler would be like, or why there is none and what to do.
fn available() -> Result<String, String> {
    let facts = look().map_err(|why| {
        let advice = match &why {
            WhyNot::NoSchedExt { .. } => {
                "a kernel since 6.12 with CONFIG_SCHED_CLASS_EXT=y has it (Ubuntu 25.04; not Debian 13's own)"
            }
            WhyNot::NoBtf { .. } => "it takes a kernel with CONFIG_DEBUG_INFO_BTF=y",
            WhyNot::BrokenBtf { .. } => "any other build of the kernel will do",
            WhyNot::NotPrivileged => "start allotd as root, without --user",
            WhyNot::InContainer => "run allotd on the machine itself",
            WhyNot::Occupied { .. } => "stop it, and start allotd again",
        };
        format!("{why}; {advice}")
    })?;
    let lends = match facts.has_lock_tracepoints {
        true => "who waits for a lock of the kernel lends its tickets",
        false => "without the tracepoints of locks: who waits for one lends nothing",
    };
    Ok(format!("kernel {} can run allot's scheduler; {lends}", facts.release))
}

fn start(settings: &Settings, _: &[KindName]) -> Result<Box<dyn Enforcer>, EnforceError> {
    let defaults = ScxOptions::default();
    let cpu = &settings.cpu;
    let scx = Scx::start(ScxOptions {
        policy: cpu.algorithm,
        seed: settings.seed,
        quantum_ns: cpu.quantum_ns.unwrap_or(defaults.quantum_ns),
        transfers: cpu.transfers,
        program: settings.program.clone(),
        ..defaults
    })?;
    Ok(Box::new(scx))
}

fn survey(_: &Settings) -> Survey {
    let (ok, says) = match available() {
        Ok(says) => (true, says),
        Err(says) => (false, says),
    };
    let checks = vec![Check { name: "sched_ext".to_owned(), ok, says }];
    Survey { resources: Vec::new(), checks }
}
