//! Random terms for tests.

use ledger::{Good, Point, Terms, TicketKind};
use proptest::prelude::*;

pub(crate) const NAMES: [&str; 4] = ["cpu", "memory", "disk:sda", "net:eth0"];

pub(crate) fn good(word: &str) -> Good {
    Good { resource: word.parse().expect("a resource"), kind: TicketKind::Soft }
}

/// Curves of one to three points, with and without parts, least and most.
pub(crate) fn terms_between(gives: usize, wants: usize) -> impl Strategy<Value = Terms> {
    let steps = prop::collection::vec((1u64..40, 1u64..40), 1..4);
    (steps, any::<bool>(), 0u64..20, 0u64..60).prop_map(move |(steps, partial, least, more)| {
        let mut point = Point { give: 0, want: 0 };
        let mut points = Vec::new();
        for (give, want) in steps {
            point = Point { give: point.give + give, want: point.want + want };
            points.push(point);
        }
        let most = (least + more).max(1);
        let (gives, wants) = (good(NAMES[gives]), good(NAMES[wants]));
        Terms { gives, wants, points, partial, least, most }
    })
}

pub(crate) fn terms() -> impl Strategy<Value = Terms> {
    terms_between(0, 1)
}
