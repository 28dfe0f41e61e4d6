//! What holds for every memory policy, and what min-funding revocation, memory by faults and the guests' thresholds
//! come to.

use allot_policy::fault_share::Aim;
use allot_policy::reclaim::{self, ReclaimName};
use allot_policy::{FaultShare, GuestMemory, Holder, MAX_WEIGHT, MinFunding, Reclaim};
use proptest::prelude::*;

const PAGE_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;

fn holder(key: u64, tickets: u64, held_bytes: u64) -> Holder {
    Holder { key, tickets, held_bytes, active_bytes: held_bytes, ..Holder::default() }
}

prop_compose! {
    fn any_holder()(
        tickets in prop_oneof![Just(0), 0..10_u64, 0..=MAX_WEIGHT],
        held_bytes in prop_oneof![Just(0), 0..64 * MIB, 0..=reclaim::MAX_HELD_BYTES],
        guaranteed_bytes in prop_oneof![Just(0), 0..64 * MIB],
        active_thousandths in 0..=1000_u64,
        guest: bool,
        refaults in prop_oneof![Just(0), 0..10_000_u64, any::<u64>()],
    ) -> Holder {
        let active_bytes = held_bytes / 1000 * active_thousandths;
        Holder { key: 0, tickets, held_bytes, guaranteed_bytes, active_bytes, guest, refaults }
    }
}

fn any_holders() -> impl Strategy<Value = Vec<Holder>> {
    prop::collection::vec(any_holder(), 0..12).prop_map(|mut holders| {
        (0..).zip(&mut holders).for_each(|(key, holder)| holder.key = key);
        holders
    })
}

fn every_policy(seed: u64, low: u64, high: u64) -> Vec<Box<dyn Reclaim>> {
    let plain = || ReclaimName::ALL.into_iter().map(move |name| reclaim::build(name, seed));
    let guests =
        plain().map(|inner| Box::new(GuestMemory::new(inner, low, high)) as Box<dyn Reclaim>);
    let literal = Box::new(FaultShare::new(Aim::Literal)) as Box<dyn Reclaim>;
    plain().chain(guests).chain([literal]).collect()
}

/// Takes a page from who is chosen until so much is held. Answers what is held then.
fn shrink(policy: &mut dyn Reclaim, mut holders: Vec<Holder>, until_bytes: u64) -> Vec<u64> {
    let held = |holders: &[Holder]| holders.iter().map(|it| it.held_bytes).sum::<u64>();
    while held(&holders) > until_bytes {
        let chosen = policy.choose(&holders).expect("somebody has an excess");
        let loser = &mut holders[chosen];
        loser.held_bytes -= PAGE_BYTES.min(loser.excess_bytes());
        loser.active_bytes = loser.active_bytes.min(loser.held_bytes);
    }
    holders.iter().map(|it| it.held_bytes).collect()
}

