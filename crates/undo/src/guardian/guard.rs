//! The guardian's watch: nothing is changed while there is none.

use super::Guardian;

/// Interval between two starts of a guardian.
const RETRY_NS: u64 = 1_000_000_000;

/// The watch over everything that is changed.
#[derive(Debug)]
pub struct Guard {
    is_on_watch: bool,
    retry_at_ns: u64,
}

/// News of the watch.
#[derive(Debug)]
pub enum Watch {
    /// Nothing has changed.
    Same,
    /// A guardian is on watch again.
    Began,
    /// The guardian died.
    Ended,
    /// There can be no guardian now, in words.
    Failed(String),
}

impl Default for Guard {
    /// Begins with a guardian that is on watch.
    fn default() -> Guard {
        Guard { is_on_watch: true, retry_at_ns: 0 }
    }
}

impl Guard {
    /// Whether a guardian is on watch.
    pub fn is_on_watch(&self) -> bool {
        self.is_on_watch
    }

    /// Looks after the guardian, and starts another one if it died.
    pub fn look(&mut self, guardian: &mut Guardian, now_ns: u64) -> Watch {
        if guardian.is_ready() {
            return match std::mem::replace(&mut self.is_on_watch, true) {
                true => Watch::Same,
                false => Watch::Began,
            };
        }
        if guardian.lifeline().is_some() {
            // It is about to begin.
            return Watch::Same;
        }
        if std::mem::replace(&mut self.is_on_watch, false) {
            return Watch::Ended;
        }
        if now_ns >= self.retry_at_ns {
            self.retry_at_ns = now_ns + RETRY_NS;
            if let Err(error) = guardian.spawn() {
                return Watch::Failed(error.to_string());
            }
        }
        Watch::Same
    }
}
