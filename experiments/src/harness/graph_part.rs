//! One run of one funding graph on real processes: set up, start, change, measure, clean up.

use crate::error::ExperimentError;
use crate::funding::graph::{Client, Doing, Graph};
use crate::funding::independent_valuation::{ExpectedShares, expected_shares};
use crate::funding::phases::{Phase, phases};
use crate::harness::cgroups::{WeightTree, weight_nodes};
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::Daemon;
use crate::harness::graph_ledger::GraphLedger;
use crate::harness::progress::ProgressRow;
use crate::harness::workers::{Job, Workers, nanoseconds};
use crate::report::series::{SETTLE_SECONDS, Series, Window};
use crate::report::statistics::shares;
use crate::workloads::clock::monotonic_ns;
use crate::workloads::spec::Work;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Sample;

/// Seconds by which measuring ends before a phase does: we may be late, and must not see the next.
const MARGIN_SECONDS: f64 = 0.05;
/// Interval between reports of progress, in ns.
const PROGRESS_NS: u64 = 250_000_000;
/// The latest time in a turn at which measuring may begin, as a part of it: a shorter measurement
/// says too little.
const LATEST_BEGIN: f64 = 0.75;

/// One run of a funding graph.
pub(crate) struct GraphPart<'a> {
    /// Its name while it runs.
    pub label: &'a str,
    pub graph: &'a Graph,
    pub seconds: f64,
    /// Interval between samples of progress.
    pub tick: Duration,
    /// Slices of each phase, as parts of it, in which allot and the kernel's default take turns,
    /// allot first. One slice is no cut.
    pub slices: &'a [f64],
    /// Whether the kernel's default gets weights in the tickets' ratio, where it can have them.
    pub weights: bool,
    /// Whether no part comes after it: an own allotd is of no use then.
    pub last: bool,
}

/// The measurements of one part.
#[derive(Clone, Debug)]
pub(crate) struct PartRecord {
    pub windows: Vec<Window>,
    pub series: Series,
    /// Guaranteed values by currency name, before and after each change; only named currencies.
    pub guaranteed: Vec<BTreeMap<String, f64>>,
}

/// A slice of a phase under one rule.
struct Turn {
    at: f64,
    end: f64,
    phase: usize,
    managed: bool,
    first_of_phase: bool,
}

impl ExperimentContext<'_> {
    /// Runs one part. `daemon` is none where the kernel alone shares the CPU.
    pub fn run(
        &mut self,
        daemon: Option<&mut Daemon>,
        part: &GraphPart,
    ) -> Result<PartRecord, ExperimentError> {
        let phases = phases(part.graph, part.seconds)?;
        let clients = part.graph.clients.iter();
        let jobs: Vec<Job> = clients.map(|client| job_of(client, part.seconds)).collect();
        let workers = self.workers(&jobs, part.seconds)?;
        let managed = daemon.is_some();
        let ledger = GraphLedger::new(part.graph);
        let mut run = PartRun { workers, daemon, part, phases, ledger, managed, tree: None };
        // In any case the workloads end first, then what was made for them is removed.
        let mut record = run.go(self);
        let PartRun { workers, daemon, ledger, tree, .. } = run;
        drop(workers);
        drop(tree);
        let mut daemon = daemon.filter(|daemon| !(part.last && daemon.is_own()));
        if let (Some(daemon), Ok(_)) = (&mut daemon, &record)
            && let Err(error) = daemon.resume(self.stop)
        {
            record = Err(error);
        }
        match (daemon, &record) {
            (Some(daemon), Ok(_)) => ledger.sweep(daemon)?,
            // An own allotd ends with the failure; another's is left as clean as it can be.
            (Some(daemon), Err(_)) if !daemon.is_own() => drop(ledger.sweep(daemon)),
            _ => {}
        }
        self.elapsed += part.seconds;
        record
    }
}