proptest! {
    /// Rule 1: somebody loses exactly where somebody can, and only who can.
    #[test]
    fn only_who_has_more_than_its_guarantee_loses(
        holders in any_holders(),
        seed: u64,
        low in 0..100 * MIB,
        more in 0..100 * MIB,
    ) {
        let can = holders.iter().any(|it| it.held_bytes > it.guaranteed_bytes);
        for mut policy in every_policy(seed, low, low + more) {
            let chosen = policy.choose(&holders);
            prop_assert_eq!(chosen.is_some(), can, "{}", policy.name());
            if let Some(loser) = chosen {
                let it = &holders[loser];
                prop_assert!(it.held_bytes > it.guaranteed_bytes, "{}: {:?}", policy.name(), it);
            }
        }
    }

    /// The order of the list means nothing to policies without chance.
    #[test]
    fn ties_are_broken_by_key(holders in any_holders(), seed: u64) {
        let backwards: Vec<Holder> = holders.iter().rev().copied().collect();
        let plain = [ReclaimName::MinFunding, ReclaimName::FaultShare];
        for name in plain {
            let mut guests = GuestMemory::new(reclaim::build(name, seed), 8 * MIB, 80 * MIB);
            let mut policy = reclaim::build(name, seed);
            for policy in [&mut policy as &mut dyn Reclaim, &mut guests] {
                let one = policy.choose(&holders).map(|index| holders[index].key);
                let other = policy.choose(&backwards).map(|index| backwards[index].key);
                prop_assert_eq!(one, other, "{}", name);
            }
        }
    }

    /// Min-funding: with all memory active and no guarantee, what is left is in proportion to tickets, to a page
    /// for each client.
    #[test]
    fn min_funding_leaves_memory_in_proportion_to_tickets(
        tickets in prop::collection::vec(1..20_u64, 2..6),
    ) {
        let total: u64 = tickets.iter().sum();
        let keep = 100 * PAGE_BYTES * total;
        let holders: Vec<Holder> =
            (0..).zip(&tickets).map(|(key, tickets)| holder(key, *tickets, keep)).collect();
        let left = shrink(&mut MinFunding::default(), holders, keep);
        for (left, tickets) in left.iter().zip(&tickets) {
            let due = 100 * PAGE_BYTES * tickets;
            prop_assert!(left.abs_diff(due) <= PAGE_BYTES * tickets, "{} of {}", left, due);
        }
    }

    /// The price with the tax, as floating point has it, is never lower elsewhere.
    #[test]
    fn min_funding_takes_from_who_pays_least(
        holders in prop::collection::vec(
            (1..1000_u64, 1..1000_u64, 0..=1000_u64).prop_map(|(tickets, pages, active)| {
                let held_bytes = pages * PAGE_BYTES;
                Holder { active_bytes: held_bytes * active / 1000, ..holder(0, tickets, held_bytes) }
            }),
            1..10,
        ),
        tax in 0..=999_u64,
    ) {
        let price = |it: &Holder| {
            let k = 1.0 / (1.0 - tax as f64 / 1000.0);
            let idle = (it.held_bytes - it.active_bytes) as f64;
            it.tickets as f64 / (it.active_bytes as f64 + k * idle)
        };
        let chosen = MinFunding::new(tax).choose(&holders).expect("nothing is guaranteed");
        for other in &holders {
            // The rounding of five operations.
            prop_assert!(price(&holders[chosen]) <= price(other) * (1.0 + 1e-14));
        }
    }
}

#[test]
fn an_idle_byte_costs_four_active_ones() {
    let idle = Holder { active_bytes: 0, ..holder(0, 1, 4 * MIB) };
    let at = |bytes| [idle, holder(1, 1, bytes)];
    let mut taxed = MinFunding::default();
    assert_eq!(taxed.choose(&at(16 * MIB - PAGE_BYTES)), Some(0));
    assert_eq!(taxed.choose(&at(16 * MIB + PAGE_BYTES)), Some(1));
    let mut untaxed = MinFunding::new(0);
    assert_eq!(untaxed.choose(&at(4 * MIB - PAGE_BYTES)), Some(0));
    assert_eq!(untaxed.choose(&at(4 * MIB + PAGE_BYTES)), Some(1));
}

#[test]
fn without_tickets_the_greatest_loses_until_all_are_equal() {
    let holders = vec![holder(0, 0, 3 * MIB), holder(1, 0, 2 * MIB), holder(2, 1, 16 * MIB)];
    let left = shrink(&mut MinFunding::default(), holders, 18 * MIB);
    assert_eq!(left, [MIB, MIB, 16 * MIB]);
}

#[test]
#[should_panic(expected = "a tax of 1000")]
fn a_tax_of_everything_is_refused() {
    let _ = MinFunding::new(1000);
}

/// Clients whose refaults fall with what they hold: each works on as many bytes, at random, and refaults in
/// proportion to the part that it lacks.
fn settled(aim: Aim, tickets: &[u64]) -> Vec<f64> {
    let works_on = 16 * MIB;
    let rate = |held: u64| (works_on - held) / 64;
    let mut policy = FaultShare::new(aim);
    let mut holders: Vec<Holder> =
        (0..).zip(tickets).map(|(key, tickets)| holder(key, *tickets, works_on)).collect();
    let mut last = 0;
    for _ in 0..100_000 {
        // Whoever lost last gets it back, as it works on: then somebody must lose again.
        let held: u64 = holders.iter().map(|it| it.held_bytes).sum();
        if held <= 8 * MIB * tickets.len() as u64 {
            holders[last].held_bytes += PAGE_BYTES;
        }
        holders.iter_mut().for_each(|it| it.refaults = rate(it.held_bytes));
        last = policy.choose(&holders).expect("all hold something");
        holders[last].held_bytes -= PAGE_BYTES;
    }
    holders.iter().map(|it| rate(it.held_bytes) as f64).collect()
}

