//! `mtr-ls` on real processes.

use crate::catalogue::mtr_ls::judge::{Account, Shortfalls, judge};
use crate::catalogue::mtr_ls::schedule::{CLIENTS, Schedule, schedules};
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::trial_slice::{CpuRule, TURNS, TrialCurrency, TrialProcess, TrialSlice};
use crate::harness::workers::{Job, nanoseconds};
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::{Line, Panel, plain_panel};
use crate::scheduling_policy::Policy;
use crate::workloads::clock::{monotonic_ns, sleep_until};
use crate::workloads::spec::Work;

/// Interval between samples.
const SAMPLE_NS: u64 = 5_000_000;
/// Samples between reports of progress: a quarter of a second.
const SAMPLES_PER_REPORT: usize = 50;
/// The most points of a line.
const POINTS: usize = 400;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let settings = DaemonSettings { policy: Policy::MtrLs, ..DaemonSettings::of(context.options) };
    let currencies = CLIENTS.map(|(name, tickets)| TrialCurrency::new(name, tickets * 100));
    let seconds = context.total / TURNS.len() as f64;
    let mut shown: [Option<Account>; 2] = [None, None];
    let mut greatest = Shortfalls::default();
    for (turn, rule) in TURNS.into_iter().enumerate() {
        // Allot and the default meet the same schedule.
        let seed = context.options.seed.wrapping_add(turn as u64 / 2);
        let schedules = schedules(seed, nanoseconds(seconds));
        let mut slice = context.slice(rule, &settings, &currencies, turn as u64)?;
        let account = measure(context, &mut slice, &schedules, seconds)?;
        let side = usize::from(rule == CpuRule::Default);
        for (client, greatest) in greatest[side].iter_mut().enumerate() {
            *greatest = greatest.max(account.shortfall(client));
        }
        shown[side].get_or_insert(account);
    }
    let mut findings = Findings::default();
    findings.add_verdict(judge(&greatest, context.selection().quantum.as_secs_f64()));
    let [allot, default] = shown;
    let panels = vec![panel("allot: mtr-ls", allot), panel("the kernel's default", default)];
    let plot = Plot::new("mtr-ls", context.about.title, panels);
    Ok(context.finish(findings, vec![plot]))
}

/// Runs the clients by their schedules, and accounts for their CPU time.
fn measure(
    context: &mut ExperimentContext,
    slice: &mut TrialSlice,
    schedules: &[Schedule],
    seconds: f64,
) -> Result<Account, ExperimentError> {
    let process = |(currency, ((name, _), steps)): (usize, (&(&str, u64), &Schedule))| {
        let job = Job::new(name, Work::Burn(steps.clone()));
        TrialProcess { currency, tickets: 100, job }
    };
    let processes: Vec<TrialProcess> =
        CLIENTS.iter().zip(schedules).enumerate().map(process).collect();
    let mut workers = slice.start(context, &processes, seconds)?;
    let mut used = vec![workers.cpu_ns()?];
    let start_ns = workers.release();
    let mut at_ns = vec![0];
    let end_ns = start_ns + nanoseconds(seconds);
    let phase = if slice.rule == CpuRule::Default { "" } else { "mtr-ls" };
    while monotonic_ns() < end_ns {
        for _ in 0..SAMPLES_PER_REPORT {
            sleep_until(monotonic_ns() + SAMPLE_NS);
            used.push(workers.cpu_ns()?);
            at_ns.push(monotonic_ns() - start_ns);
        }
        let now_ns = monotonic_ns();
        let mut at_once = || true;
        slice.pass(context, &mut [&mut workers], now_ns + 1, phase, &mut at_once)?;
    }
    drop(workers);
    context.elapsed += seconds;
    Ok(Account::of(&at_ns, &used, schedules))
}

fn panel(title: &str, account: Option<Account>) -> Panel {
    let mut lines = Vec::new();
    if let Some(account) = account {
        for (client, (name, _)) in CLIENTS.iter().enumerate() {
            let points = |of: &[[f64; CLIENTS.len()]]| {
                let pairs = account.at.iter().zip(of).map(|(at, of)| (*at, of[client]));
                pairs.step_by((account.at.len() / POINTS).max(1)).collect::<Vec<_>>()
            };
            let (service, guarantee) = (points(&account.service), points(&account.guarantee));
            lines.push(Line { name: (*name).to_owned(), points: service, dashed: false });
            lines.push(Line { name: String::new(), points: guarantee, dashed: true });
        }
    }
    let y_label = "cumulative service, and guarantee (dashed) (s)";
    plain_panel(title, "time (s)", y_label, lines)
}
