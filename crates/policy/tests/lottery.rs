//! The lottery's own properties: binomial wins, exact inclusion on several seats, CPU time in
//! proportion to weights whatever the quanta's lengths. Seeds are fixed; allowances are
//! five standard deviations (`common::SIGMAS`).

mod common;

use allot_policy::{Lottery, MAX_COMPENSATION, MAX_DEBT_QUANTA, Policy};
use common::{Machine, QUANTUM_NS, assert_binomial, assert_proportional};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

fn lottery(seed: u64, weights: &[u64]) -> Machine {
    Machine::with(Box::new(Lottery::new(seed)), weights)
}

/// ALGORITHMS: "wins are binomial with p = value/total": the mean, and the spread too.
#[test]
fn wins_of_busy_clients_are_binomial() {
    let weights = [1, 2, 3, 10, 84];
    let (batches, draws) = (2_000u64, 200u64);
    let mut machine = lottery(11, &weights);
    let mut squares = [0.0; 5];
    let mut before = [0; 5];
    for _ in 0..batches {
        machine.run(1, draws);
        for (i, &weight) in weights.iter().enumerate() {
            let wins = machine.got(i as u64).wins;
            let mean = draws as f64 * weight as f64 / 100.0;
            squares[i] += ((wins - before[i]) as f64 - mean).powi(2);
            before[i] = wins;
        }
    }
    for (i, &weight) in weights.iter().enumerate() {
        let p = weight as f64 / 100.0;
        assert_binomial(&format!("weight {weight}"), before[i], batches * draws, p);
        // The sample variance of B batches has a relative deviation of about
        // sqrt((2 + excess kurtosis) / B), for these p at most 5.7 %; five of them.
        let variance = draws as f64 * p * (1.0 - p);
        let excess = (1.0 - 6.0 * p * (1.0 - p)) / variance;
        let allowed = common::SIGMAS * ((2.0 + excess.max(0.0)) / batches as f64).sqrt();
        let measured = squares[i] / batches as f64 / variance;
        assert!((measured - 1.0).abs() < allowed, "weight {weight}: {measured} ± {allowed}");
    }
}

#[test]
fn draws_are_independent_of_the_draw_before() {
    let mut machine = lottery(12, &[1, 1]);
    let draws = 100_000;
    let (mut last, mut repeats) = (0, 0);
    for _ in 0..draws {
        machine.run(1, 1);
        repeats += u64::from(machine.winners[0] == last);
        last = machine.winners[0];
    }
    assert_binomial("the same again", repeats, draws, 0.5);
}

/// Rule 5: inclusion probabilities are exact, for many random weights and 1 to 8 seats.
#[test]
fn inclusion_on_several_seats_is_what_is_promised() {
    for seed in 0..24u64 {
        let mut dice = Pcg64::seed_from_u64(seed);
        let seats = 1 + seed as usize % 8;
        let clients = 1 + dice.next_u64() % 20;
        let weights: Vec<u64> = (0..clients).map(|_| 1 + dice.next_u64() % 100).collect();
        let mut machine = lottery(seed, &weights);
        let draws = 20_000;
        for _ in 0..draws {
            machine.run(seats, 1);
            let mut winners = machine.winners.clone();
            winners.sort_unstable();
            winners.dedup();
            assert_eq!(
                winners.len(),
                seats.min(weights.len()),
                "seed {seed}: distinct, no idle seat"
            );
        }
        for (client, part) in machine.policy.promised(seats) {
            let p = part as f64 / allot_policy::ONE_SEAT as f64;
            let what = format!("seed {seed}, client {client}");
            assert_binomial(&what, machine.got(client).wins, draws, p);
        }
    }
}

