//! The slices of a phase, in which allot and the kernel's default take turns.

use crate::harness::context::ExperimentContext;

/// Allot, the kernel's default, and both again. The kernel's default needs less time to show what
/// it does.
const SLICES: [f64; 4] = [0.3, 0.2, 0.3, 0.2];
/// Once each, in short runs with an enforcer for the whole machine: it takes seconds to load a
/// scheduler where CPUs are emulated, and sixty processes need some until each had its turn.
const LONG_SLICES: [f64; 2] = [0.6, 0.4];
const LONG_SLICES_BELOW_SECONDS: f64 = 60.0;
/// The part of a phase that allot has in either.
pub(crate) const OF_ALLOT: f64 = 0.6;

impl ExperimentContext<'_> {
    /// Returns the slices of each phase, as parts of it.
    pub fn slices(&self) -> &'static [f64] {
        match self.options.shares_the_machine() && self.total < LONG_SLICES_BELOW_SECONDS {
            true => &LONG_SLICES,
            false => &SLICES,
        }
    }
}

/// Returns whether a moment is in one of allot's slices, in a part with phases of these bounds.
pub(crate) fn is_allots(at: f64, phases: &[(f64, f64)], slices: &[f64]) -> bool {
    let inside = |(from, to): &&(f64, f64)| at >= *from && at < *to;
    let Some((from, to)) = phases.iter().find(inside) else { return true };
    let turn = slices[0] + slices[1];
    ((at - from) / (to - from)) % turn < slices[0]
}
