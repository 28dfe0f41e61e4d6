//! The interactive programs of paper 3, section 5.4, as Interbench simulates them: they wake by
//! the clock, compute for a while, and note how late they were and whether they were done in time.

use crate::workloads::arithmetic::burn_ns;
use crate::workloads::clock::{monotonic_ns, sleep_until};
use crate::workloads::notes::{Note, Notes};
use crate::workloads::work::PreparedWork;
use serde::{Deserialize, Serialize};
use std::io;
use std::num::NonZeroU64;
use std::path::Path;

/// An interactive program of paper 3, section 5.4, as Interbench simulates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InteractiveProgram {
    /// A window that is dragged: from 0 to 100 % of the CPU and back to 0.
    X,
    /// 60 pictures a second, 40 % of the CPU.
    Video,
    /// 60 pictures a second, 80 % of the CPU.
    Gaming,
    /// Every 50 ms, 5 % of the CPU.
    Audio,
}

/// Steps in which X goes from 0 to 100 % of the CPU.
const X_STEPS: u64 = 25;

impl InteractiveProgram {
    /// All programs.
    pub const ALL: [InteractiveProgram; 4] = [
        InteractiveProgram::X,
        InteractiveProgram::Video,
        InteractiveProgram::Gaming,
        InteractiveProgram::Audio,
    ];

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            InteractiveProgram::X => "X",
            InteractiveProgram::Video => "video",
            InteractiveProgram::Gaming => "gaming",
            InteractiveProgram::Audio => "audio",
        }
    }

    /// Returns the interval between wake-ups, in ns. Interbench's X has 100 ms; a fifth of that
    /// goes through all its loads in half a second, so that short runs see them all.
    pub fn interval_ns(self) -> u64 {
        match self {
            InteractiveProgram::X => 20_000_000,
            InteractiveProgram::Video | InteractiveProgram::Gaming => 16_666_667,
            InteractiveProgram::Audio => 50_000_000,
        }
    }

    /// Returns the CPU time after the wake-up of that number, in ns.
    fn burst_ns(self, number: u64) -> u64 {
        let interval = self.interval_ns();
        match self {
            InteractiveProgram::X => interval * (number % (X_STEPS + 1)) / X_STEPS,
            InteractiveProgram::Video => interval * 2 / 5,
            // Interbench's takes all that it gets, which leaves no wake-ups to measure.
            InteractiveProgram::Gaming => interval * 4 / 5,
            InteractiveProgram::Audio => interval / 20,
        }
    }
}

/// Reads a note's `more`: whether the deadline, which is the next wake-up, was met, and how many
/// wake-ups were left out because the program was still at work.
pub(crate) fn outcome(note: &Note) -> (bool, u64) {
    (note.more & 1 == 1, note.more >> 1)
}

/// Returns the part of the CPU that a program can use if it gets at most `most` at a time.
pub(crate) fn wants(player: InteractiveProgram, most: f64) -> f64 {
    let interval = player.interval_ns() as f64;
    let parts = (0..=X_STEPS).map(|number| (player.burst_ns(number) as f64 / interval).min(most));
    parts.sum::<f64>() / (X_STEPS + 1) as f64
}

pub(crate) fn prepare(player: InteractiveProgram, notes: &Path) -> io::Result<PreparedWork> {
    let notes = Notes::open(notes)?;
    // Timers may otherwise be 50 µs late, for the sake of batteries.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(Box::new(move |context| {
        let interval_ns = player.interval_ns();
        let mut due_ns = context.start_ns;
        let mut number = 0;
        while !context.over() {
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
            context.count();
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_the_papers() {
        let part = |player: InteractiveProgram| {
            let bursts: u64 = (0..=X_STEPS).map(|number| player.burst_ns(number)).sum();
            bursts as f64 / ((X_STEPS + 1) * player.interval_ns()) as f64
        };
        for (player, of) in [
            (InteractiveProgram::X, 0.5),
            (InteractiveProgram::Video, 0.4),
            (InteractiveProgram::Audio, 0.05),
        ] {
            assert!((part(player) - of).abs() < 1e-6, "{player:?}");
        }
        assert!((wants(InteractiveProgram::Gaming, 0.5) - 0.5).abs() < 1e-9);
        assert!((wants(InteractiveProgram::X, 0.5) - 0.375).abs() < 0.02);
        assert_eq!(InteractiveProgram::X.burst_ns(X_STEPS), InteractiveProgram::X.interval_ns());
        assert_eq!(outcome(&Note { at_ns: 0, took_ns: 0, more: 5 }), (true, 2));
    }
}
