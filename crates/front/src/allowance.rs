//! Allowances: how much of something each person may use at once, and how fast that comes back. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The amounts that persons have used and have not got back.
#[derive(Debug)]
pub struct Allowances {
    /// The most that one may use at once.
    most: u64,
    /// The amount that comes back each second.
    per_second: u64,
    used: BTreeMap<u32, (Instant, u64)>,
}

impl Allowances {
    /// Nobody has used anything.
    pub const fn new(most: u64, per_second: u64) -> Allowances {
        Allowances { most, per_second, used: BTreeMap::new() }
    }

    /// Notes what a person uses.
    pub fn charge(&mut self, person: u32, amount: u64, now: Instant) {
        let used = self.used_lately(person, now);
        self.used.insert(person, (now, used.saturating_add(amount)));
    }

    /// Returns how long a person has to wait who has used more than that.
    pub fn wait(&mut self, person: u32, now: Instant) -> Option<Duration> {
        let over = self.used_lately(person, now).saturating_sub(self.most);
        (over > 0).then(|| Duration::from_secs_f64(over as f64 / self.per_second as f64))
    }

    fn used_lately(&mut self, person: u32, now: Instant) -> u64 {
        let Some((at, used)) = self.used.get(&person) else { return 0 };
        let back = now.saturating_duration_since(*at).as_secs_f64() * self.per_second as f64;
        let left = used.saturating_sub(back as u64);
        if left == 0 {
            self.used.remove(&person);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_uses_much_waits_and_others_do_not() {
        let now = Instant::now();
        let mut allowances = Allowances::new(100, 10);
        allowances.charge(1, 100, now);
        assert_eq!(allowances.wait(1, now), None, "all of it, and no more");
        allowances.charge(1, 50, now);
        assert_eq!(allowances.wait(1, now), Some(Duration::from_secs(5)));
        assert_eq!(allowances.wait(2, now), None, "another's is another's");
        assert_eq!(allowances.wait(1, now + Duration::from_secs(5)), None);
        allowances.charge(1, 1 << 30, now);
        assert!(allowances.wait(1, now).is_some());
        assert_eq!(allowances.wait(1, now + Duration::from_secs(u32::MAX.into())), None);
    }
}
