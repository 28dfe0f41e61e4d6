//! Offers to exchange tickets, and the exchanges that come of them (paper 1, 4.1 to 4.3).
//!
//! 1. What is traded are base tickets, soft or hard, of one resource for those of another: their
//!    base value is constant, whatever happens inside the currencies of those who trade (4.3).
//! 2. An offer's terms are a curve: the most that it gives for what it gets. A ratio alone would
//!    not do, since what a client accepts depends on the amounts (paper 1, 6.6).
//! 3. A part of an offer is worth what its curve says between its points, and below the first of
//!    them at the first one's rate; never a fraction of a ticket to the disadvantage of who offers.

use crate::{CurrencyId, Resource, TicketKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most points that the curve of an offer has.
pub const OFFER_POINTS_MAX: usize = 16;

/// Identifies an offer. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OfferId(pub u64);

impl fmt::Display for OfferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offer {}", self.0)
    }
}

/// What can be traded: base's tickets of a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Good {
    /// Of which resource.
    pub resource: Resource,
    /// [`TicketKind::Soft`] or [`TicketKind::Hard`]; hard ones of memory are KiB.
    pub kind: TicketKind,
}

impl fmt::Display for Good {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TicketKind::Soft => "soft",
            TicketKind::Hard => "hard",
            TicketKind::Transfer => "transfer",
        };
        write!(f, "{kind} {}", self.resource)
    }
}

/// A point of an offer's curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// Tickets that it gives, at least 1.
    pub give: u64,
    /// Tickets that it wants at least for these, at least 1.
    pub want: u64,
}

/// What somebody would give, and what for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// What it gives.
    pub gives: Good,
    /// What it wants.
    pub wants: Good,
    /// From little to much, each greater than the one before in both: 1 to [`OFFER_POINTS_MAX`].
    pub points: Vec<Point>,
    /// Whether anything between the points, and below the first, is welcome too.
    pub partial: bool,
    /// The least that it will get in one exchange; 0 is as little as 1.
    pub least: u64,
    /// The most that it has use for.
    pub most: u64,
}

/// Why terms make no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTerms {
    /// The same on both sides.
    #[error("an exchange is of one resource for another: {0} is on both sides")]
    Same(Resource),
    /// Transfers are no goods.
    #[error("soft or hard tickets are exchanged; transfers are made and taken back as a whole")]
    Kind,
    /// No point, or too many.
    #[error("an offer's curve has 1 to {OFFER_POINTS_MAX} points, this one {0}")]
    Count(usize),
    /// A point that is not greater than the one before.
    #[error("the points of an offer rise in both amounts, from 1: {}:{} does not", .0.give, .0.want)]
    Order(Point),
    /// More than anybody has.
    #[error("{0} is more tickets than there can be")]
    Amount(u64),
    /// Nothing would satisfy it.
    #[error("the least that it wants, {least}, is above the most, {most}")]
    LeastAboveMost {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl Terms {
    /// Terms of one point, all or nothing.
    pub fn one(gives: Good, give: u64, wants: Good, want: u64) -> Terms {
        let points = vec![Point { give, want }];
        Terms { gives, wants, points, partial: false, least: 0, most: want }
    }

    /// # Errors
    /// [`BadTerms`].
    pub fn check(&self) -> Result<(), BadTerms> {
        if self.gives.resource == self.wants.resource {
            return Err(BadTerms::Same(self.gives.resource.clone()));
        }
        if [&self.gives, &self.wants].iter().any(|good| good.kind == TicketKind::Transfer) {
            return Err(BadTerms::Kind);
        }
        if self.points.is_empty() || self.points.len() > OFFER_POINTS_MAX {
            return Err(BadTerms::Count(self.points.len()));
        }
        let mut before = Point { give: 0, want: 0 };
        for point in &self.points {
            if point.give <= before.give || point.want <= before.want {
                return Err(BadTerms::Order(*point));
            }
            before = *point;
        }
        for amount in [before.give, before.want, self.most] {
            if amount > crate::MEMORY_KIB_MAX {
                return Err(BadTerms::Amount(amount));
            }
        }
        if self.least > self.most || self.most == 0 {
            return Err(BadTerms::LeastAboveMost { least: self.least, most: self.most });
        }
        Ok(())
    }

    /// The most that it gives, for whatever.
    pub fn give_most(&self) -> u64 {
        self.points.last().map_or(0, |point| point.give)
    }

    /// The least that it wants for `give` tickets, rounded up; `None` where it does not give so
    /// many, or none.
    pub fn want_for(&self, give: u64) -> Option<u64> {
        if give == 0 {
            return None;
        }
        let next = self.points.iter().position(|point| point.give >= give)?;
        let above = self.points[next];
        let want = if self.partial {
            let below = match next {
                0 => Point { give: 0, want: 0 },
                _ => self.points[next - 1],
            };
            let part = u128::from(above.want - below.want) * u128::from(give - below.give);
            let part = part.div_ceil(u128::from(above.give - below.give));
            below.want + u64::try_from(part).expect("less than the points are apart")
        } else {
            above.want
        };
        Some(want.max(self.least).max(1))
    }

    /// Whether it would give `give` tickets and get `get` for them. To give less than a point, or
    /// to get more, is welcome; to get more than the most is pointless, and not.
    pub fn accept(&self, give: u64, get: u64) -> bool {
        get <= self.most && self.want_for(give).is_some_and(|want| get >= want)
    }

    /// What is left of it after an exchange of `give` for `get`; `None` where nothing is, or what
    /// is left cannot be had in parts. The rest of the curve begins where the exchange left off,
    /// and wants for its parts no less than the whole curve does.
    pub fn after(&self, give: u64, get: u64) -> Option<Terms> {
        if !self.partial || get >= self.most {
            return None;
        }
        let most = self.most - get;
        let begun = self.want_for(give)?.min(get);
        let mut points: Vec<Point> = Vec::new();
        for point in self.points.iter().filter(|point| point.give > give && point.want > begun) {
            points.push(Point { give: point.give - give, want: point.want - begun });
        }
        let rest = Terms { points, most, least: self.least, ..self.clone() };
        (rest.check().is_ok()).then_some(rest)
    }
}

/// Until when holds what a program offers that has to say again and again that it is there. All are
/// seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// When the offer ends: soon, as whoever made it makes another while it lives.
    pub offer_until_s: u64,
    /// When every exchange that comes of the offer ends, unless its party
    /// [renews](crate::operation::Renew) it.
    pub exchange_until_s: u64,
}

