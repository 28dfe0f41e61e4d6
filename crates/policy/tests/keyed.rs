//! What the keyed policies promise, on CPUs in virtual time.

use std::collections::BTreeMap;

use allot_policy::keyed::lottery::{self, DRAWN_ONE, mixed};
use allot_policy::keyed::machine::{Funding, Happening, Machine};
use allot_policy::keyed::{self, stride};
use allot_policy::keyed::{Client, KeyedPolicy, Settings, WHOLE};
use allot_policy::{ClientKey, PolicyName};

const QUANTUM_NS: u64 = 4_000_000;
const HORIZON_NS: u64 = 2_000_000_000;

/// Fixed weights in one currency: all divide the machine. What a ticket was due is counted by a
/// clock, as in bpf/sched/currency.h.
#[derive(Default)]
struct Weights {
    weights: BTreeMap<ClientKey, u64>,
    active: u64,
    /// In 2⁻⁶⁴ ns a ticket.
    clock: u128,
    service_ns: u64,
    seen: BTreeMap<ClientKey, u128>,
}

impl Weights {
    fn of(weights: &[u64]) -> Self {
        Weights { weights: (0..).zip(weights.iter().copied()).collect(), ..Weights::default() }
    }

    fn advance(&mut self, service_ns: u64) {
        let given = u128::from(service_ns - self.service_ns) << 64;
        self.service_ns = service_ns;
        if self.active > 0 {
            self.clock += given / u128::from(self.active);
        }
    }
}

impl Funding for Weights {
    fn set_active(&mut self, client: ClientKey, active: bool, service_ns: u64) {
        if self.service_ns == 0 {
            self.service_ns = service_ns;
        }
        self.advance(service_ns);
        let weight = self.weights[&client];
        if active {
            self.active += weight;
            self.seen.insert(client, self.clock);
        } else {
            self.active -= weight;
        }
    }

    fn value(&mut self, client: ClientKey) -> u64 {
        (u128::from(WHOLE) * u128::from(self.weights[&client]) / u128::from(self.active)) as u64
    }

    fn due_ns(&mut self, client: ClientKey, service_ns: u64) -> u64 {
        self.advance(service_ns);
        let seen = self.seen.get_mut(&client).expect("it is active");
        // Whole nanoseconds; the rest is due the next time.
        let due = (self.clock - *seen) * u128::from(self.weights[&client]);
        let whole = due >> 64;
        *seen = self.clock - (due - (whole << 64)) / u128::from(self.weights[&client]);
        whole as u64
    }
}

fn settings(cpus: u32, seed: u64) -> Settings {
    Settings { cpus, quantum_ns: QUANTUM_NS, seed, ..Settings::default() }
}

/// Clients 0, 1, 2, … with these weights and a thread each, asleep.
fn machine(policy: PolicyName, cpus: u32, seed: u64, weights: &[u64]) -> Machine<Weights> {
    let funding = Weights::of(weights);
    let mut machine = Machine::new(policy, settings(cpus, seed), HORIZON_NS, funding);
    for client in 0..weights.len() as u64 {
        machine.add_client(client);
        machine.add_thread(client);
    }
    machine
}

