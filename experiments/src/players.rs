//! The interactive programs of paper 3, section 5.4, as Interbench simulates them: they wake by
//! the clock, compute for a while, and note how late they were and whether they were done in time.

use crate::orders::Player;
use crate::page::{Note, Notes};
use crate::workload::{Begin, burn_ns, monotonic_ns, sleep_until};
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

/// X takes from 0 to 100 % of the CPU in so many steps.
const X_STEPS: u64 = 25;

impl Player {
    /// All of them.
    pub const ALL: [Player; 4] = [Player::X, Player::Video, Player::Gaming, Player::Audio];

    /// In reports.
    pub fn name(self) -> &'static str {
        match self {
            Player::X => "X",
            Player::Video => "video",
            Player::Gaming => "gaming",
            Player::Audio => "audio",
        }
    }

    /// Between two wake-ups, ns. Interbench's X has 100 ms; a fifth of that goes through all its
    /// loads in half a second, so that short runs see them all.
    pub fn interval_ns(self) -> u64 {
        match self {
            Player::X => 20_000_000,
            Player::Video | Player::Gaming => 16_666_667,
            Player::Audio => 50_000_000,
        }
    }

    /// CPU time after the wake-up of that number, ns.
    fn burst_ns(self, number: u64) -> u64 {
        let interval = self.interval_ns();
        match self {
            Player::X => interval * (number % (X_STEPS + 1)) / X_STEPS,
            Player::Video => interval * 2 / 5,
            // Interbench's takes what it gets, which leaves no wake-ups to be late at.
            Player::Gaming => interval * 4 / 5,
            Player::Audio => interval / 20,
        }
    }
}

/// A note's `more`: whether the deadline, the next wake-up's time, was met, and how many
/// wake-ups were left out because it was still at work.
pub(crate) fn outcome(note: &Note) -> (bool, u64) {
    (note.more & 1 == 1, note.more >> 1)
}

/// The part of the CPU that it can use where it gets at most so much of it at a time.
pub(crate) fn wants(player: Player, most: f64) -> f64 {
    let interval = player.interval_ns() as f64;
    let parts = (0..=X_STEPS).map(|number| (player.burst_ns(number) as f64 / interval).min(most));
    parts.sum::<f64>() / (X_STEPS + 1) as f64
}

pub(crate) fn prepare(player: Player, notes: &Path) -> io::Result<Begin> {
    let notes = Notes::open(notes)?;
    // Timers may otherwise be 50 µs late, for the sake of batteries.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(Box::new(move |place| {
        let interval_ns = player.interval_ns();
        let mut due_ns = place.start_ns;
        let mut number = 0;
        while !place.over() {
            due_ns += interval_ns;
            sleep_until(due_ns);
            let late_ns = monotonic_ns().saturating_sub(due_ns);
            burn_ns(player.burst_ns(number));
            number += 1;
            let over_ns = monotonic_ns().saturating_sub(due_ns);
            // What was due meanwhile is left out: every note is of a real wake-up.
            let left_out = over_ns / interval_ns;
            let met = u64::from(left_out == 0);
            notes.add(Note { at_ns: due_ns, took_ns: late_ns, more: left_out << 1 | met });
            due_ns += left_out * interval_ns;
            place.count();
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_the_papers() {
        let part = |player: Player| {
            let bursts: u64 = (0..=X_STEPS).map(|number| player.burst_ns(number)).sum();
            bursts as f64 / ((X_STEPS + 1) * player.interval_ns()) as f64
        };
        for (player, of) in [(Player::X, 0.5), (Player::Video, 0.4), (Player::Audio, 0.05)] {
            assert!((part(player) - of).abs() < 1e-6, "{player:?}");
        }
        assert!((wants(Player::Gaming, 0.5) - 0.5).abs() < 1e-9);
        assert!((wants(Player::X, 0.5) - 0.375).abs() < 0.02);
        assert_eq!(Player::X.burst_ns(X_STEPS), Player::X.interval_ns());
        assert_eq!(outcome(&Note { at_ns: 0, took_ns: 0, more: 5 }), (true, 2));
    }
}
