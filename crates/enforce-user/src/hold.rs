//! How losers of a draw can wait on this machine.

use enforcer::HoldMethod;
use undo::scheduling::{SchedulingPolicy, set_policy};

/// What [`HoldMethod::Auto`] comes to here, and why, in words. Tries it: a thread of ours goes to
/// SCHED_IDLE and back (Linux asks for CAP_SYS_NICE or a sufficient RLIMIT_NICE for the way
/// back).
pub fn hold_available() -> (HoldMethod, String) {
    let tried = std::thread::Builder::new().name("hold-probe".to_owned()).spawn(|| {
        set_policy(0, SchedulingPolicy::OTHER.held())?;
        set_policy(0, SchedulingPolicy::OTHER)
    });
    let result = match tried {
        Ok(thread) => thread.join().expect("the probe does not panic"),
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => {
            let why = "losers wait in SCHED_IDLE: tried, and a thread came back from it";
            (HoldMethod::Idle, why.to_owned())
        }
        Err(error) => {
            let why = format!(
                "losers are stopped: we may not take a process out of SCHED_IDLE again ({error}; \
                 it needs CAP_SYS_NICE, or RLIMIT_NICE of 20 or more)"
            );
            (HoldMethod::Stop, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use undo::scheduling::policy_of;

    #[test]
    fn the_probe_leaves_this_thread_alone() {
        let before = policy_of(0).expect("our own policy");
        let (hold, why) = hold_available();
        assert_ne!(hold, HoldMethod::Auto);
        assert!(!why.is_empty());
        assert_eq!(policy_of(0).expect("our own policy"), before);
    }
}
