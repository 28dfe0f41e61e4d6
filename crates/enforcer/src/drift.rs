//! Drift: settings that somebody else changed.

use identity::ProcessIdentity;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;

/// A setting that was found not to be as we had set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The process; `None` where the enforcer itself is concerned.
    pub process: Option<ProcessIdentity>,
    /// What was found, and what was done, in words.
    pub what: String,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "{process}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Maximum queued drift messages; the oldest are dropped.
const KEPT: usize = 256;

/// Drift that waits for somebody to ask.
#[derive(Debug, Default)]
pub struct DriftLog(VecDeque<Drift>);

impl DriftLog {
    /// Logs and keeps a message that concerns no single process.
    pub fn tell(&mut self, what: impl Into<String>) {
        self.push_logged(Drift { process: None, what: what.into() });
    }

    /// Logs and keeps a message about a process.
    pub fn tell_of(&mut self, process: ProcessIdentity, what: String) {
        self.push_logged(Drift { process: Some(process), what });
    }

    fn push_logged(&mut self, drift: Drift) {
        tracing::info!("{drift}");
        self.push(drift);
    }

    /// Keeps a message that was logged, or need not be.
    pub fn push(&mut self, drift: Drift) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(drift);
    }

    /// Takes all messages, oldest first.
    pub fn take(&mut self) -> Vec<Drift> {
        std::mem::take(&mut self.0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_messages_are_dropped() {
        let mut log = DriftLog::default();
        for n in 0..KEPT + 2 {
            log.push(Drift { process: None, what: n.to_string() });
        }
        let kept = log.take();
        assert_eq!((kept.len(), kept[0].what.as_str()), (KEPT, "2"));
        assert!(log.take().is_empty());
    }
}
