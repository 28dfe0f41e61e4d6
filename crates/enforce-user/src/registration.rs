//! The user-level enforcer's registration.

use crate::cells::Place;
use crate::{
    CellRestorer, UserLevel, UserLevelOptions, hold_available, scheduling_groups, start_guardian,
};
use enforcer::{Check, EnforceError, Enforcer, HoldMethod, Needs, Registration, Settings, Survey};
use ledger::{KindName, ResourceKind};

/// Time between draws where nothing is said, in ns: switching processes from user space costs too
/// much for the kernel's 4 ms.
const DEFAULT_QUANTUM_NS: u64 = 10_000_000;
/// What this way of sharing costs, for `doctor` (docs/user-level.md has the measurement).
const COST: &str =
    "servers whose processes wait for one another keep 0.30 to 0.40 of their throughput (pgbench)";
/// The suffix of its record.
const RECORD: &str = "";

/// The user-level lottery, for the CPU of any Linux machine.
pub const REGISTRATION: Registration = Registration {
    name: "user-level",
    kinds: || vec![ResourceKind::cpu()],
    serves_private: true,
    summary: "A lottery over real processes, in user space",
    merit: |settings| match settings.is_private {
        true => "a private allotd shares what it is given, from user space",
        false => "works on any machine",
    },
    available,
    start,
    needs: |_| Needs::NOTHING,
    helper: None,
    records: &[RECORD],
    restorer: Some(&CellRestorer),
    survey,
};

fn available(_: &Settings, _: KindName) -> Result<String, String> {
    Ok(format!("{}; {COST}", hold_available().1))
}

fn start(settings: &Settings, _: &[KindName]) -> Result<Box<dyn Enforcer>, EnforceError> {
    let guardian = start_guardian(&settings.program, Some(&settings.record(RECORD)))
        .map_err(EnforceError::refused)?;
    let cpu = &settings.cpu;
    let enforcer = UserLevel::start(UserLevelOptions {
        quantum_ns: cpu.quantum_ns.unwrap_or(DEFAULT_QUANTUM_NS),
        policy: cpu.algorithm,
        seed: settings.seed,
        cpus: cpu.cpus.clone(),
        hold: cpu.hold,
        guardian,
    })?;
    Ok(Box::new(enforcer))
}

fn survey(_: &Settings) -> Survey {
    let (hold, why) = hold_available();
    let (is_one_group, says) = scheduling_groups();
    let checks = vec![
        Check { name: "hold".to_owned(), ok: hold == HoldMethod::Idle, says: why },
        Check { name: "scheduling groups".to_owned(), ok: is_one_group, says },
        still(),
    ];
    Survey { resources: Vec::new(), checks }
}

/// How losers are made to stand still that SCHED_IDLE does not hold, and what their users can do about it.
fn still() -> Check {
    let name = "standing still".to_owned();
    match Place::find() {
        Ok(place) => {
            let says = format!(
                "losers that SCHED_IDLE does not hold are frozen in {}, which only root can undo",
                place.words()
            );
            Check { name, ok: true, says }
        }
        Err(why) => {
            let says = format!(
                "losers that SCHED_IDLE does not hold are stopped by a signal, which their users can undo: {why}; who \
                 runs on is stopped again each quantum, charged, and after a few with all processes of its user"
            );
            Check { name, ok: false, says }
        }
    }
}
