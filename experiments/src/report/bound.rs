//! The bounds of the distance between a measured share and its promise.

use crate::report::setting::{Drawing, Selection};
use crate::scheduling_policy::Policy;

/// The bound where nothing is drawn: 2 percentage points.
pub(crate) const EVEN_BOUND: f64 = 0.02;
/// The least bound, for disturbance by the rest of the machine: half a percentage point. It matters
/// only where a draw leaves nothing, or next to nothing, to chance.
pub(crate) const LEAST_BOUND: f64 = 0.005;

/// Returns the derivation of the bounds on so many CPUs, in words.
pub(crate) fn formula(selection: &Selection, seats: usize) -> String {
    match (selection.policy, selection.drawing) {
        (Policy::Stride | Policy::MtrLs, _) | (_, Drawing::None) => {
            "2 percentage points".to_owned()
        }
        (Policy::Lottery, Drawing::EachCpu) => "three standard deviations of the draw, \
             3*sqrt(pi*(1-pi)/N): pi is the row's share, N the number of draws of all CPUs, each \
             of which draws for itself, divided by E[f^2]/E[f]^2 where turns are parts f of a \
             quantum, since unequal draws even out less; at least 0.5 percentage points"
            .to_owned(),
        (Policy::Lottery, Drawing::AllCpus) => format!(
            "three standard deviations of the draw, 3*sqrt(pi*(1-pi)/N)/{seats}: pi = \
             {seats}*share is a client's chance in each draw on {seats} CPUs (where fewer clients \
             are active than there are CPUs, their number stands for that of the CPUs; for several \
             clients in one row on several CPUs, the sum of their pi*(1-pi)); N is the number of \
             draws, divided by E[f^2]/E[f]^2 where other processes leave only parts f of a quantum \
             to the winner, since unequal draws even out less; at least 0.5 percentage points"
        ),
    }
}

/// Returns the bound of one row. `seats` are its clients' parts of one CPU each (their chances in
/// each draw), `busy` is the number of CPUs that the clients have together, `draws` the number of
/// whole draws.
///
/// A row's share is wins / (busy · draws). Draws are independent. On one CPU a row's wins in one
/// draw are 0 or 1, so their variance is π(1 − π) with π the sum of its chances. On several, one
/// client's are 0 or 1 as well; those of several depend on each other, and the sum of their
/// variances stands for them.
///
/// A draw whose winner finds other processes on its CPU is worth the part f of a quantum, and wins
/// are compensated for it. The payments f at a client's wins then make its use; N draws have the
/// variance N·E\[f²\]·π(1 − π) about N·E\[f\]·π, so they are worth N·E\[f\]²/E\[f²\] whole ones.
pub(crate) fn bound(selection: &Selection, seats: &[f64], busy: f64, draws: f64) -> f64 {
    match (selection.policy, selection.drawing) {
        (Policy::Stride | Policy::MtrLs, _) | (_, Drawing::None) => EVEN_BOUND,
        _ if draws <= 0.0 || busy <= 0.0 => LEAST_BOUND,
        (_, Drawing::EachCpu) => {
            let share = seats.iter().sum::<f64>() / busy;
            (3.0 * (spread(share) / draws).sqrt()).max(LEAST_BOUND)
        }
        (_, Drawing::AllCpus) => {
            let variance = if busy <= 1.0 + 1e-9 {
                spread(seats.iter().sum())
            } else {
                seats.iter().map(|seat| spread(*seat)).sum()
            };
            (3.0 * (variance / draws).sqrt() / busy).max(LEAST_BOUND)
        }
    }
}

fn spread(chance: f64) -> f64 {
    (chance * (1.0 - chance)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn selection(policy: Policy, drawing: Drawing) -> Selection {
        Selection { policy, drawing, quantum: Duration::from_millis(10) }
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn by_hand() {
        let bound = |policy, seats: &[f64], busy, draws| {
            bound(&selection(policy, Drawing::AllCpus), seats, busy, draws)
        };
        assert_eq!(bound(Policy::Stride, &[0.3], 1.0, 5.0), 0.02);
        // One CPU, 1:1, 100 draws: 3 * 0.5 / 10.
        assert!(close(bound(Policy::Lottery, &[0.5], 1.0, 100.0), 0.15));
        // The same split among five.
        assert!(close(bound(Policy::Lottery, &[0.1; 5], 1.0, 100.0), 0.15));
        // Two CPUs, a quarter of both: chance 1/2, half the deviation.
        assert!(close(bound(Policy::Lottery, &[0.5], 2.0, 100.0), 0.075));
        // Certain, or never: only what else the machine does.
        assert_eq!(bound(Policy::Lottery, &[1.0], 2.0, 100.0), LEAST_BOUND);
        assert_eq!(bound(Policy::Lottery, &[0.0], 1.0, 100.0), LEAST_BOUND);
    }

    #[test]
    fn by_hand_where_each_cpu_draws() {
        let each_cpu = selection(Policy::Lottery, Drawing::EachCpu);
        let bound = |seats: &[f64], busy| bound(&each_cpu, seats, busy, 100.0);
        assert!(close(bound(&[0.5], 1.0), 0.15));
        // Half of two CPUs: of 100 draws half are won, however many CPUs they are for.
        assert!(close(bound(&[1.0], 2.0), 0.15));
        assert!(close(bound(&[0.2, 0.8], 2.0), 0.15));
        assert_eq!(bound(&[2.0], 2.0), LEAST_BOUND);
        let none = super::bound(&selection(Policy::Lottery, Drawing::None), &[0.5], 1.0, 100.0);
        assert_eq!(none, EVEN_BOUND);
    }
}
