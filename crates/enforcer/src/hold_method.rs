//! How losers of a draw wait.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How losers of a draw wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldMethod {
    /// In SCHED_IDLE: they run when nobody else wants to, so no CPU idles while somebody would
    /// use it.
    Idle,
    /// Stopped by SIGSTOP.
    Stop,
    /// In SCHED_IDLE where we may take a process out of it again, else stopped.
    #[default]
    Auto,
}

impl HoldMethod {
    /// As users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            HoldMethod::Idle => "idle",
            HoldMethod::Stop => "stop",
            HoldMethod::Auto => "auto",
        }
    }
}

impl fmt::Display for HoldMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// There is no such way to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("losers cannot wait in {0:?}: write idle, stop or auto")]
pub struct UnknownHoldMethod(pub String);

impl FromStr for HoldMethod {
    type Err = UnknownHoldMethod;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [HoldMethod::Idle, HoldMethod::Stop, HoldMethod::Auto]
            .into_iter()
            .find(|hold| hold.as_str() == word)
            .ok_or_else(|| UnknownHoldMethod(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for hold in [HoldMethod::Idle, HoldMethod::Stop, HoldMethod::Auto] {
            assert_eq!(hold.to_string().parse(), Ok(hold));
        }
        assert!("never".parse::<HoldMethod>().is_err());
    }
}