/// A part that runs.
struct PartRun<'a, 'd> {
    workers: Workers,
    daemon: Option<&'d mut Daemon>,
    part: &'a GraphPart<'a>,
    phases: Vec<Phase>,
    ledger: GraphLedger<'a>,
    /// Whether allot shares the CPU now.
    managed: bool,
    /// The kernel's weights, while it shares the CPU.
    tree: Option<WeightTree>,
}

/// A turn as a live display shows it.
struct TurnView<'a> {
    label: &'a str,
    phase: &'a str,
    managed: bool,
    promised: &'a [f64],
    /// CPU time when measuring began.
    base: Option<&'a [u64]>,
}

/// The counters at one moment of a turn.
struct Snapshot {
    at_ns: u64,
    used_ns: Vec<u64>,
    /// allotd's sample, while it shares the CPU.
    sample: Option<Sample>,
}

impl PartRun<'_, '_> {
    fn go(&mut self, context: &mut ExperimentContext) -> Result<PartRecord, ExperimentError> {
        let mut record =
            PartRecord { windows: Vec::new(), series: Series::default(), guaranteed: Vec::new() };
        if let Some(daemon) = self.daemon.as_deref() {
            self.ledger.create_currencies(daemon)?;
            self.ledger.adopt(daemon, &self.workers)?;
        }
        let turns = self.turns();
        self.workers.release();
        for turn in turns {
            self.begin(&turn, context, &mut record)?;
            let start_ns = self.workers.start_ns();
            let window = self.measure(&turn, start_ns, context, &mut record.series)?;
            record.windows.push(window);
        }
        self.take(self.workers.start_ns(), &mut record.series)?;
        Ok(record)
    }

    fn turns(&self) -> Vec<Turn> {
        let managed = self.daemon.is_some();
        // An enforcer for the whole machine enforces until its allotd ends.
        let can_turn = |daemon: &Daemon| daemon.is_own() || daemon.enforcer().name == "user-level";
        let slices = match &self.daemon {
            Some(daemon) if !can_turn(daemon) => &[1.0],
            _ => self.part.slices,
        };
        let mut turns = Vec::new();
        for (index, phase) in self.phases.iter().enumerate() {
            let mut at = phase.start;
            for (slice, part) in slices.iter().enumerate() {
                let end = at + (phase.end - phase.start) * part;
                let managed = managed && slice % 2 == 0;
                turns.push(Turn { at, end, phase: index, managed, first_of_phase: slice == 0 });
                at = end;
            }
        }
        turns
    }

    /// Begins a turn: changes the rule, and the funding at the beginning of a phase.
    fn begin(
        &mut self,
        turn: &Turn,
        context: &ExperimentContext,
        record: &mut PartRecord,
    ) -> Result<(), ExperimentError> {
        let before = std::mem::replace(&mut self.managed, turn.managed);
        // An enforcer for the whole machine takes seconds of CPU time to begin, and would have to
        // get them beside the workloads: these stand still. At user level, where allotd may stop
        // losers, it is quick.
        let slow = |daemon: &&mut Daemon| daemon.is_own() && daemon.enforcer().name != "user-level";
        let pauses = before != turn.managed && self.daemon.as_ref().is_some_and(slow);
        if pauses {
            self.workers.pause(context.stop)?;
        }
        match turn.managed {
            true => self.hand_to_allot(before, context)?,
            false => self.hand_to_kernel(before, turn, context)?,
        }
        if let Some(daemon) =
            self.daemon.as_deref().filter(|_| turn.first_of_phase && turn.at > 0.0)
        {
            for edit in &self.phases[turn.phase].edits {
                record.guaranteed.push(self.ledger.guaranteed(daemon)?);
                self.ledger.edit(daemon, &self.workers, edit)?;
                record.guaranteed.push(self.ledger.guaranteed(daemon)?);
            }
        }
        if pauses {
            self.workers.go_on();
        }
        Ok(())
    }

    fn hand_to_allot(
        &mut self,
        is_there: bool,
        context: &ExperimentContext,
    ) -> Result<(), ExperimentError> {
        self.tree = None;
        let daemon = self.daemon.as_deref_mut().expect("there is an allotd");
        match (is_there, daemon.is_own()) {
            (true, _) => Ok(()),
            (false, true) => daemon.resume(context.stop),
            (false, false) => self.ledger.adopt(daemon, &self.workers),
        }
    }

