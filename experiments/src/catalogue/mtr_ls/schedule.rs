//! The clients of `mtr-ls`, and when they burn and sleep.

use crate::workloads::arithmetic::{SEED, xorshift};

/// The clients, with their tickets.
pub(super) const CLIENTS: [(&str, u64); 3] = [("five", 5), ("three", 3), ("two", 2)];
/// Length of a burst and of a sleep in ms: the least, and the most on top of that.
const BURN_MS: (u64, u64) = (40, 400);
const SLEEP_MS: (u64, u64) = (20, 250);

/// A client's schedule: when it is runnable, in ns from the start.
pub(super) type Schedule = Vec<(u64, bool)>;

/// Draws the schedule of each client from a seed.
pub(super) fn schedules(seed: u64, end_ns: u64) -> Vec<Schedule> {
    let mut state = seed.wrapping_mul(SEED) | 1;
    let mut random = |below: u64| xorshift(&mut state) % below;
    CLIENTS
        .iter()
        .map(|_| {
            let (mut at_ns, mut burns) = (0, true);
            let mut steps = Vec::new();
            while at_ns < end_ns {
                steps.push((at_ns, burns));
                let (least, more) = if burns { BURN_MS } else { SLEEP_MS };
                at_ns += (least + random(more)) * 1_000_000;
                burns = !burns;
            }
            steps
        })
        .collect()
}

/// Returns the part of a stretch for which a client is runnable.
pub(super) fn runnable_part(schedule: &Schedule, from_ns: u64, to_ns: u64) -> f64 {
    let mut runnable = 0;
    for (place, (at, burns)) in schedule.iter().enumerate() {
        let until = schedule.get(place + 1).map_or(u64::MAX, |(at, _)| *at);
        if *burns {
            runnable += until.min(to_ns).saturating_sub((*at).max(from_ns));
        }
    }
    runnable as f64 / (to_ns - from_ns).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_repeat_and_differ() {
        let once = schedules(3, 5_000_000_000);
        assert_eq!(once, schedules(3, 5_000_000_000));
        assert_ne!(once, schedules(4, 5_000_000_000));
        assert_ne!(once[0], once[1]);
        assert_eq!(once[0][0], (0, true));
    }

    #[test]
    fn runnable_time_by_hand() {
        let schedule = vec![(0, true), (100, false), (300, true)];
        assert_eq!(runnable_part(&schedule, 0, 100), 1.0);
        assert_eq!(runnable_part(&schedule, 50, 150), 0.5);
        assert_eq!(runnable_part(&schedule, 100, 300), 0.0);
        assert_eq!(runnable_part(&schedule, 200, 400), 0.5);
    }
}
