//! How losers of a draw wait.

use crate::scheduling::{SchedulingPolicy, set_policy};
use std::fmt;
use std::str::FromStr;

/// How losers of a draw wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// In SCHED_IDLE: they run when nobody else wants to, so no CPU idles while somebody would
    /// use it.
    Idle,
    /// Stopped by SIGSTOP.
    Stop,
    /// In SCHED_IDLE where we may take a process out of it again, else stopped.
    #[default]
    Auto,
}

impl Hold {
    /// As users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Hold::Idle => "idle",
            Hold::Stop => "stop",
            Hold::Auto => "auto",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// There is no such way to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("losers cannot wait in {0:?}: write idle, stop or auto")]
pub struct UnknownHold(pub String);

impl FromStr for Hold {
    type Err = UnknownHold;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Hold::Idle, Hold::Stop, Hold::Auto]
            .into_iter()
            .find(|hold| hold.as_str() == word)
            .ok_or_else(|| UnknownHold(word.to_owned()))
    }
}

/// What [`Hold::Auto`] comes to here, and why, in words. Tries it: a thread of ours goes to
/// SCHED_IDLE and back (Linux asks for CAP_SYS_NICE or a sufficient RLIMIT_NICE for the way
/// back).
pub fn hold_available() -> (Hold, String) {
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
            (Hold::Idle, why.to_owned())
        }
        Err(error) => {
            let why = format!(
                "losers are stopped: we may not take a process out of SCHED_IDLE again ({error}; \
                 it needs CAP_SYS_NICE, or RLIMIT_NICE of 20 or more)"
            );
            (Hold::Stop, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduling::policy_of;

    #[test]
    fn words_round_trip() {
        for hold in [Hold::Idle, Hold::Stop, Hold::Auto] {
            assert_eq!(hold.to_string().parse(), Ok(hold));
        }
        assert!("never".parse::<Hold>().is_err());
    }

    #[test]
    fn the_probe_leaves_this_thread_alone() {
        let before = policy_of(0).expect("our own policy");
        let (hold, why) = hold_available();
        assert_ne!(hold, Hold::Auto);
        assert!(!why.is_empty());
        assert_eq!(policy_of(0).expect("our own policy"), before);
    }
}
