//! What bundles of goods are worth to clients, by weights from a seed.
//!
//! 1. A client has a weight w_r for each good, w_r ≥ 0.02, Σ w_r = 1: three exponential draws by their sum,
//!    so that most need one good more than others.
//! 2. A third each have a utility that is
//!    **Leontief** min x_r / w_r (fixed proportions, nothing replaces anything),
//!    **Cobb–Douglas** Π x_r^w_r (everything replaces everything),
//!    **serial** 1 / Σ (w_r / x_r), constant elasticity of substitution ½: one thing after the other, as
//!    programs do.
//! 3. All are homogeneous: twice of everything is twice as good. So a ratio of utilities is how much faster
//!    a client runs.

use crate::machine::chance::Chance;

/// How many goods there are.
pub const GOODS: usize = 3;

/// So much of each good.
pub type Bundle = [f64; GOODS];

/// The shape of a utility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Fixed proportions.
    Leontief,
    /// Constant parts of a budget.
    CobbDouglas,
    /// One thing after the other.
    Serial,
}

/// What a client needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needs {
    /// Their shape.
    pub shape: Shape,
    /// The weights, whose sum is 1.
    pub weights: Bundle,
}

impl Needs {
    /// Drawn (rules 1 and 2).
    pub fn draw(chance: &mut Chance) -> Needs {
        let shape = match chance.below(3) {
            0 => Shape::Leontief,
            1 => Shape::CobbDouglas,
            _ => Shape::Serial,
        };
        let drawn =
            [(); GOODS].map(|()| -((chance.below(1 << 32) as f64 + 1.0) / 4_294_967_297.0).ln());
        let sum: f64 = drawn.iter().sum();
        let weights = drawn.map(|part| 0.02 + (1.0 - 0.02 * GOODS as f64) * part / sum);
        Needs { shape, weights }
    }

    /// What a bundle is worth.
    pub fn utility(&self, bundle: &Bundle) -> f64 {
        let each = self.weights.iter().zip(bundle);
        match self.shape {
            Shape::Leontief => each.map(|(w, x)| x / w).fold(f64::INFINITY, f64::min),
            Shape::CobbDouglas => each.map(|(w, x)| w * x.max(1e-9).ln()).sum::<f64>().exp(),
            Shape::Serial => 1.0 / each.map(|(w, x)| w / x.max(1e-9)).sum::<f64>(),
        }
    }

    /// How much of good `wants` it needs besides what it has, so as to lose nothing when it gives `give` of
    /// good `gives`; infinite where nothing makes up for it.
    pub fn indifferent(&self, bundle: &Bundle, gives: usize, give: f64, wants: usize) -> f64 {
        let mut left = *bundle;
        left[gives] -= give;
        if left[gives] <= 0.0 {
            return f64::INFINITY;
        }
        let worth = self.utility(bundle);
        let (w, have) = (self.weights[wants], bundle[wants]);
        let others = (0..GOODS).filter(|good| *good != wants);
        let needed = match self.shape {
            Shape::Leontief => {
                // A little slack for what is computed in floating point.
                let short = others
                    .clone()
                    .any(|good| left[good] / self.weights[good] < worth * (1.0 - 1e-12));
                if short { f64::INFINITY } else { w * worth }
            }
            Shape::CobbDouglas => {
                let rest: f64 = others.map(|good| self.weights[good] * left[good].ln()).sum();
                ((worth.ln() - rest) / w).exp()
            }
            Shape::Serial => {
                let rest: f64 = others.map(|good| self.weights[good] / left[good]).sum();
                let remains = 1.0 / worth - rest;
                if remains <= 0.0 { f64::INFINITY } else { w / remains }
            }
        };
        (needed - have).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_up_for_a_loss_makes_up_for_it() {
        let mut chance = Chance::new(1, 1);
        for _ in 0..1000 {
            let needs = Needs::draw(&mut chance);
            assert!((needs.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let bundle = [(); GOODS].map(|()| 1.0 + chance.below(2000) as f64);
            let (gives, give) = (chance.below(3) as usize, 0.3);
            let wants = (gives + 1 + chance.below(2) as usize) % GOODS;
            let want = needs.indifferent(&bundle, gives, give, wants);
            if want.is_finite() {
                let mut after = bundle;
                after[gives] -= give;
                after[wants] += want;
                let (before, after) = (needs.utility(&bundle), needs.utility(&after));
                assert!(after >= before * (1.0 - 1e-9), "{needs:?} {bundle:?}: {before} {after}");
            }
        }
    }
}