/// Rule 2 with fixed fractions: wins are binomial with p in proportion to weight / f, so CPU time
/// is in proportion to weight.
#[test]
fn clients_that_block_early_get_their_cpu_time() {
    let weights = [5, 4, 3, 2, 1];
    let parts = [100, 50, 20, 7, 2]; // of 100
    let mut machine = lottery(13, &weights);
    let quanta = 400_000;
    for _ in 0..quanta {
        machine.quantum(1, |client| QUANTUM_NS * parts[client as usize] / 100);
    }
    let tickets = |i: usize| weights[i] as f64 * 100.0 / parts[i] as f64;
    let total: f64 = (0..5).map(tickets).sum();
    for i in 0..5 {
        let what = format!("client {i}");
        assert_binomial(&what, machine.got(i as u64).wins, quanta, tickets(i) / total);
        let (a, b) = (machine.got(i as u64), machine.got(0));
        assert_proportional(&what, (a, weights[i] as f64), (b, weights[0] as f64));
    }
}

/// Rule 2 with fractions that vary from quantum to quantum, beyond a whole one too: the part of
/// the rule for which "the last quantum's f" must be what the next win pays.
#[test]
fn varying_quanta_do_not_bend_the_shares() {
    let weights = [3, 2, 1];
    for seed in 0..8 {
        let mut machine = lottery(seed, &weights);
        let mut dice = Pcg64::seed_from_u64(!seed);
        for _ in 0..300_000 {
            machine.quantum(1, |client| match client {
                0 => [QUANTUM_NS, QUANTUM_NS / 50][dice.next_u64() as usize % 2],
                1 => 1 + dice.next_u64() % (3 * QUANTUM_NS),
                _ => QUANTUM_NS,
            });
        }
        for (i, &weight) in weights.iter().enumerate() {
            let (a, b) = (machine.got(i as u64), machine.got(2));
            let what = format!("seed {seed}, client {i}");
            assert_proportional(&what, (a, weight as f64), (b, 1.0));
        }
    }
}

/// Rule 4's surplus: on a busy machine a winner gets its whole quantum now and then, and mostly
/// little of it. Who is compensated beyond a whole seat must not lose by that.
#[test]
fn unequal_quanta_on_several_seats_do_not_bend_the_shares() {
    for (seed, seats, weights) in
        [(1, 2, &[1, 2, 1, 2][..]), (2, 2, &[3, 2, 2, 1]), (3, 4, &[2; 9])]
    {
        let mut machine = lottery(seed, weights);
        let mut dice = Pcg64::seed_from_u64(!seed);
        for _ in 0..400_000 {
            machine.quantum(seats, |_| match dice.next_u64() % 10 {
                0..3 => QUANTUM_NS,
                3 => 0,
                _ => QUANTUM_NS / 20,
            });
        }
        let total: f64 = (0..weights.len()).map(|i| machine.got(i as u64).quanta()).sum();
        let weight_total: u64 = weights.iter().sum();
        for (i, &weight) in weights.iter().enumerate() {
            let got = machine.got(i as u64);
            let due = weight as f64 / weight_total as f64;
            let share = got.quanta() / total;
            // Each win pays for one use: the deviation of the sum of that many.
            let allowed = common::SIGMAS * got.squares.sqrt() / total;
            assert!((share - due).abs() <= allowed, "{weights:?} {i}: {share} {due} ± {allowed}");
            assert!(allowed < 0.01, "the test has power");
        }
    }
}

/// What a blocked winner leaves over runs a loser, always the same one: it is charged.
#[test]
fn left_over_time_is_part_of_the_share() {
    let weights = [3, 1, 1];
    let mut machine = lottery(14, &weights);
    for _ in 0..300_000 {
        let uses = |client| if client == 2 { QUANTUM_NS / 2 } else { QUANTUM_NS };
        let left = machine.quantum(1, uses);
        machine.charge(0, left);
        // Its win pays for both: the variance that assert_proportional allows for grows.
        let extra = (left as f64 / QUANTUM_NS as f64).powi(2);
        machine.got.get_mut(&0).unwrap().squares += 2.0 * extra;
    }
    for i in 1..3 {
        assert_proportional(&format!("client {i}"), (machine.got(i), 1.0), (machine.got(0), 3.0));
    }
}

