//! How long to wait before the scheduler is loaded again.

/// The first wait, in ns.
const FIRST_NS: u64 = 1_000_000_000;
/// Waits double up to this.
const LONGEST_NS: u64 = 60_000_000_000;
/// After so long without trouble all is forgotten.
const HEALTHY_NS: u64 = 300_000_000_000;
/// So many times in a row, each sooner than it had been waited before, and it is given up.
const GIVE_UP: u32 = 5;

/// Counts how often the kernel threw the scheduler out. Pure: time comes in as arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    at_once: u32,
    waited_ns: u64,
    runs_since_ns: Option<u64>,
}

/// What to do after an ejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Load it again at this time.
    At(u64),
    /// It does not work here.
    GiveUp,
}

impl Backoff {
    /// It runs.
    pub fn runs(&mut self, now_ns: u64) {
        self.runs_since_ns = Some(now_ns);
    }

    /// It was thrown out, or could not be loaded.
    pub fn failed(&mut self, now_ns: u64) -> Next {
        let ran_ns = self.runs_since_ns.take().map_or(0, |since| now_ns.saturating_sub(since));
        if ran_ns >= HEALTHY_NS {
            self.failures = 0;
        }
        if ran_ns > self.waited_ns {
            self.at_once = 0;
        }
        self.failures += 1;
        self.at_once += 1;
        if self.at_once >= GIVE_UP {
            return Next::GiveUp;
        }
        self.waited_ns = (FIRST_NS << (self.failures - 1).min(6)).min(LONGEST_NS);
        Next::At(now_ns + self.waited_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// It fails after it ran for so many seconds.
    fn fails_after(backoff: &mut Backoff, now: &mut u64, seconds: u64) -> Option<u64> {
        backoff.runs(*now);
        *now += seconds * SECOND;
        match backoff.failed(*now) {
            Next::At(at) => {
                let wait = (at - *now) / SECOND;
                *now = at;
                Some(wait)
            }
            Next::GiveUp => None,
        }
    }

    #[test]
    fn what_fails_at_once_is_given_up() {
        let (mut backoff, mut now) = (Backoff::default(), 1_000 * SECOND);
        let waits: Vec<_> = (0..5).map(|_| fails_after(&mut backoff, &mut now, 0)).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(8), None]);
    }

    #[test]
    fn waits_double_up_to_a_minute() {
        let (mut backoff, mut now) = (Backoff::default(), 0);
        let waits: Vec<_> = (0..9).map(|_| fails_after(&mut backoff, &mut now, 70)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60].map(Some));
    }

    #[test]
    fn five_minutes_of_health_are_rewarded() {
        let (mut backoff, mut now) = (Backoff::default(), 0);
        assert_eq!(fails_after(&mut backoff, &mut now, 0), Some(1));
        assert_eq!(fails_after(&mut backoff, &mut now, 299), Some(2));
        assert_eq!(fails_after(&mut backoff, &mut now, 300), Some(1));
    }

    #[test]
    fn what_cannot_be_loaded_is_given_up() {
        let mut backoff = Backoff::default();
        let answers: Vec<_> = (0..5).map(|second| backoff.failed(second * SECOND)).collect();
        assert_eq!(answers[3], Next::At((3 + 8) * SECOND));
        assert_eq!(answers[4], Next::GiveUp);
    }
}
