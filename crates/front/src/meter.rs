//! The CPU time that persons' connections take, and how long a person rests who has used much of it.
//!
//! The front is one thread. The time from a read or write of one connection to the next of any is the first one's: to
//! parse what came, and to write answers, is most of what the front does.

use crate::Allowances;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// CPU time that one person may take at once of a process that serves people.
pub const AT_ONCE: Duration = Duration::from_secs(1);

/// CPU time of that which comes back each second: a sixteenth of a CPU.
pub const A_SECOND: Duration = Duration::from_nanos(62_500_000);

/// The superuser does not rest.
const ROOT: u32 = 0;

/// The account of all connections.
#[derive(Clone, Debug)]
pub struct Meter(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    used: Allowances,
    /// The person who was served last, and the thread's CPU time then.
    last: Option<(u32, Duration)>,
}

impl Account {
    fn charge(&mut self, person: u32, spent: Duration, now: Instant) {
        self.used.charge(person, nanos(spent), now);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for Meter {
    fn default() -> Meter {
        let used = Allowances::new(nanos(AT_ONCE), nanos(A_SECOND));
        Meter(Arc::new(Mutex::new(Account { used, last: None })))
    }
}

impl Meter {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a person's bytes are read or written from when the thread had used so much CPU time.
    pub fn serves(&self, person: u32, thread_time: Duration, now: Instant) {
        let mut account = self.account();
        if let Some((last, since)) = account.last.replace((person, thread_time)) {
            account.charge(last, thread_time.saturating_sub(since), now);
        }
    }

    /// Notes that so much CPU time was taken for a person.
    pub fn charge(&self, person: u32, spent: Duration, now: Instant) {
        self.account().charge(person, spent, now);
    }

    /// Returns how long a person has to rest.
    pub fn rest(&self, person: u32, now: Instant) -> Option<Duration> {
        if person == ROOT { None } else { self.account().used.wait(person, now) }
    }
}

/// CPU time of the calling thread.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_another_is_served_is_the_last_one_s() {
        let (meter, now) = (Meter::default(), Instant::now());
        meter.serves(1, Duration::ZERO, now);
        meter.serves(2, 3 * AT_ONCE, now);
        meter.serves(ROOT, 3 * AT_ONCE + A_SECOND, now);
        meter.serves(3, 9 * AT_ONCE, now);
        assert_eq!(
            meter.rest(1, now),
            Some(2 * AT_ONCE.mul_f64(AT_ONCE.div_duration_f64(A_SECOND)))
        );
        assert_eq!([2, 3, ROOT].map(|person| meter.rest(person, now)), [None; 3]);
    }
}