/// Who offers, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Whose tickets change: a client, or a currency that somebody owns.
    pub party: CurrencyId,
    /// What for what.
    pub terms: Terms,
    /// When the offer, and with it every exchange that came of it, ends: seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<u64>,
    /// What ends earlier if nobody is there any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

impl Offer {
    /// When the offer itself ends: seconds since 1970.
    pub fn ends_s(&self) -> Option<u64> {
        self.until_s.into_iter().chain(self.lease.map(|lease| lease.offer_until_s)).min()
    }

    /// What is left of it after an exchange of `give` for `get`; `None` where nothing is.
    pub fn after(&self, give: u64, get: u64) -> Option<Offer> {
        self.terms.after(give, get).map(|terms| Offer { terms, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(word: &str) -> Good {
        Good { resource: word.parse().expect("a resource"), kind: TicketKind::Soft }
    }

    fn curve(points: &[(u64, u64)], partial: bool) -> Terms {
        let points: Vec<Point> = points.iter().map(|&(give, want)| Point { give, want }).collect();
        let most = points.last().map_or(0, |point| point.want) * 2;
        let (gives, wants) = (good("disk:sda"), good("cpu"));
        Terms { gives, wants, points, partial, least: 0, most }
    }

    #[test]
    fn all_or_nothing_takes_no_worse_than_a_point() {
        let terms = curve(&[(100, 200)], false);
        assert!(terms.accept(100, 200) && terms.accept(100, 201) && terms.accept(99, 200));
        assert!(!terms.accept(101, 400) && !terms.accept(50, 100) && !terms.accept(0, 10));
        assert_eq!(terms.after(100, 200), None);
    }

    #[test]
    fn parts_are_rounded_in_favour_of_who_offers() {
        let terms = curve(&[(100, 33)], true);
        assert_eq!(terms.want_for(1), Some(1));
        assert_eq!(terms.want_for(4), Some(2));
        assert_eq!(terms.want_for(100), Some(33));
        assert_eq!(terms.want_for(101), None);
    }

    #[test]
    fn a_curve_is_no_ratio() {
        // Paper 1, 6.6: two disk tickets for one of memory from 300 on, but not for 100.
        let terms = curve(&[(100, 100), (200, 150), (600, 300)], true);
        assert!(terms.accept(600, 300) && !terms.accept(200, 100));
        assert_eq!(terms.want_for(400), Some(225));
        let rest = terms.after(200, 160).expect("some is left");
        assert_eq!(rest.points, [Point { give: 400, want: 150 }]);
        assert_eq!(rest.most, 440);
    }

    #[test]
    fn what_is_left_wants_no_less_than_the_whole_curve() {
        let terms = curve(&[(30, 10), (50, 40), (90, 41)], true);
        for first in 1..90 {
            let Some(want) = terms.want_for(first) else { continue };
            let Some(rest) = terms.after(first, want) else { continue };
            for second in 1..=rest.give_most() {
                let both = want + rest.want_for(second).expect("within the rest");
                assert!(
                    both >= terms.want_for(first + second).expect("within"),
                    "{first}+{second}"
                );
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(curve(&[], true).check(), Err(BadTerms::Count(0)));
        let falls = curve(&[(10, 10), (20, 10)], true);
        assert_eq!(falls.check(), Err(BadTerms::Order(Point { give: 20, want: 10 })));
        let same = Terms::one(good("cpu"), 1, good("cpu"), 1);
        assert_eq!(same.check(), Err(BadTerms::Same(Resource::CPU)));
        let least = Terms { least: 9, ..Terms::one(good("cpu"), 1, good("memory"), 1) };
        assert_eq!(least.check(), Err(BadTerms::LeastAboveMost { least: 9, most: 1 }));
    }
}