    /// Hands the CPU to the kernel's default, with weights where it can have them.
    fn hand_to_kernel(
        &mut self,
        was_managed: bool,
        turn: &Turn,
        context: &ExperimentContext,
    ) -> Result<(), ExperimentError> {
        match self.daemon.as_deref_mut().filter(|_| was_managed) {
            Some(daemon) if daemon.is_own() => daemon.pause(),
            Some(daemon) => self.ledger.release(daemon)?,
            None => {}
        }
        if !self.part.weights {
            return Ok(());
        }
        let system = ExperimentError::system;
        let phase = &self.phases[turn.phase];
        self.tree = None;
        let nodes = weight_nodes(self.part.graph, &phase.tickets, &phase.active);
        self.tree = context.kernel.tree(&nodes).map_err(system("make control groups"))?;
        if let Some(tree) = &self.tree {
            for worker in self.workers.list() {
                tree.put(&worker.name, worker.pid)
                    .map_err(system("put a workload into its control group"))?;
            }
        }
        Ok(())
    }

    /// Lets the turn pass, and measures after settling.
    fn measure(
        &mut self,
        turn: &Turn,
        start_ns: u64,
        context: &mut ExperimentContext,
        series: &mut Series,
    ) -> Result<Window, ExperimentError> {
        let name = self.phases[turn.phase].name.clone();
        let expected = self.expected(turn.phase, context.cpus.len());
        let promised = expected.shares();
        let settle = SETTLE_SECONDS.min((turn.end - turn.at) / 10.0);
        let mut view = TurnView {
            label: self.part.label,
            phase: &name,
            managed: turn.managed,
            promised: &promised,
            base: None,
        };
        let now = (monotonic_ns() - start_ns) as f64 / 1e9;
        let begin = turn.at.max(now) + settle;
        if begin > turn.at + LATEST_BEGIN * (turn.end - turn.at) {
            let (took, slice) = (now - turn.at, turn.end - turn.at);
            return Err(ExperimentError::SwitchTooSlow { took, slice });
        }
        self.wait_until(begin, start_ns, context, series, &view)?;
        let before = self.snapshot(turn.managed)?;
        view.base = Some(&before.used_ns);
        self.wait_until(turn.end - MARGIN_SECONDS, start_ns, context, series, &view)?;
        let after = self.snapshot(turn.managed)?;
        let times = [&before, &after].map(|it| (it.at_ns - start_ns) as f64 / 1e9);
        let dispersion = series.dispersion(times, expected.seats().iter().sum());
        self.wait_until(turn.end, start_ns, context, series, &view)?;
        Ok(self.window(name, expected, dispersion, [&before, &after]))
    }

    /// Returns the promises of a phase.
    fn expected(&self, phase: usize, cpus: usize) -> ExpectedShares {
        let phase = &self.phases[phase];
        let clients: Vec<(&str, bool)> = self
            .part
            .graph
            .clients
            .iter()
            .zip(&phase.active)
            .map(|(client, on)| (client.name.as_str(), *on))
            .collect();
        expected_shares(&phase.tickets, &clients, cpus)
    }

    fn snapshot(&self, managed: bool) -> Result<Snapshot, ExperimentError> {
        let used_ns = self.workers.cpu_ns()?;
        let daemon = self.daemon.as_deref().filter(|_| managed);
        let sample = daemon.map(Daemon::sample).transpose()?;
        Ok(Snapshot { at_ns: monotonic_ns(), used_ns, sample })
    }

