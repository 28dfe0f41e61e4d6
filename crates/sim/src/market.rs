//! Random offers, loans and clearings for the adversary: a dealer that knows no fairness, and
//! sometimes tries what the broker must refuse.

use ledger::{
    BASE, Clearing, CurrencyId, Good, Ledger, Leg, Offer, OfferId, Point, Resource, Terms,
    TicketKind,
};
use rand_core::RngCore;
use std::collections::BTreeMap;

fn below(rng: &mut impl RngCore, count: u64) -> u64 {
    rng.next_u64() % count.max(1)
}

fn goods() -> Vec<Good> {
    let good = |resource, kind| Good { resource, kind };
    let kinds = [TicketKind::Soft, TicketKind::Hard];
    let both = |resource: Resource| kinds.map(|kind| good(resource.clone(), kind));
    [both(Resource::CPU), both(Resource::MEMORY)].concat()
}

/// Some good and amount that a currency could give, more often than not.
fn random_gift(ledger: &Ledger, giver: CurrencyId, rng: &mut impl RngCore) -> (Good, u64) {
    let mut all: Vec<(Good, u64)> = goods()
        .into_iter()
        .map(|good| (good.clone(), ledger.spare(giver, &good)))
        .filter(|(_, spare)| *spare > 0)
        .collect();
    if all.is_empty() || below(rng, 8) == 0 {
        all = goods().into_iter().map(|good| (good, 5)).collect();
    }
    let (good, spare) = all.swap_remove(below(rng, all.len() as u64) as usize);
    let amount = match below(rng, 6) {
        0 => 1,
        1 => spare + 1,
        2 => spare,
        _ => 1 + below(rng, spare),
    };
    (good, amount)
}

/// Whether a currency has anything to give away.
pub(crate) fn can_give(ledger: &Ledger, id: CurrencyId) -> bool {
    goods().iter().any(|good| ledger.spare(id, good) > 0)
}

/// A leg from a giver; `None` where it would be to itself.
pub(crate) fn random_leg(
    ledger: &Ledger,
    giver: CurrencyId,
    receiver: CurrencyId,
    rng: &mut impl RngCore,
) -> Option<Leg> {
    let (good, amount) = random_gift(ledger, giver, rng);
    (giver != receiver).then_some(Leg { giver, receiver, good, amount })
}

/// Terms of a party: more often than not such as another's offer meets, else at rates around one
/// for one.
pub(crate) fn random_terms(
    ledger: &Ledger,
    party: CurrencyId,
    rng: &mut impl RngCore,
) -> Option<Terms> {
    let met: Vec<&Terms> = ledger
        .offers()
        .map(|(_, offer)| &offer.terms)
        .filter(|terms| ledger.spare(party, &terms.wants) >= terms.points[0].want)
        .collect();
    if !met.is_empty() && below(rng, 4) > 0 {
        let terms = met[below(rng, met.len() as u64) as usize];
        let (gives, wants) = (terms.wants.clone(), terms.gives.clone());
        let Point { give, want } = terms.points[0];
        let more = below(rng, ledger.spare(party, &gives) - want + 1);
        let points = vec![Point { give: want + more, want: give.saturating_sub(more).max(1) }];
        let partial = below(rng, 2) == 0;
        return Some(Terms { gives, wants, points, partial, least: 0, most: terms.give_most() });
    }
    let (gives, give) = random_gift(ledger, party, rng);
    let others: Vec<Good> =
        goods().into_iter().filter(|good| good.resource != gives.resource).collect();
    let wants = others[below(rng, others.len() as u64) as usize].clone();
    let want = 1 + below(rng, give + 2) / (1 + below(rng, 3));
    let mut points = vec![Point { give, want }];
    if give > 2 && want > 2 && below(rng, 2) == 0 {
        points.insert(0, Point { give: give / 2, want: 1 + below(rng, want - 1) });
    }
    let partial = below(rng, 2) == 0;
    let most = want * (1 + below(rng, 3));
    Some(Terms { gives, wants, points, partial, least: below(rng, 2), most })
}

/// Up to three exchanges among the offers that stand, mostly such as these accept.
pub(crate) fn clearings(ledger: &Ledger, rng: &mut impl RngCore) -> Vec<Clearing> {
    let mut left: BTreeMap<OfferId, Offer> =
        ledger.offers().map(|(id, offer)| (id, offer.clone())).collect();
    let mut found = Vec::new();
    for _ in 0..1 + below(rng, 3) {
        let pairs: Vec<(OfferId, OfferId)> = left
            .iter()
            .flat_map(|(a, one)| {
                let complementary = move |(b, other): (&OfferId, &Offer)| {
                    let (one, other) = (&one.terms, &other.terms);
                    let fits = one.gives == other.wants && one.wants == other.gives;
                    (fits && a != b).then_some((*a, *b))
                };
                left.iter().filter_map(complementary)
            })
            .collect();
        if pairs.is_empty() {
            break;
        }
        let (a, b) = pairs[below(rng, pairs.len() as u64) as usize];
        let (one, other) = (left[&a].clone(), left[&b].clone());
        let Some((give, get)) = amounts(&one.terms, &other.terms, rng) else { continue };
        let leg = |from: &Offer, to: &Offer, amount| Leg {
            giver: from.party,
            receiver: to.party,
            good: from.terms.gives.clone(),
            amount,
        };
        let legs = vec![leg(&one, &other, give), leg(&other, &one, get)];
        found.push(Clearing { offers: vec![a, b], legs });
        for (id, offer, give, get) in [(a, one, give, get), (b, other, get, give)] {
            match offer.after(give, get) {
                Some(rest) => left.insert(id, rest),
                None => left.remove(&id),
            };
        }
    }
    if below(rng, 12) == 0
        && let Some(leg) = found.last_mut().and_then(|clearing| clearing.legs.last_mut())
    {
        match below(rng, 3) {
            0 => leg.amount += 1,
            1 => leg.receiver = BASE,
            _ => std::mem::swap(&mut leg.giver, &mut leg.receiver),
        }
    }
    found
}

/// What two would exchange; now and then what they would not.
fn amounts(one: &Terms, other: &Terms, rng: &mut impl RngCore) -> Option<(u64, u64)> {
    let fits = |(give, get): &(u64, u64)| one.accept(*give, *get) && other.accept(*get, *give);
    let most = one.give_most().min(other.most);
    let tries = (0..16).map(|_| 1 + below(rng, most)).collect::<Vec<u64>>();
    let some = tries.into_iter().chain(one.points.iter().map(|point| point.give));
    let found = some.filter_map(|give| Some((give, one.want_for(give)?))).find(fits);
    let refused = (below(rng, 16) == 0).then(|| (1 + below(rng, 9), 1 + below(rng, 9)));
    found.or(refused)
}
