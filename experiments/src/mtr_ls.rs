//! `mtr-ls`: paper 2's CPU scheduler and what it guarantees (section 2.3; Bruno et al. 1998): each
//! client's cumulative service is, to within a constant, at least its share times the time for
//! which it was runnable, however clients block and wake.

use crate::arena::{Group, Member, Rule, TURNS};
use crate::contest::Contest;
use crate::daemon::Setup;
use crate::orders::Work;
use crate::plot::{Line, Panel, draw};
use crate::report::Findings;
use crate::session::Bench;
use crate::workers::{Job, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome, Policy};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "mtr-ls",
    title: "MTR-LS: cumulative service against the guarantee",
    paper: "paper 2, 2.3; Bruno et al. 1998",
    what: "Clients with 5, 3 and 2 tickets block and wake at random. The greatest amount by which \
           a client's service falls short of its share of the time for which it was runnable, \
           under MTR-LS and under the kernel's default in turns.",
    least_seconds: 4.0,
    usual_seconds: 40.0,
    own_allotd: true,
};

const CLIENTS: [(&str, u64); 3] = [("five", 5), ("three", 3), ("two", 2)];
/// How long clients burn and sleep, ms: from, and by how much more at most.
const BURN_MS: (u64, u64) = (40, 400);
const SLEEP_MS: (u64, u64) = (20, 250);
/// Between samples.
const SAMPLE_NS: u64 = 5_000_000;
/// The round T of allotd's MTR-LS, in seconds: a client's quota is its share of it.
const ROUND_SECONDS: f64 = 0.1;

/// A client's schedule: when it is runnable, in ns from the start.
type Schedule = Vec<(u64, bool)>;

