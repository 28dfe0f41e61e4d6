//! What a client would give, by amount, so that it loses nothing (paper 1, 6.6: a ratio does not do).
//!
//! 1. The part of its time that a client waits for a resource is the elasticity of its progress by
//!    its tickets for it: with s of the time spent waiting, 1 % more of the resource is s % more
//!    progress (Amdahl's law, for small changes).
//! 2. Who holds X of one good and Y of another, waits s_x and s_y of its time, and gives x of the
//!    one, loses nothing with y = Y · ((X / (X − x))^(s_x / s_y) − 1) of the other: where what is
//!    lost and won, both by rule 1, are equal all along the way. The more it gives, the more it
//!    wants for the next.
//! 3. The exponent is multiplied by what trials have taught: it grows where a trade that should have
//!    helped did not.
//! 4. A mark-up, from 1 up, multiplies y.

use ledger::{Good, Point, Terms};

/// Nobody is taken to wait less than this part of its time: what is not needed now may be.
pub(crate) const WAITING_LEAST: f64 = 0.02;
/// Points of a curve.
const POINTS: u64 = 4;

/// What is held of a good, and how much of the time is spent waiting for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stake {
    /// Tickets.
    pub(crate) held: u64,
    /// Part of the time, 0 to 1.
    pub(crate) waiting: f64,
}

/// The least of the other good for `give` tickets (rules 2 and 3), at least 1.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn least_for(give: u64, gives: Stake, wants: Stake, caution: f64) -> f64 {
    let left = gives.held.saturating_sub(give).max(1) as f64;
    let exponent = caution * gives.waiting.max(WAITING_LEAST) / wants.waiting.max(WAITING_LEAST);
    wants.held as f64 * ((gives.held as f64 / left).powf(exponent) - 1.0)
}

/// The mark-up at which the rate is that of what is held: as great a part of one good for a part of
/// the other. At least 1.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn fair_mark_up(give: u64, gives: Stake, wants: Stake, caution: f64) -> f64 {
    let fair = give as f64 * wants.held as f64 / gives.held.max(1) as f64;
    (fair / least_for(give, gives, wants, caution)).max(1.0)
}

/// An offer of up to `give` tickets, in parts (rules 2 to 4). `None` where it would give or get
/// less than a ticket.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn offer(
    (gives_good, gives): (&Good, Stake),
    (wants_good, wants): (&Good, Stake),
    give: u64,
    caution: f64,
    mark_up: f64,
) -> Option<Terms> {
    let mut points: Vec<Point> = Vec::new();
    for place in 1..=POINTS {
        let give = give * place / POINTS;
        let want = (least_for(give, gives, wants, caution) * mark_up).ceil().max(1.0);
        let want = want.min(wants.held.saturating_mul(4) as f64) as u64;
        let before = points.last().copied().unwrap_or(Point { give: 0, want: 0 });
        if give > before.give {
            points.push(Point { give, want: want.max(before.want + 1) });
        }
    }
    let last = *points.last()?;
    // No use for more than twice the fair amount: a step is to be small in both goods.
    let fair = (give as f64 * wants.held as f64 / gives.held.max(1) as f64) as u64;
    let most = last.want.max(fair.saturating_mul(2)).max(1);
    let least = (last.want / POINTS).max(1);
    let (gives, wants) = (gives_good.clone(), wants_good.clone());
    let terms = Terms { gives, wants, points, partial: true, least, most };
    terms.check().is_ok().then_some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_terms::{NAMES, good};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn more_is_dearer_and_nothing_is_below_what_it_costs(
            held in (10u64..100_000, 10u64..100_000), waiting in (0.0f64..1.0, 0.0f64..1.0),
            part in 2u64..20, mark_up in 1.0f64..4.0,
        ) {
            let gives = Stake { held: held.0, waiting: waiting.0 };
            let wants = Stake { held: held.1, waiting: waiting.1 };
            let give = held.0 / part;
            let goods = (good(NAMES[0]), good(NAMES[1]));
            let Some(terms) = offer((&goods.0, gives), (&goods.1, wants), give, 1.0, mark_up) else {
                return Ok(());
            };
            prop_assert!(terms.check().is_ok());
            for point in &terms.points {
                let least = least_for(point.give, gives, wants, 1.0) * mark_up;
                #[allow(clippy::cast_precision_loss)]
                let (want, most) = (point.want as f64, 4.0 * held.1 as f64);
                prop_assert!(want >= least.min(most), "{:?} {}", point, least);
            }
        }
    }

    #[test]
    fn who_waits_for_one_thing_alone_gives_much_of_the_other_for_little() {
        let idle = Stake { held: 1000, waiting: 0.0 };
        let pressed = Stake { held: 1000, waiting: 0.8 };
        let goods = (good(NAMES[0]), good(NAMES[1]));
        let terms = offer((&goods.0, idle), (&goods.1, pressed), 400, 1.0, 1.0).expect("terms");
        // 1000 · ((1000/600)^(0.02/0.8) − 1) = 12.9.
        assert_eq!(terms.points.last(), Some(&Point { give: 400, want: 13 }));
        assert!(fair_mark_up(400, idle, pressed, 1.0) > 30.0);
    }
}