    fn window(
        &self,
        phase: String,
        expected: ExpectedShares,
        dispersion: f64,
        [before, after]: [&Snapshot; 2],
    ) -> Window {
        let mut window = Window {
            phase,
            managed: false,
            seconds: (after.at_ns - before.at_ns) as f64 / 1e9,
            expected,
            used_ns: differences(&before.used_ns, &after.used_ns),
            promised_ns: vec![0; before.used_ns.len()],
            draws: 0,
            dispersion,
            late: 0,
            daemon_ns: 0,
        };
        if let (Some(before), Some(after)) = (&before.sample, &after.sample) {
            window.managed = true;
            window.draws = after.draws.saturating_sub(before.draws);
            window.late = after.late.saturating_sub(before.late);
            window.daemon_ns = after.daemon_cpu_ns.saturating_sub(before.daemon_cpu_ns);
            let promised = |sample: &Sample| self.ledger.promised(&self.workers, sample);
            window.promised_ns = differences(&promised(before), &promised(after));
        }
        window
    }

    /// Waits, takes samples and reports progress.
    fn wait_until(
        &mut self,
        until: f64,
        start_ns: u64,
        context: &mut ExperimentContext,
        series: &mut Series,
        view: &TurnView,
    ) -> Result<(), ExperimentError> {
        let until_ns = start_ns + nanoseconds(until);
        let tick_ns = self.part.tick.as_nanos() as u64;
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= until_ns {
                return Ok(());
            }
            // Ticks lie on a grid from the start, so that lateness does not add up.
            let next_ns = start_ns + ((now_ns - start_ns) / tick_ns + 1) * tick_ns;
            std::thread::sleep(Duration::from_nanos(next_ns.min(until_ns) - now_ns));
            if (context.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            if monotonic_ns() < next_ns {
                continue;
            }
            self.take(start_ns, series)?;
            let at_ns = next_ns - start_ns;
            if at_ns / PROGRESS_NS != at_ns.saturating_sub(tick_ns) / PROGRESS_NS {
                self.report(at_ns, context, view)?;
            }
        }
    }

    /// Reports the progress, after a check that all processes live.
    fn report(
        &mut self,
        at_ns: u64,
        context: &mut ExperimentContext,
        view: &TurnView,
    ) -> Result<(), ExperimentError> {
        self.workers.check()?;
        if let Some(daemon) = &mut self.daemon {
            daemon.check()?;
        }
        let note = match view.managed {
            true => "allot",
            false => "the kernel's default",
        };
        let phase = match (view.label, view.phase) {
            ("", phase) => phase.to_owned(),
            (label, "") => label.to_owned(),
            (label, phase) => format!("{label}, {phase}"),
        };
        context.report(at_ns as f64 / 1e9, &phase, self.rows(view)?, note);
        Ok(())
    }

    fn rows(&self, view: &TurnView) -> Result<Vec<ProgressRow>, ExperimentError> {
        let used = match view.base {
            Some(base) => differences(base, &self.workers.cpu_ns()?),
            None => vec![0; view.promised.len()],
        };
        let measured = shares(&used);
        let clients = self.part.graph.clients.iter().zip(view.promised).zip(measured);
        Ok(clients
            .map(|((client, promised), measured)| ProgressRow {
                client: client.name.clone(),
                promised: *promised,
                measured,
            })
            .collect())
    }

    fn take(&self, start_ns: u64, series: &mut Series) -> Result<(), ExperimentError> {
        series.at.push((monotonic_ns() - start_ns) as f64 / 1e9);
        series.iterations.push(self.workers.iterations());
        series.used_ns.push(self.workers.cpu_ns()?);
        Ok(())
    }
}

/// Returns the job of a graph's client in a run of `seconds`.
fn job_of(client: &Client, seconds: f64) -> Job {
    let work = Work::Burn(steps(client, seconds));
    Job { name: client.name.clone(), uid: client.uid, nice: client.nice, work }
}

/// Returns a client's steps, in ns from the start.
fn steps(client: &Client, seconds: f64) -> Vec<(u64, bool)> {
    let start = (0, true);
    let steps = client
        .does
        .iter()
        .map(|step| (nanoseconds(step.at.seconds(seconds)), step.what == Doing::Burn));
    std::iter::once(start).chain(steps).collect()
}

fn differences(before: &[u64], after: &[u64]) -> Vec<u64> {
    before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before)).collect()
}