/// Outside load takes half of every quantum from everyone, and clocks are not exact.
#[test]
fn equal_disturbance_and_jitter_leave_shares_alone() {
    for (seed, seats) in [(15, 1), (16, 2), (17, 3)] {
        let weights = [4, 3, 3, 2, 2, 1];
        let mut machine = lottery(seed, &weights);
        let mut dice = Pcg64::seed_from_u64(seed);
        let quanta = 200_000;
        for quantum in 0..quanta {
            let busy = if quantum < quanta / 2 { QUANTUM_NS / 2 } else { QUANTUM_NS };
            machine.quantum(seats, |_| busy * 993 / 1000 + dice.next_u64() % (busy * 14 / 1000));
        }
        for (client, part) in machine.policy.promised(seats) {
            let p = part as f64 / allot_policy::ONE_SEAT as f64;
            // Compensations of clients that wait differ by the jitter, ±0.7 %, at random, so they
            // cancel; and at the halfway change each pays once by the old measure.
            let what = format!("{seats} seats, client {client}");
            let off = machine.got(client).wins as f64 - quanta as f64 * p;
            let sd = (quanta as f64 * p * (1.0 - p)).sqrt();
            assert!(off.abs() < common::SIGMAS * sd + 20.0, "{what}: {off} wins off");
        }
    }
}

/// Rule 4's price: a client that is due exactly one seat cannot win more often after a long
/// quantum than always, so jitter costs it, but less than half of the jitter's width.
#[test]
fn jitter_at_the_edge_of_a_whole_seat_costs_less_than_the_jitter() {
    let mut machine = lottery(22, &[4, 3, 2, 2, 1]); // 4 of 12 on 3 seats
    let mut dice = Pcg64::seed_from_u64(22);
    let quanta = 100_000;
    for _ in 0..quanta {
        machine.quantum(3, |_| QUANTUM_NS * 993 / 1000 + dice.next_u64() % (QUANTUM_NS / 70));
    }
    let lost = quanta - machine.got(0).wins;
    assert!(lost < quanta * 7 / 1000, "{lost} of {quanta} lost");
}

/// Rule 4: compensation makes a client need more than a seat. It gets one, for as long as it needs.
#[test]
fn compensated_tickets_are_capped_too() {
    // Due 0.8 of two seats each; client 0 uses a quarter of each quantum, so it would need 3.2.
    let weights = [2, 1, 1, 1];
    let mut machine = lottery(18, &weights);
    let quanta = 100_000;
    for _ in 0..quanta {
        let uses = |client| if client == 0 { QUANTUM_NS / 4 } else { QUANTUM_NS };
        machine.quantum(2, uses);
    }
    // 2 · 4 of 11 tickets on two seats: infeasible from its first charge on.
    assert!(machine.got(0).wins >= quanta - 50, "{} wins", machine.got(0).wins);
    for i in 1..4 {
        assert_binomial(&format!("client {i}"), machine.got(i).wins, quanta, 1.0 / 3.0);
    }
}

/// Rule 3, lower bound: who uses nearly nothing is compensated, but not without end.
#[test]
fn compensation_is_bounded() {
    let mut machine = lottery(19, &[1, 1]);
    let draws = 100_000;
    for _ in 0..draws {
        machine.quantum(1, |client| if client == 0 { 100 } else { QUANTUM_NS });
    }
    let m = MAX_COMPENSATION as f64;
    assert_binomial("the idler", machine.got(0).wins, draws, m / (m + 1.0));
}