#[test]
fn fault_rates_become_inverse_to_tickets_and_to_the_letter_proportional() {
    // A page is 64 of a rate of some 10⁵, and products differ by a page's worth each.
    let tickets = [1, 2, 3];
    let inverse = settled(Aim::Inverse, &tickets);
    for (rate, tickets) in inverse.iter().zip(tickets) {
        assert!((rate * tickets as f64 / inverse[0] - 1.0).abs() < 0.01, "{inverse:?}");
    }
    let literal = settled(Aim::Literal, &tickets);
    for (rate, tickets) in literal.iter().zip(tickets) {
        assert!((rate / tickets as f64 / literal[0] - 1.0).abs() < 0.01, "{literal:?}");
    }
}

#[test]
fn who_has_no_tickets_or_no_faults_loses_first() {
    let with = |key, tickets, refaults| Holder { refaults, ..holder(key, tickets, MIB) };
    for aim in [Aim::Inverse, Aim::Literal] {
        let mut policy = FaultShare::new(aim);
        assert_eq!(policy.choose(&[with(0, 1, 1), with(1, 0, 900)]), Some(1), "{aim:?}");
        assert_eq!(policy.choose(&[with(0, 0, 5), with(1, 0, 4)]), Some(1), "{aim:?}");
        assert_eq!(policy.choose(&[with(0, 1, 0), with(1, 1, 4)]), Some(0), "{aim:?}");
    }
    let none = [with(0, 2, 0), with(1, 1, 0)];
    assert_eq!(FaultShare::new(Aim::Inverse).choose(&none), Some(1), "fewest tickets");
    assert_eq!(FaultShare::new(Aim::Literal).choose(&none), Some(0), "most tickets");
}

fn guest(key: u64, tickets: u64, held_bytes: u64) -> Holder {
    Holder { guest: true, ..holder(key, tickets, held_bytes) }
}

/// Min-funding alone would take from key 0.
fn guests_first_by(low: u64, high: u64) -> GuestMemory<MinFunding> {
    GuestMemory::new(MinFunding::default(), low, high)
}

#[test]
fn guests_lose_first_above_the_high_threshold_and_last_below_the_low_one() {
    let holders = [
        holder(0, 1, 8 * MIB),
        holder(1, 1, 4 * MIB),
        guest(2, 900, 3 * MIB),
        guest(3, 900, 2 * MIB),
    ];
    assert_eq!(guests_first_by(MIB, 4 * MIB).choose(&holders), Some(2), "5 MiB of 4");
    assert_eq!(guests_first_by(6 * MIB, 8 * MIB).choose(&holders), Some(0), "5 MiB of 6");
    // At the thresholds themselves neither class is first: nobody's age is known, so rule 4 for all.
    let poor = [holder(0, 900, 8 * MIB), guest(1, 1, 5 * MIB)];
    assert_eq!(guests_first_by(5 * MIB, 5 * MIB).choose(&poor), Some(1));
}

#[test]
fn guarantees_send_the_loss_to_the_other_class() {
    let sure = |it: Holder| Holder { guaranteed_bytes: it.held_bytes, ..it };
    let hosts_sure = [sure(holder(0, 1, 8 * MIB)), guest(1, 900, MIB)];
    assert_eq!(guests_first_by(2 * MIB, 4 * MIB).choose(&hosts_sure), Some(1));
    let guests_sure = [holder(0, 1, 8 * MIB), sure(guest(1, 900, 9 * MIB))];
    assert_eq!(guests_first_by(2 * MIB, 4 * MIB).choose(&guests_sure), Some(0));
}

#[test]
fn between_the_thresholds_the_oldest_goes() {
    let old = |it: Holder, idle: u64| Holder { active_bytes: it.held_bytes - idle, ..it };
    let at =
        |host, of_guest| [old(holder(0, 1, 8 * MIB), host), old(guest(1, 900, 3 * MIB), of_guest)];
    let mut policy = guests_first_by(2 * MIB, 4 * MIB);
    assert_eq!(policy.choose(&at(2 * MIB, MIB)), Some(0));
    assert_eq!(policy.choose(&at(MIB, 2 * MIB)), Some(1));
    assert_eq!(policy.choose(&at(MIB, MIB)), Some(1), "as old: the guest");
    // What is old but guaranteed does not count.
    let [mut host, other] = at(4 * MIB, 2 * MIB);
    host.guaranteed_bytes = 7 * MIB;
    assert_eq!(policy.choose(&[host, other]), Some(1));
}

#[test]
fn without_guests_there_are_no_classes() {
    let idle = Holder { active_bytes: 0, ..holder(0, 900, MIB) };
    let holders = [idle, holder(1, 1, 8 * MIB)];
    assert_eq!(guests_first_by(0, 4 * MIB).choose(&holders), Some(1), "not by age");
}