/// What was seen in one slice: at each sample, the time from the start (s), and each client's
/// service and guarantee (s).
struct Seen {
    at: Vec<f64>,
    service: Vec<[f64; CLIENTS.len()]>,
    guarantee: Vec<[f64; CLIENTS.len()]>,
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let setup = Setup { policy: Policy::MtrLs, ..Setup::of(bench.options) };
    let groups = CLIENTS.map(|(name, tickets)| Group::new(name, tickets * 100));
    let seconds = bench.total / TURNS.len() as f64;
    let mut findings: Option<Findings> = None;
    let mut shown: [Option<Seen>; 2] = [None, None];
    let mut greatest = [[0.0_f64; CLIENTS.len()]; 2];
    for (turn, rule) in TURNS.into_iter().enumerate() {
        // Allot and the default meet the same schedule.
        let seed = bench.options.seed.wrapping_add(turn as u64 / 2);
        let schedules = schedules(seed, nanoseconds(seconds));
        let mut slice = bench.slice(rule, &setup, &groups, turn as u64)?;
        if let (None, Some(daemon)) = (&findings, slice.daemon()) {
            findings = Some(Findings::new(bench, daemon)?);
        }
        let members: Vec<Member> = CLIENTS
            .iter()
            .zip(&schedules)
            .enumerate()
            .map(|(group, ((name, _), steps))| {
                let job = Job::new(name, Work::Burn(steps.clone()));
                Member { group, tickets: 100, job }
            })
            .collect();
        let mut workers = slice.start(bench, &members, seconds)?;
        let mut used = vec![workers.cpu_ns()?];
        let start_ns = workers.release();
        let mut at_ns = vec![0];
        let end_ns = start_ns + nanoseconds(seconds);
        while monotonic_ns() < end_ns {
            // A quarter of a second of samples between two looks at all else.
            for _ in 0..50 {
                crate::workload::sleep_until(monotonic_ns() + SAMPLE_NS);
                used.push(workers.cpu_ns()?);
                at_ns.push(monotonic_ns() - start_ns);
            }
            let now_ns = monotonic_ns();
            let phase = if rule == Rule::Default { "" } else { "mtr-ls" };
            let mut at_once = || true;
            slice.pass(bench, &mut [&mut workers], now_ns + 1, phase, &mut at_once)?;
        }
        drop(workers);
        let seen = account(&at_ns, &used, &schedules);
        let side = usize::from(rule == Rule::Default);
        for (client, greatest) in greatest[side].iter_mut().enumerate() {
            *greatest = greatest.max(shortfall(&seen, client));
        }
        shown[side].get_or_insert(seen);
        bench.elapsed += seconds;
    }
    let mut findings = findings.expect("there was a slice of allot's");
    let quantum = findings.quantum().as_secs_f64();
    let total: u64 = CLIENTS.iter().map(|(_, tickets)| tickets).sum();
    for (client, (name, tickets)) in CLIENTS.iter().enumerate() {
        let share = *tickets as f64 / total as f64;
        // Once its quota is used, each other one comes first with one quota, at most T if it got
        // it while it was alone; the preemption may be a quantum late.
        let bound = share * (CLIENTS.len() - 1) as f64 * ROUND_SECONDS + quantum;
        let [allot, default] = greatest.map(|of| of[client]);
        findings.contests.push(
            Contest::new(&format!("{name} ({:.0} %)", share * 100.0), "shortfall", "ms")
                .promising(Some(bound * 1000.0))
                .measured(Some(allot * 1000.0), Some(default * 1000.0)),
        );
        findings.checks.push(Check {
            what: format!(
                "{name}'s service never falls more than {:.0} ms short of {:.0} % of the time for \
                 which it was runnable ({:.1} ms)",
                bound * 1000.0,
                share * 100.0,
                allot * 1000.0
            ),
            ok: allot <= bound,
        });
    }
    findings.notes.push(format!(
        "time counts as what the clients together got, so that what other processes took is \
         nobody's shortfall; promised is at most the share times {} quotas of T = {ROUND_SECONDS} \
         s, and a quantum",
        CLIENTS.len() - 1
    ));
    let panel = |title: &str, seen: Option<Seen>| {
        let mut lines = Vec::new();
        if let Some(seen) = seen {
            for (client, (name, _)) in CLIENTS.iter().enumerate() {
                let points = |of: &[[f64; CLIENTS.len()]]| {
                    let pairs = seen.at.iter().zip(of).map(|(at, of)| (*at, of[client]));
                    pairs.step_by((seen.at.len() / 400).max(1)).collect::<Vec<_>>()
                };
                let (service, guarantee) = (points(&seen.service), points(&seen.guarantee));
                lines.push(Line { name: (*name).to_owned(), points: service, dashed: false });
                lines.push(Line { name: String::new(), points: guarantee, dashed: true });
            }
        }
        Panel {
            title: title.to_owned(),
            x_label: "time (s)".to_owned(),
            y_label: "cumulative service, and guarantee (dashed) (s)".to_owned(),
            lines,
            marks: Vec::new(),
            x_names: Vec::new(),
        }
    };
    let [allot, default] = shown;
    let panels = [panel("allot: mtr-ls", allot), panel("the kernel's default", default)];
    let svg = vec![("mtr-ls.svg".to_owned(), draw(INFO.title, &panels))];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// When each client burns and sleeps, from a seed.
fn schedules(seed: u64, end_ns: u64) -> Vec<Schedule> {
    let mut state = seed.wrapping_mul(crate::workload::SEED) | 1;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    CLIENTS
        .iter()
        .map(|_| {
            let (mut at_ns, mut burns) = (0, true);
            let mut steps = Vec::new();
            while at_ns < end_ns {
                steps.push((at_ns, burns));
                let (least, more) = if burns { BURN_MS } else { SLEEP_MS };
                at_ns += (least + random(more)) * 1_000_000;
                burns = !burns;
            }
            steps
        })
        .collect()
}

/// The part of a stretch for which a client is runnable.
fn runnable_part(schedule: &Schedule, from_ns: u64, to_ns: u64) -> f64 {
    let mut runnable = 0;
    for (place, (at, burns)) in schedule.iter().enumerate() {
        let until = schedule.get(place + 1).map_or(u64::MAX, |(at, _)| *at);
        if *burns {
            runnable += until.min(to_ns).saturating_sub((*at).max(from_ns));
        }
    }
    runnable as f64 / (to_ns - from_ns).max(1) as f64
}

/// Adds up service and guarantee. The time that counts is what all clients together got.
fn account(at_ns: &[u64], used: &[Vec<u64>], schedules: &[Schedule]) -> Seen {
    let total: u64 = CLIENTS.iter().map(|(_, tickets)| tickets).sum();
    let none = [0.0; CLIENTS.len()];
    let mut seen = Seen { at: vec![0.0], service: vec![none], guarantee: vec![none] };
    for sample in 1..at_ns.len() {
        let got: Vec<f64> = used[sample]
            .iter()
            .zip(&used[sample - 1])
            .map(|(now, then)| now.saturating_sub(*then) as f64 / 1e9)
            .collect();
        let supply: f64 = got.iter().sum();
        let mut service = seen.service[sample - 1];
        let mut guarantee = seen.guarantee[sample - 1];
        for (client, (_, tickets)) in CLIENTS.iter().enumerate() {
            let part = runnable_part(&schedules[client], at_ns[sample - 1], at_ns[sample]);
            service[client] += got[client];
            guarantee[client] += supply * part * *tickets as f64 / total as f64;
        }
        seen.at.push(at_ns[sample] as f64 / 1e9);
        seen.service.push(service);
        seen.guarantee.push(guarantee);
    }
    seen
}

/// The most by which a client's service in any stretch falls short of its guarantee there.
fn shortfall(seen: &Seen, client: usize) -> f64 {
    let (mut lead, mut most) = (0.0_f64, 0.0_f64);
    for (service, guarantee) in seen.service.iter().zip(&seen.guarantee) {
        let ahead = service[client] - guarantee[client];
        lead = lead.max(ahead);
        most = most.max(lead - ahead);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_repeat_and_differ() {
        let once = schedules(3, 5_000_000_000);
        assert_eq!(once, schedules(3, 5_000_000_000));
        assert_ne!(once, schedules(4, 5_000_000_000));
        assert_ne!(once[0], once[1]);
        assert_eq!(once[0][0], (0, true));
    }

    #[test]
    fn runnable_time_by_hand() {
        let schedule = vec![(0, true), (100, false), (300, true)];
        assert_eq!(runnable_part(&schedule, 0, 100), 1.0);
        assert_eq!(runnable_part(&schedule, 50, 150), 0.5);
        assert_eq!(runnable_part(&schedule, 100, 300), 0.0);
        assert_eq!(runnable_part(&schedule, 200, 400), 0.5);
    }

    #[test]
    fn who_gets_nothing_for_a_second_falls_short_by_its_share_of_it() {
        let always: Vec<Schedule> = vec![vec![(0, true)]; 3];
        let ms = 1_000_000;
        // The first has all for a second, then none for a second.
        let at: Vec<u64> = (0..=200).map(|sample| sample * 10 * ms).collect();
        let used: Vec<Vec<u64>> = at
            .iter()
            .map(|at| vec![(*at).min(1000 * ms), at.saturating_sub(1000 * ms), 0])
            .collect();
        let seen = account(&at, &used, &always);
        assert!((shortfall(&seen, 0) - 0.5).abs() < 1e-6);
        assert!((shortfall(&seen, 1) - 0.3).abs() < 1e-6);
        assert!((shortfall(&seen, 2) - 0.4).abs() < 1e-6, "two seconds without any");
    }
}