/// Rule 3, upper bound: a feast on idle time costs eight quanta, not all of it.
#[test]
fn debt_is_bounded_and_paid_by_the_next_win() {
    let rounds = 20_000u64;
    let mut waited = 0;
    let mut policy = Lottery::new(20);
    let mut winners = vec![];
    policy.join(0, 1);
    policy.join(1, 1);
    for _ in 0..rounds {
        policy.charge(0, 1_000_000 * QUANTUM_NS, QUANTUM_NS);
        loop {
            policy.draw(1, &mut winners);
            policy.charge(winners[0], QUANTUM_NS, QUANTUM_NS);
            if winners == [0] {
                break;
            }
            waited += 1;
        }
    }
    // Geometric with p = (1/8) / (1 + 1/8) = 1/9: 8 losses on average, deviation sqrt(72).
    let mean = MAX_DEBT_QUANTA as f64;
    let allowed = common::SIGMAS * (mean * (mean + 1.0) / rounds as f64).sqrt();
    let measured = waited as f64 / rounds as f64;
    assert!((measured - mean).abs() < allowed, "waited {measured}, expected {mean} ± {allowed}");
}

/// A compensation survives sleep, and forgetting ends it.
#[test]
fn compensation_waits_for_a_sleeper() {
    let wins_after = |sleep: fn(&mut Lottery)| {
        let mut wins = 0;
        for seed in 0..4_000 {
            let mut policy = Lottery::new(seed);
            let mut winners = vec![];
            policy.join(0, 1);
            policy.draw(1, &mut winners);
            policy.charge(0, QUANTUM_NS / 3, QUANTUM_NS);
            sleep(&mut policy);
            policy.join(0, 1);
            policy.join(1, 1);
            policy.draw(1, &mut winners);
            wins += u64::from(winners == [0]);
        }
        wins
    };
    assert_binomial("slept", wins_after(|policy| policy.leave(0)), 4_000, 0.75);
    assert_binomial("forgotten", wins_after(|policy| policy.forget(0)), 4_000, 0.5);
    let charged_late = |policy: &mut Lottery| {
        policy.leave(0);
        policy.charge(0, QUANTUM_NS / 6, QUANTUM_NS); // half a quantum in all
    };
    assert_binomial("charged late", wins_after(charged_late), 4_000, 2.0 / 3.0);
}

/// Weights at both ends of the range in one draw.
#[test]
fn great_ratios_stay_exact() {
    let mut machine = lottery(21, &[1 << 48, 1 << 28, 1]);
    let draws = 4_000_000;
    machine.run(1, draws);
    let p = 1.0 / (1u64 << 20) as f64;
    assert_binomial("one in 2²⁰", machine.got(1).wins, draws, p);
    assert_eq!(machine.got(2).wins, 0, "one in 2⁴⁸ does not win in 4 million draws");
}

/// Pins the generator and the order of slots: recordings replay only while this holds.
#[test]
fn a_seed_gives_these_winners_for_ever() {
    let mut machine = lottery(2026, &[5, 3, 2, 1, 1]);
    let mut winners = vec![];
    for _ in 0..12 {
        machine.run(2, 1);
        winners.push((machine.winners[0], machine.winners[1]));
    }
    let expected = [
        (0, 3),
        (0, 2),
        (0, 2),
        (0, 2),
        (0, 3),
        (0, 1),
        (0, 1),
        (0, 2),
        (0, 2),
        (0, 3),
        (0, 1),
        (1, 4),
    ];
    assert_eq!(winners, expected);
}

#[test]
#[should_panic(expected = "joined twice")]
fn joining_twice_is_a_broken_invariant() {
    let mut policy = Lottery::new(0);
    policy.join(1, 1);
    policy.join(1, 1);
}

#[test]
fn nobody_to_draw_is_no_winner() {
    let mut machine = lottery(0, &[0, 0]);
    machine.run(3, 1);
    assert!(machine.winners.is_empty());
    machine.policy.reweigh(1, 7);
    machine.run(3, 1);
    assert_eq!(machine.winners, [1]);
    machine.run(0, 1);
    assert!(machine.winners.is_empty());
}
