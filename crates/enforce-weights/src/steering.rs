//! Steering: corrections of weights by what was measured. Pure.
//!
//! The kernel divides by weights, but not exactly: it balances load among CPUs, and a thread that sleeps and wakes gets
//! less than its weight says. So each house's weight is multiplied by a correction, which an integral controller moves
//! slowly (Hellerstein, Diao, Parekh & Tilbury, *Feedback Control of Computing Systems*, 2004, chapters 8 and 9).
//!
//! 1. A **window** tells of each house what it was due (the integral of its value), what it used (CPU time), and what it
//!    wanted (that, and the time for which its threads waited for a CPU).
//! 2. The **target** of a house is its part of all that was used, in proportion to what was due, and no more than it
//!    wanted: no weight gives a house more CPUs than it has runnable threads. What one cannot use goes to the others in
//!    proportion (the readjustment of `policy::feasible`, for houses of several threads).
//! 3. A house is **hungry** if it waited for more than one part in [`HARDLY_WAITS`] of what it wanted. Corrected are the
//!    hungry, and those that have more than their target: more weight would give the others nothing. The corrections of
//!    the others return to none by [`RETURN`] a window: slowly, for a house may have all that it wants because of its
//!    correction.
//! 4. The logarithm of a correction grows by [`GAIN`] times the logarithm of target / used, of which at most
//!    [`GREATEST_ERROR`] counts, and stays within ± [`GREATEST_CORRECTION`].
//! 5. The mean correction of all, by what they are due, is none: only ratios count, so nothing drifts.
//!
//! **Stability.** Where used shares follow weights to the power a, each window multiplies the error by 1 − a × GAIN: it
//! shrinks without changing sign for a ≤ 2, and shrinks at all for a < 4. (One CPU and hogs: a = 1. Threads that sleep and
//! wake: about a half.)

use ledger::CurrencyId;
use std::collections::BTreeMap;

/// The part of an error that one window corrects.
const GAIN: f64 = 0.5;
/// The part of a correction that is given up in a window in which it is not needed.
const RETURN: f64 = 0.02;
/// The greatest error that counts, as a natural logarithm: a factor of 2.
const GREATEST_ERROR: f64 = std::f64::consts::LN_2;
/// The greatest correction, as a natural logarithm: a factor of 4.
const GREATEST_CORRECTION: f64 = 2.0 * std::f64::consts::LN_2;
/// A house that waits for less than one part in this many of what it wants has all that it wants.
const HARDLY_WAITS: u64 = 32;

/// What was measured of one house in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// The integral of its value, in any unit.
    pub due: f64,
    /// CPU time used, in ns.
    pub used_ns: u64,
    /// CPU time used and waited for, in ns.
    pub wanted_ns: u64,
}

impl Window {
    fn is_hungry(&self) -> bool {
        let waited_ns = self.wanted_ns.saturating_sub(self.used_ns);
        self.due > 0.0 && waited_ns > self.wanted_ns / HARDLY_WAITS
    }

    /// Applies rule 3.
    fn is_corrected(&self, target_ns: f64) -> bool {
        self.is_hungry() || (self.due > 0.0 && self.used_ns as f64 > target_ns)
    }
}

/// The corrections of all houses, as natural logarithms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steering {
    corrections: BTreeMap<CurrencyId, f64>,
}

impl Steering {
    /// Returns the factor by which a house's weight is to be multiplied.
    pub fn factor(&self, house: CurrencyId) -> f64 {
        self.corrections.get(&house).map_or(1.0, |correction| correction.exp())
    }

    /// Learns from a window of all houses that there are. Others are forgotten.
    pub fn learn(&mut self, windows: &[(CurrencyId, Window)]) {
        let measured: Vec<Window> = windows.iter().map(|(_, window)| *window).collect();
        let targets = targets(&measured);
        let is_corrected: Vec<bool> = measured
            .iter()
            .zip(&targets)
            .map(|(window, target)| window.is_corrected(*target))
            .collect();
        let mut after: Vec<f64> = Vec::with_capacity(windows.len());
        for (index, (id, window)) in windows.iter().enumerate() {
            let before = self.corrections.get(id).copied().unwrap_or(0.0);
            after.push(match is_corrected[index] {
                true => before + GAIN * error(targets[index], window.used_ns),
                false => before * (1.0 - RETURN),
            });
        }
        let due: f64 = measured.iter().map(|window| window.due).sum();
        let sum: f64 = measured.iter().zip(&after).map(|(window, it)| window.due * it).sum();
        let mean = if due > 0.0 { sum / due } else { 0.0 };
        // The same from all, so that no ratio changes.
        after.iter_mut().for_each(|correction| *correction -= mean);
        let bounded = |correction: f64| correction.clamp(-GREATEST_CORRECTION, GREATEST_CORRECTION);
        let ids = windows.iter().map(|(id, _)| *id);
        self.corrections = ids.zip(after.into_iter().map(bounded)).collect();
    }
}

/// The logarithm of target / used, bounded.
fn error(target_ns: f64, used_ns: u64) -> f64 {
    // A house that was kept from all CPUs used nothing; one tick is less than is measured.
    let used_ns = (used_ns as f64).max(1.0);
    (target_ns.max(1.0) / used_ns).ln().clamp(-GREATEST_ERROR, GREATEST_ERROR)
}

/// Applies rule 2. The targets add up to all that was used.
fn targets(windows: &[Window]) -> Vec<f64> {
    let mut left_ns: f64 = windows.iter().map(|window| window.used_ns as f64).sum();
    let mut left_due: f64 = windows.iter().map(|window| window.due).sum();
    // Those that want the least for what they are due are satisfied first.
    let mut order: Vec<usize> = (0..windows.len()).collect();
    let wanted = |index: &usize| windows[*index].wanted_ns as f64 / windows[*index].due.max(1e-30);
    order.sort_by(|one, other| wanted(one).total_cmp(&wanted(other)));
    let mut targets = vec![0.0; windows.len()];
    for index in order {
        let Window { due, wanted_ns, .. } = windows[index];
        let part = if left_due > 0.0 { left_ns * due / left_due } else { 0.0 };
        targets[index] = part.min(wanted_ns as f64);
        left_ns -= targets[index];
        left_due -= due;
    }
    targets
}

#[cfg(test)]
#[path = "steering_tests.rs"]
mod tests;