fn dice(seed: u64) -> impl FnMut() -> u64 {
    let mut number = 0u64;
    move || {
        number += 1;
        mixed(mixed(seed).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

/// All threads are busy for so long.
fn run_hogs(machine: &mut Machine<Weights>, clients: usize, end_ns: u64) {
    for thread in 0..clients {
        machine.wake_at(thread, 0, None);
    }
    while machine.advance(end_ns).is_some() {}
}

/// How far chance may take a client's part of the machine, when it is served `n` whole quanta of
/// random price: each costs 1 ± 1 quanta (an exponential number's deviation), the others' too.
fn chance(policy: PolicyName, part: f64, quanta: f64) -> f64 {
    match policy {
        PolicyName::Lottery => SIGMAS * (2.0 * part / quanta).sqrt(),
        // A few quanta, or a few rounds.
        PolicyName::Stride | PolicyName::MtrLs => 100.0 / quanta,
    }
}

/// Seeds are fixed, so what passed once passes always.
const SIGMAS: f64 = 4.0;

#[test]
fn drawn_numbers_are_exponential() {
    const N: usize = 200_000;
    let n = N as f64;
    for (seed, id) in [(0, 0), (1, 0), (0, 1), (0xdead_beef, 1 << 40)] {
        let mut policy = lottery::Lottery::new(settings(1, seed));
        let mut client = Client::new(id, WHOLE);
        let mut neighbour = Client::new(id + 1, WHOLE);
        let one = DRAWN_ONE as f64;
        let drawn: Vec<f64> = (0..N).map(|_| policy.draw(&mut client) as f64 / one).collect();
        let others: Vec<f64> = (0..N).map(|_| policy.draw(&mut neighbour) as f64 / one).collect();
        let what = format!("seed {seed}, client {id}");

        let mean = drawn.iter().sum::<f64>() / n;
        assert!((mean - 1.0).abs() < SIGMAS / n.sqrt(), "{what}: mean {mean}");
        // The fourth central moment is 9: the variance's own variance is (9 − 1)/n.
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        assert!((variance - 1.0).abs() < SIGMAS * (8.0 / n).sqrt(), "{what}: variance {variance}");
        // Neither its own last number nor its neighbour's tells anything.
        let products = |other: &[f64]| -> f64 {
            drawn.iter().zip(other).map(|(a, b)| (a - 1.0) * (b - 1.0)).sum::<f64>() / n
        };
        for other in [&drawn[1..], &others[..]] {
            let correlation = products(other);
            assert!(correlation.abs() < SIGMAS / n.sqrt(), "{what}: correlation {correlation}");
        }
        // Kolmogorov & Smirnov: √n · D is above 1.95 once in a thousand. (A step of the numbers is
        // 2⁻¹⁶, far below.)
        let mut sorted = drawn;
        sorted.sort_by(f64::total_cmp);
        let distance = sorted
            .iter()
            .enumerate()
            .map(|(i, x)| {
                let cumulative = 1.0 - (-x).exp();
                (cumulative - i as f64 / n).abs().max((cumulative - (i + 1) as f64 / n).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance * n.sqrt() < 1.95, "{what}: distance {distance}");
    }
}

/// Whatever happened before: the winners of whole quanta are independent, each with probability
/// value / total.
#[test]
fn each_choice_of_the_lottery_is_won_by_tickets() {
    let weights = [5, 3, 1, 1];
    let total: u64 = weights.iter().sum();
    for (seed, quantum_ns) in [(1, 1_000_000), (2, QUANTUM_NS), (3, 10_000_000)] {
        let funding = Weights::of(&weights);
        let settings = Settings { quantum_ns, ..settings(1, seed) };
        let mut machine = Machine::new(PolicyName::Lottery, settings, HORIZON_NS, funding);
        for client in 0..weights.len() {
            machine.add_client(client as ClientKey);
            let thread = machine.add_thread(client as ClientKey);
            machine.wake_at(thread, 0, None);
        }
        let mut pairs = [[0u64; 4]; 4];
        let mut last = None;
        while let Some(happening) = machine.advance(60_000 * quantum_ns) {
            let Happening::Chosen { thread, .. } = happening else { continue };
            // Everybody has had a first turn, which is not drawn for.
            if machine.now_ns() < 100 * quantum_ns {
                continue;
            }
            if let Some(last) = last.replace(thread) {
                pairs[last][thread] += 1;
            }
        }
        for (last, wins) in pairs.iter().enumerate() {
            let n = wins.iter().sum::<u64>() as f64;
            assert!(n > 5_000.0);
            for (client, &won) in wins.iter().enumerate() {
                let p = weights[client] as f64 / total as f64;
                let off = won as f64 - n * p;
                let allowed = SIGMAS * (n * p * (1.0 - p)).sqrt();
                assert!(
                    off.abs() <= allowed,
                    "quantum {quantum_ns}: after {last}, {client} won {won} of {n}"
                );
            }
        }
    }
}

#[test]
fn hogs_get_what_they_are_due() {
    let crowd = [vec![200], vec![1; 200]].concat();
    let cases: [(u32, &[u64]); 6] = [
        (1, &[3, 2, 2, 1]),
        (2, &[3, 2, 2, 1]), // .375 .25 .25 .125
        (4, &[9, 8, 7, 6, 5, 4, 3, 2, 1]),
        (1, &[100, 10, 1]),
        (1, &crowd),
        (2, &crowd),
    ];
    for policy in PolicyName::ALL {
        for (cpus, weights) in cases {
            let mut machine = machine(policy, cpus, 1, weights);
            let end_ns = 80_000_000_000;
            run_hogs(&mut machine, weights.len(), end_ns);
            let total: u64 = weights.iter().sum();
            let given = (end_ns * u64::from(cpus)) as f64;
            for (client, &weight) in weights.iter().enumerate() {
                let due = weight as f64 / total as f64;
                let got = machine.used_ns(client as u64) as f64 / given;
                let allowed = chance(policy, due, given / QUANTUM_NS as f64);
                assert!(
                    (got - due).abs() <= allowed,
                    "{policy}, {cpus} CPUs, {} clients: {client} got {got}, due {due} ± {allowed}",
                    weights.len()
                );
            }
        }
    }
}

/// Nobody waits for longer than the horizon allows, however few tickets it has; a client that is due
/// less than a quantum of that time gets more than it is due.
#[test]
fn nobody_waits_longer_than_the_horizon() {
    for policy in [PolicyName::Lottery, PolicyName::Stride] {
        let mut machine = machine(policy, 1, 1, &[1_000_000, 1]);
        machine.wake_at(0, 0, None);
        machine.wake_at(1, 0, None);
        let (mut last_ns, mut turns) = (0, 0);
        while let Some(happening) = machine.advance(60_000_000_000) {
            if matches!(happening, Happening::Chosen { thread: 1, .. }) {
                let waited_ns = machine.now_ns() - last_ns;
                // Virtual time is random itself under the lottery: 500 charges of a quantum each.
                let most_ns = HORIZON_NS + HORIZON_NS / 3;
                assert!(waited_ns <= most_ns, "{policy}: waited for {waited_ns} ns");
                (last_ns, turns) = (machine.now_ns(), turns + 1);
            }
        }
        assert!((20..40).contains(&turns), "{policy}: {turns}");
    }
}

/// Who is due more than one CPU gets one; the others share the rest by their weights; and what it
/// could not get is not saved up.
#[test]
fn infeasible_weights_neither_bend_the_others_nor_are_saved_up() {
    for policy in PolicyName::ALL {
        let mut machine = machine(policy, 2, 1, &[10, 2, 1, 0]);
        machine.funding.weights.insert(3, 13);
        let end_ns = 100_000_000_000;
        run_hogs(&mut machine, 3, end_ns);
        let used: Vec<u64> = (0..4).map(|client| machine.used_ns(client)).collect();
        let part = |used: u64, of: u64| used as f64 / of as f64;
        assert!((part(used[0], end_ns) - 1.0).abs() < 0.002, "{policy}: {used:?}");
        let quanta = (end_ns / QUANTUM_NS) as f64;
        let off = part(used[1], end_ns) - 2.0 / 3.0;
        assert!(off.abs() <= chance(policy, 0.7, quanta), "{policy}: {used:?}");

        // With another hog they fit: 10 of 26 on two CPUs. From the first moment it gets no more.
        machine.wake_at(3, end_ns, None);
        let later_ns = end_ns + 20_000_000_000;
        while machine.advance(later_ns).is_some() {}
        let given = 2.0 * (later_ns - end_ns) as f64;
        let got = (machine.used_ns(0) - used[0]) as f64 / given;
        let saved_ns = match policy {
            PolicyName::Lottery => stride::LAG_QUANTA * QUANTUM_NS,
            PolicyName::Stride => (stride::LAG_QUANTA + 6) * QUANTUM_NS,
            // Three rounds on two CPUs.
            PolicyName::MtrLs => 6 * Settings::default().round_ns,
        };
        let saved = saved_ns as f64 / given;
        let allowed = saved + chance(policy, 0.4, given / QUANTUM_NS as f64);
        assert!((got - 10.0 / 26.0).abs() <= allowed, "{policy}: {got} ± {allowed}");
    }
}

/// A client that is due nearly all of two CPUs, and can have one, holds virtual time back: the others are
/// all far ahead of it. That is no debt: they keep their ratio.
#[test]
fn who_holds_virtual_time_back_makes_nobody_equal() {
    let mut machine = machine(PolicyName::Stride, 2, 1, &[97, 2, 1]);
    let end_ns = 60_000_000_000;
    run_hogs(&mut machine, 3, end_ns);
    let used: Vec<f64> = (0..3).map(|client| machine.used_ns(client) as f64 / 1e9).collect();
    assert!((used[0] - 60.0).abs() < 0.1, "{used:?}");
    // A quantum of each, and what those who were unknown were served early.
    assert!((used[1] - 40.0).abs() < 0.4 && (used[2] - 20.0).abs() < 0.4, "{used:?}");
}

/// A great client that wakes often for a moment: while it is awake the others are worth a fiftieth.
/// Whoever is queued then does not wait fifty times as long.
#[test]
fn a_value_of_a_moment_does_not_decide_how_long_others_wait() {
    let weights = [490, 5, 3, 2];
    let mut machine = machine(PolicyName::Stride, 1, 1, &weights);
    machine.wake_at(0, 0, Some(1_000_000));
    for thread in 1..4 {
        machine.wake_at(thread, 0, None);
    }
    let mut waited_ns = [0; 4];
    let mut since_ns = [0; 4];
    let mut last = 0;
    while let Some(happening) = machine.advance(60_000_000_000) {
        match happening {
            Happening::Slept(thread) => {
                machine.wake_at(thread, machine.now_ns() + 9_000_000, Some(1_000_000));
            }
            Happening::Chosen { thread, .. } => {
                if thread != last && machine.now_ns() > 5_000_000_000 {
                    waited_ns[thread] = waited_ns[thread].max(machine.now_ns() - since_ns[thread]);
                }
                (since_ns[last], last) = (machine.now_ns(), thread);
            }
        }
    }
    // Who has two tenths of nine tenths of a CPU has a quantum in 22 ms.
    assert!(waited_ns.iter().all(|&waited_ns| waited_ns < 150_000_000), "{waited_ns:?}");
}

/// However many threads a client starts, another with as many tickets gets half, and soon. (In quanta that
/// are not cut shorter: a thread that waits for its siblings counts on whole ones.)
#[test]
fn a_crowd_of_threads_takes_nothing_from_others() {
    for policy in [PolicyName::Stride, PolicyName::Lottery] {
        let settings = Settings { quantum_ns: keyed::SLICE_MIN_NS, ..settings(1, 1) };
        let mut machine = Machine::new(policy, settings, HORIZON_NS, Weights::of(&[1, 1]));
        machine.add_client(0);
        machine.add_client(1);
        machine.add_thread(0);
        machine.wake_at(0, 0, None);
        for _ in 0..3000 {
            let thread = machine.add_thread(1);
            machine.wake_at(thread, 1_000_000, None);
        }
        let (mut since_ns, mut longest_ns, mut last) = (0, 0, usize::MAX);
        let end_ns = 40_000_000_000;
        while let Some(happening) = machine.advance(end_ns) {
            let Happening::Chosen { thread, .. } = happening else { continue };
            if thread == 0 && last != 0 {
                longest_ns = longest_ns.max(machine.now_ns() - since_ns);
            }
            if last == 0 {
                since_ns = machine.now_ns();
            }
            last = thread;
        }
        let part = machine.used_ns(0) as f64 / end_ns as f64;
        assert!((0.45..0.55).contains(&part), "{policy}: {part}");
        assert!(longest_ns < 1_000_000_000, "{policy}: it waited for {longest_ns} ns");
    }
}

/// On one CPU, two that stay runnable never differ by more than a quantum of each.
#[test]
fn stride_serves_any_two_within_a_quantum_of_each() {
    for seed in 0..20 {
        let mut dice = dice(seed);
        let weights: Vec<u64> = (0..2 + dice() % 8).map(|_| 1 + dice() % 50).collect();
        let mut machine = machine(PolicyName::Stride, 1, seed, &weights);
        for thread in 0..weights.len() {
            machine.wake_at(thread, 0, None);
        }
        // Whose rate is not known yet is served early, and then waits for the others.
        while machine.advance(4_000_000_000).is_some() {}
        let used = |machine: &Machine<Weights>| -> Vec<f64> {
            let used_ns = (0..weights.len()).map(|i| machine.used_ns(i as u64));
            used_ns.map(|used_ns| used_ns as f64 / QUANTUM_NS as f64).collect()
        };
        let before = used(&machine);
        let mut choices = 0;
        while machine.advance(14_000_000_000).is_some() {
            choices += 1;
            let service: Vec<f64> =
                used(&machine).iter().zip(&before).map(|(now, before)| now - before).collect();
            for (i, &a) in weights.iter().enumerate() {
                for (j, &b) in weights.iter().enumerate().skip(i + 1) {
                    let (a, b) = (a as f64, b as f64);
                    let off = (service[i] / a - service[j] / b).abs();
                    // Due time and values are rounded down.
                    let bound = (1.0 / a + 1.0 / b) * 1.01;
                    assert!(off <= bound, "seed {seed}, choice {choices}: {i} and {j}: {off}");
                }
            }
        }
        assert!(choices > 2_000);
    }
}

/// A client that runs `work_ns`, then sleeps for `sleep_ns`, beside hogs; the parts that all got.
fn beside_a_sleeper(policy: PolicyName, weights: &[u64], work_ns: u64, sleep_ns: u64) -> Vec<f64> {
    let mut machine = machine(policy, 1, 7, weights);
    machine.wake_at(0, 0, Some(work_ns));
    for thread in 1..weights.len() {
        machine.wake_at(thread, 0, None);
    }
    let end_ns = 100_000_000_000;
    while let Some(happening) = machine.advance(end_ns) {
        if let Happening::Slept(thread) = happening {
            machine.wake_at(thread, machine.now_ns() + sleep_ns, Some(work_ns));
        }
    }
    (0..weights.len() as u64).map(|id| machine.used_ns(id) as f64 / end_ns as f64).collect()
}

/// A client that uses a fifth of its quanta and is runnable again at once (1994, section 4.5).
#[test]
fn who_uses_a_fifth_of_its_quanta_gets_its_cpu_time() {
    for policy in PolicyName::ALL {
        let got = beside_a_sleeper(policy, &[1, 1, 2], QUANTUM_NS / 5, 1);
        let quanta = 100_000_000_000.0 / QUANTUM_NS as f64;
        for (got, due) in got.iter().zip([0.25, 0.25, 0.5]) {
            let allowed = chance(policy, due, quanta);
            assert!((got - due).abs() <= allowed, "{policy}: {got}, due {due} ± {allowed}");
        }
    }
}

#[test]
fn sleepers_get_at_most_their_share_and_do_not_lose_it() {
    for policy in PolicyName::ALL {
        let quanta = 100_000_000_000.0 / QUANTUM_NS as f64;
        // It asks for less than its third: it gets what it asks for, nearly at once.
        for (work_ns, sleep_ns) in [(1_000_000, 9_000_000), (10_000_000, 190_000_000)] {
            let got = beside_a_sleeper(policy, &[1, 1, 1], work_ns, sleep_ns);
            let asked = work_ns as f64 / (work_ns + sleep_ns) as f64;
            assert!(got[0] <= asked && got[0] > 0.7 * asked, "{policy}: {got:?}, asked {asked}");
            let off = (got[1] - got[2]).abs();
            assert!(off <= 2.0 * chance(policy, 0.5, quanta), "{policy}: {got:?}");
        }
        // It asks for more: it gets its third, no more, and the others theirs.
        for (work_ns, sleep_ns) in [(8_000_000, 1_000_000), (50_000_000, 10_000_000)] {
            let got = beside_a_sleeper(policy, &[1, 1, 1], work_ns, sleep_ns);
            let allowed = chance(policy, 1.0 / 3.0, quanta);
            assert!(got[0] <= 1.0 / 3.0 + allowed, "{policy}: {got:?} ± {allowed}");
            assert!(got[0] >= 0.30, "{policy}: {got:?}");
            assert!(got[1].min(got[2]) >= 1.0 / 3.0 - allowed, "{policy}: {got:?} ± {allowed}");
        }
    }
}

/// To wake is to run at once, so these do it all the time: twenty clients that run a quantum and sleep for a
/// moment, beside a hog. Together they get what they are due and no more.
#[test]
fn who_wakes_all_the_time_gets_no_more() {
    for policy in PolicyName::ALL {
        let weights: Vec<u64> = [60].into_iter().chain([2; 20]).collect();
        let mut machine = machine(policy, 1, 3, &weights);
        for thread in 0..weights.len() {
            machine.wake_at(thread, 0, (thread > 0).then_some(QUANTUM_NS));
        }
        let end_ns = 100_000_000_000;
        while let Some(happening) = machine.advance(end_ns) {
            if let Happening::Slept(thread) = happening {
                machine.wake_at(thread, machine.now_ns() + 10_000, Some(QUANTUM_NS));
            }
        }
        let part = machine.used_ns(0) as f64 / end_ns as f64;
        let allowed = chance(policy, 0.6, end_ns as f64 / QUANTUM_NS as f64);
        assert!(part >= 0.6 - allowed, "{policy}: the hog has {part} for 0.6 ± {allowed}");
    }
}

/// Who slept for long and was due much does not keep another that wakes waiting.
#[test]
fn those_that_wake_take_turns() {
    for policy in [PolicyName::Stride, PolicyName::Lottery] {
        // A hog; who sleeps for long and then works for long; who wakes for a moment in the midst of that, and
        // owes more or less each time.
        let mut machine = machine(policy, 1, 5, &[1, 2, 1]);
        machine.wake_at(0, 0, None);
        let (mut woke_at_ns, mut longest_ns, mut rounds) = (0, 0, 0);
        for round in 1..100u64 {
            let at_ns = round * 200_000_000;
            machine.wake_at(1, at_ns, Some(30_000_000));
            machine.wake_at(
                2,
                at_ns + 1_000_000 + round * 10_000,
                Some(1_000_000 + round * 80_000),
            );
            while let Some(happening) = machine.advance(at_ns + 150_000_000) {
                match happening {
                    Happening::Chosen { thread: 1, .. } if woke_at_ns < at_ns => {
                        woke_at_ns = at_ns + 1_000_000 + round * 10_000;
                    }
                    Happening::Chosen { thread: 2, .. } if woke_at_ns > at_ns => {
                        longest_ns = longest_ns.max(machine.now_ns() - woke_at_ns);
                        (woke_at_ns, rounds) = (at_ns, rounds + 1);
                    }
                    _ => {}
                }
            }
        }
        assert!(rounds > 90 && longest_ns == 0, "{policy}: {rounds} rounds, up to {longest_ns} ns");
    }
}

/// A program works for 12 ms, rests for half of one, and is due half of the CPU. It gets half, and begins to work when it
/// wakes: what it must wait, it waits within its work. (But for who wakes when another's turn has just begun.)
#[test]
fn who_wants_more_than_its_share_waits_within_its_work() {
    let mut machine = machine(PolicyName::Stride, 1, 5, &[1, 1]);
    machine.wake_at(0, 0, Some(11_900_000));
    machine.wake_at(1, 0, None);
    let (mut woke_ns, mut wakes, mut late) = (None, 0, 0);
    let end_ns = 20_000_000_000;
    while let Some(happening) = machine.advance(end_ns) {
        match happening {
            Happening::Chosen { thread: 0, .. } => {
                if let Some(woke_ns) = woke_ns.take() {
                    late += u64::from(machine.now_ns() > woke_ns);
                    wakes += 1;
                }
            }
            Happening::Slept(0) => {
                let next_ns = machine.now_ns() + 500_000;
                machine.wake_at(0, next_ns, Some(11_900_000));
                woke_ns = Some(next_ns);
            }
            _ => {}
        }
    }
    let part = machine.used_ns(0) as f64 / end_ns as f64;
    assert!(wakes > 700 && late * 100 <= wakes, "{late} of {wakes} came late");
    assert!((0.45..0.505).contains(&part), "{part}");
}

/// In any time for which a client stays runnable, MTR-LS serves it what it is due less a constant
/// (more, when others do not take theirs): the difference never falls by more than that.
#[test]
fn mtr_ls_serves_within_a_round_of_what_is_due() {
    for seed in 0..10 {
        let mut dice = dice(seed);
        let clients = 3 + dice() % 8;
        let weights: Vec<u64> = (0..clients).map(|_| 1 + dice() % 30).collect();
        let mut machine = machine(PolicyName::MtrLs, 1, seed, &weights);
        // The even stay runnable, the odd sleep and wake.
        for thread in 0..weights.len() {
            let work_ns = (thread % 2 == 1).then(|| 1 + dice() % 30_000_000);
            machine.wake_at(thread, 0, work_ns);
        }
        let round_ns = Settings::default().round_ns as i64;
        let mut most = vec![i64::MIN; weights.len()];
        while let Some(happening) = machine.advance(20_000_000_000) {
            match happening {
                Happening::Slept(thread) => {
                    let at_ns = machine.now_ns() + dice() % 300_000_000;
                    machine.wake_at(thread, at_ns, Some(1 + dice() % 30_000_000));
                }
                Happening::Chosen { thread, .. } if thread % 2 == 0 => {
                    let id = thread as ClientKey;
                    let due_ns = machine.client(id).expect("it is there").due_ns;
                    let ahead_ns = machine.used_ns(id) as i64 - due_ns as i64;
                    most[thread] = most[thread].max(ahead_ns);
                    let late_ns = most[thread] - ahead_ns;
                    assert!(late_ns < round_ns, "seed {seed}, {thread} is {late_ns} ns late");
                }
                Happening::Chosen { .. } => {}
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_choices() {
    let choices = |policy, seed| {
        let mut machine = machine(policy, 2, seed, &[3, 2, 2, 1]);
        for thread in 0..4 {
            machine.wake_at(thread, 0, (thread > 1).then_some(3_000_000));
        }
        let mut list = Vec::new();
        while let Some(happening) = machine.advance(1_000_000_000) {
            if let Happening::Slept(thread) = happening {
                machine.wake_at(thread, machine.now_ns() + 1_000_000, Some(3_000_000));
            }
            list.push((machine.now_ns(), happening));
        }
        list
    };
    for policy in PolicyName::ALL {
        let first = choices(policy, 1);
        assert!(first.len() > 200 && first == choices(policy, 1), "{policy}");
        assert_eq!(first != choices(policy, 2), policy == PolicyName::Lottery, "{policy}");
    }
}
