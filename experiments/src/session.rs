//! One run of one funding graph on real processes: set up, let go, change, measure, clean up.

use crate::cgroups::{Kernel, Tree, nodes};
use crate::daemon::{Daemon, Setup};
use crate::expected::{Expected, expected};
use crate::graph::{BASE, Edit, Funding, Graph};
use crate::machine::Machine;
use crate::timeline::{Phase, phases};
use crate::workers::{Job, Workers, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{ExperimentError, Progress, ProgressRow, RunOptions};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;
use tempfile::TempDir;
use wire::{Amount, CurrencyRef, Operation, Sample};

/// At the beginning of each phase, so much is not measured: whoever woke has to be noticed. A
/// tenth of the phase where that is less.
pub(crate) const SETTLE_SECONDS: f64 = 0.5;
/// Measuring ends so much before a phase does: we may be late, and must not see the next one.
const MARGIN_SECONDS: f64 = 0.05;
const PROGRESS_NS: u64 = 250_000_000;

/// What all parts of an experiment have in common.
pub(crate) struct Bench<'a> {
    pub options: &'a RunOptions,
    pub cpus: Vec<u32>,
    pub machine: Machine,
    /// What allot is compared with.
    pub kernel: Kernel,
    pub dir: TempDir,
    pub stop: &'a dyn Fn() -> bool,
    pub progress: &'a mut dyn FnMut(&Progress),
    /// Seconds of the experiment that are over, and all of them.
    pub elapsed: f64,
    pub total: f64,
}

/// How one part is to be run.
pub(crate) struct Part<'a> {
    /// Shown while it runs.
    pub label: &'a str,
    pub graph: &'a Graph,
    pub seconds: f64,
    /// Between samples of progress.
    pub tick: Duration,
    /// Cuts each phase into slices of these parts of it, in which allot and the kernel's default
    /// take turns, allot first. One slice is no cut.
    pub slices: &'a [f64],
    /// Whether the kernel's default gets weights in the tickets' ratio, where it can have them.
    pub weights: bool,
    /// Whether no part comes after it: an own allotd is of no use then.
    pub last: bool,
}

/// Allot, the kernel's default, and both again. The kernel's default needs less time to show what
/// it does.
const SLICES: [f64; 4] = [0.3, 0.2, 0.3, 0.2];
/// Once each, in runs of less than so many seconds with an enforcer for the whole machine: to load
/// a scheduler takes seconds where CPUs are emulated, and sixty processes need some until each had
/// its turn.
const LONG_SLICES: [f64; 2] = [0.6, 0.4];
const LONG_SLICES_BELOW_SECONDS: f64 = 60.0;
/// The part of a phase that allot has in either.
pub(crate) const OF_ALLOT: f64 = 0.6;

/// Whether a moment of a part of so many seconds, with phases of these bounds, is in one of
/// allot's slices.
pub(crate) fn is_allots(at: f64, phases: &[(f64, f64)], slices: &[f64]) -> bool {
    let inside = |(from, to): &&(f64, f64)| at >= *from && at < *to;
    let Some((from, to)) = phases.iter().find(inside) else { return true };
    let turn = slices[0] + slices[1];
    ((at - from) / (to - from)) % turn < slices[0]
}

/// What was measured in a stretch of time in which nothing changed.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The phase's name.
    pub phase: String,
    /// Whether allot shared the CPU, or the kernel's default.
    pub managed: bool,
    /// How long, without settling.
    pub seconds: f64,
    /// What the graph promises, by the checker's own arithmetic.
    pub expected: Expected,
    /// CPU time, ns, per client.
    pub used_ns: Vec<u64>,
    /// What allotd says that it promised, ns, per client.
    pub promised_ns: Vec<u64>,
    /// Draws held.
    pub draws: u64,
    /// How unequal the draws were in what they were worth: E[f²] / E[f]², with f the part of a
    /// quantum that other processes left to who won it. 1 where they left all.
    pub dispersion: f64,
    /// Of them too late.
    pub late: u64,
    /// CPU time of allotd itself, ns.
    pub daemon_ns: u64,
}

/// Progress over time: one line of samples for each client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Seconds from the start.
    pub at: Vec<f64>,
    /// Iterations, per sample and client.
    pub iterations: Vec<Vec<u64>>,
    /// CPU time, ns, per sample and client.
    pub used_ns: Vec<Vec<u64>>,
}

impl Series {
    /// E[f²] / E[f]² between two times, from what all clients together used between samples (of
    /// about a quantum each) on so many busy CPUs. These are taken as independent of each other:
    /// the variance of their mean is that of one, divided by their number. A quantum that is
    /// spread over two samples is smoothed, so this errs, if at all, towards 1.
    pub fn dispersion(&self, [from, to]: [f64; 2], busy: f64) -> f64 {
        let total = |sample: usize| self.used_ns[sample].iter().sum::<u64>() as f64;
        let inside: Vec<usize> =
            (0..self.at.len()).filter(|sample| (from..=to).contains(&self.at[*sample])).collect();
        let rates: Vec<f64> = inside
            .windows(2)
            .map(|pair| (total(pair[1]) - total(pair[0])) / (self.at[pair[1]] - self.at[pair[0]]))
            .collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        if rates.len() < 2 || mean <= 0.0 {
            return 1.0;
        }
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        1.0 + busy * squares / (rates.len() - 1) as f64 / (mean * mean)
    }
}

/// What one part gave.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub windows: Vec<Window>,
    pub series: Series,
    /// Guaranteed values per currency name, before and after each change; only named currencies.
    pub guaranteed: Vec<BTreeMap<String, f64>>,
}

/// A point of the run at which something is done.
struct Turn {
    at: f64,
    end: f64,
    phase: usize,
    managed: bool,
    first_of_phase: bool,
}

impl Bench<'_> {
    /// Runs one part. `daemon` is none where the kernel alone shares the CPU.
    pub fn run(
        &mut self,
        daemon: Option<&mut Daemon>,
        part: &Part,
    ) -> Result<Record, ExperimentError> {
        let phases = phases(part.graph, part.seconds)?;
        let clients = part.graph.clients.iter();
        let jobs: Vec<Job> = clients.map(|client| Job::of_client(client, part.seconds)).collect();
        let workers = self.workers(&jobs, part.seconds)?;
        let managed = daemon.is_some();
        let ids = BTreeMap::new();
        let mut run = Run { workers, daemon, part, phases, ids, managed, tree: None };
        // In any case the workloads end first, then what was made for them is taken away.
        let mut record = run.go(self);
        let Run { workers, daemon, ids, tree, .. } = run;
        drop(workers);
        drop(tree);
        let mut daemon = daemon.filter(|daemon| !(part.last && daemon.is_own()));
        if let (Some(daemon), Ok(_)) = (&mut daemon, &record)
            && let Err(error) = daemon.resume(self.stop)
        {
            record = Err(error);
        }
        match (daemon, &record) {
            (Some(daemon), Ok(_)) => sweep(daemon, part.graph, &ids)?,
            // An own allotd ends with the failure; another's is left as clean as it can be.
            (Some(daemon), Err(_)) if !daemon.is_own() => drop(sweep(daemon, part.graph, &ids)),
            _ => {}
        }
        self.elapsed += part.seconds;
        record
    }

    /// How phases are cut where allot and the kernel's default take turns in each.
    pub fn slices(&self) -> &'static [f64] {
        match self.options.shares_the_machine() && self.total < LONG_SLICES_BELOW_SECONDS {
            true => &LONG_SLICES,
            false => &SLICES,
        }
    }

    /// An allotd for this experiment.
    pub fn allotd(&self, setup: &Setup) -> Result<Daemon, ExperimentError> {
        Daemon::start(self.options, setup, &self.cpus, self.dir.path(), self.stop)
    }

    /// Processes that wait for their start.
    pub fn workers(&self, jobs: &[Job], seconds: f64) -> Result<Workers, ExperimentError> {
        let command = self.workload_command()?;
        Workers::start(&command, self.dir.path(), jobs, &self.cpus, seconds, self.stop)
    }

    fn workload_command(&self) -> Result<Vec<OsString>, ExperimentError> {
        if let Some(command) = &self.options.workload {
            return Ok(command.clone());
        }
        let here = std::env::current_exe().map_err(ExperimentError::system("find this program"))?;
        Ok(vec![here.into(), "workload".into()])
    }

    /// Tells how far it is: `at` seconds into this part.
    pub fn report(&mut self, at: f64, phase: &str, rows: Vec<ProgressRow>, note: &str) {
        let progress = Progress {
            elapsed: (self.elapsed + at).min(self.total),
            total: self.total,
            phase: phase.to_owned(),
            rows,
            note: note.to_owned(),
        };
        (self.progress)(&progress);
    }
}

struct Run<'a, 'd> {
    workers: Workers,
    daemon: Option<&'d mut Daemon>,
    part: &'a Part<'a>,
    phases: Vec<Phase>,
    /// Currencies and clients by name.
    ids: BTreeMap<String, CurrencyRef>,
    /// Whether allot shares the CPU now.
    managed: bool,
    /// The kernel's weights, while it shares the CPU.
    tree: Option<Tree>,
}

impl Run<'_, '_> {
    fn go(&mut self, bench: &mut Bench) -> Result<Record, ExperimentError> {
        let mut record =
            Record { windows: Vec::new(), series: Series::default(), guaranteed: Vec::new() };
        if self.daemon.is_some() {
            self.create_currencies()?;
            self.adopt()?;
        }
        let turns = self.turns();
        self.workers.release();
        for turn in turns {
            self.turn(&turn, bench, &mut record)?;
            let start_ns = self.workers.start_ns();
            let window = self.measure(&turn, start_ns, bench, &mut record.series)?;
            record.windows.push(window);
        }
        self.take(self.workers.start_ns(), &mut record.series)?;
        Ok(record)
    }

    fn turns(&self) -> Vec<Turn> {
        let managed = self.daemon.is_some();
        // Whoever schedules the whole machine does so until its allotd ends.
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

    /// What is done at the beginning of a turn.
    fn turn(
        &mut self,
        turn: &Turn,
        bench: &Bench,
        record: &mut Record,
    ) -> Result<(), ExperimentError> {
        let before = std::mem::replace(&mut self.managed, turn.managed);
        // Whoever shares the machine takes seconds of CPU time to begin, and would have to get
        // them beside the workloads: these stand still. At user level, where losers may be stopped
        // by allotd, it is quick.
        let slow = |daemon: &&mut Daemon| daemon.is_own() && daemon.enforcer().name != "user-level";
        let pauses = before != turn.managed && self.daemon.as_ref().is_some_and(slow);
        if pauses {
            self.workers.pause(bench.stop)?;
        }
        if turn.managed {
            self.tree = None;
            if !before {
                match self.daemon().is_own() {
                    true => self.daemon.as_mut().expect("managed").resume(bench.stop)?,
                    false => self.adopt()?,
                }
            }
        } else {
            match &mut self.daemon {
                Some(daemon) if before && daemon.is_own() => daemon.pause(),
                Some(_) if before => self.release()?,
                _ => {}
            }
            self.weigh(turn, bench)?;
        }
        if turn.first_of_phase && turn.at > 0.0 && self.daemon.is_some() {
            let edits = self.phases[turn.phase].edits.clone();
            for edit in &edits {
                record.guaranteed.push(self.guaranteed()?);
                self.edit(edit)?;
                record.guaranteed.push(self.guaranteed()?);
            }
        }
        if pauses {
            self.workers.go_on();
        }
        Ok(())
    }

    /// Gives the kernel's default the weights of this turn.
    fn weigh(&mut self, turn: &Turn, bench: &Bench) -> Result<(), ExperimentError> {
        if !self.part.weights {
            return Ok(());
        }
        let system = ExperimentError::system;
        let phase = &self.phases[turn.phase];
        self.tree = None;
        let nodes = nodes(self.part.graph, &phase.tickets, &phase.active);
        self.tree = bench.kernel.tree(&nodes).map_err(system("make control groups"))?;
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
        bench: &mut Bench,
        series: &mut Series,
    ) -> Result<Window, ExperimentError> {
        let phase = &self.phases[turn.phase];
        let name = phase.name.clone();
        let clients: Vec<(&str, bool)> = self
            .part
            .graph
            .clients
            .iter()
            .zip(&phase.active)
            .map(|(client, on)| (client.name.as_str(), *on))
            .collect();
        let expected = expected(&phase.tickets, &clients, bench.cpus.len());
        let promised = expected.shares();
        let settle = SETTLE_SECONDS.min((turn.end - turn.at) / 10.0);
        let mut view = View {
            label: self.part.label,
            phase: &name,
            managed: turn.managed,
            promised: &promised,
            base: None,
        };
        let now = (monotonic_ns() - start_ns) as f64 / 1e9;
        let begin = turn.at.max(now) + settle;
        // A quarter of what is there at least, or it says too little.
        if begin > turn.at + 0.75 * (turn.end - turn.at) {
            let (took, slice) = (now - turn.at, turn.end - turn.at);
            return Err(ExperimentError::SwitchTooSlow { took, slice });
        }
        self.wait_until(begin, start_ns, bench, series, &view)?;
        let used_before = self.workers.cpu_ns()?;
        let sample_before = self.sample(turn.managed)?;
        let begun_ns = monotonic_ns();
        view.base = Some(&used_before);
        self.wait_until(turn.end - MARGIN_SECONDS, start_ns, bench, series, &view)?;
        let used_after = self.workers.cpu_ns()?;
        let sample_after = self.sample(turn.managed)?;
        let ended_ns = monotonic_ns();
        let seconds = (ended_ns - begun_ns) as f64 / 1e9;
        let times = [begun_ns, ended_ns].map(|ns| (ns - start_ns) as f64 / 1e9);
        let busy: f64 = expected.seats().iter().sum();
        let dispersion = series.dispersion(times, busy);
        self.wait_until(turn.end, start_ns, bench, series, &view)?;
        let used_ns = differences(&used_before, &used_after);
        let mut window = Window {
            phase: name,
            managed: turn.managed,
            seconds,
            expected,
            used_ns,
            promised_ns: vec![0; clients.len()],
            draws: 0,
            dispersion,
            late: 0,
            daemon_ns: 0,
        };
        if let (Some(before), Some(after)) = (sample_before, sample_after) {
            window.draws = after.draws.saturating_sub(before.draws);
            window.late = after.late.saturating_sub(before.late);
            window.daemon_ns = after.daemon_cpu_ns.saturating_sub(before.daemon_cpu_ns);
            let (before, after) = (self.promised(&before), self.promised(&after));
            window.promised_ns = differences(&before, &after);
        }
        Ok(window)
    }

    fn wait_until(
        &mut self,
        until: f64,
        start_ns: u64,
        bench: &mut Bench,
        series: &mut Series,
        view: &View,
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
            if (bench.stop)() {
                return Err(ExperimentError::Interrupted);
            }
            if monotonic_ns() < next_ns {
                continue;
            }
            self.take(start_ns, series)?;
            let at_ns = next_ns - start_ns;
            if at_ns / PROGRESS_NS != at_ns.saturating_sub(tick_ns) / PROGRESS_NS {
                self.workers.check()?;
                if let Some(daemon) = &mut self.daemon {
                    daemon.check()?;
                }
                let rows = self.rows(view)?;
                let note = match view.managed {
                    true => "allot",
                    false => "the kernel's default",
                };
                let phase = match (view.label, view.phase) {
                    ("", phase) => phase.to_owned(),
                    (label, "") => label.to_owned(),
                    (label, phase) => format!("{label}, {phase}"),
                };
                bench.report(at_ns as f64 / 1e9, &phase, rows, note);
            }
        }
    }

    fn rows(&self, view: &View) -> Result<Vec<ProgressRow>, ExperimentError> {
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

    fn daemon(&self) -> &Daemon {
        self.daemon.as_deref().expect("only asked of where there is one")
    }

    fn sample(&self, managed: bool) -> Result<Option<Sample>, ExperimentError> {
        if managed { self.daemon().sample().map(Some) } else { Ok(None) }
    }

    /// What allotd promised so far, per client; 0 for one that it does not show (yet).
    fn promised(&self, sample: &Sample) -> Vec<u64> {
        let of = |pid: u32| sample.clients.iter().find(|client| client.pid == pid);
        let workers = self.workers.list().iter();
        workers.map(|worker| of(worker.pid).map_or(0, |client| client.promised_ns)).collect()
    }

    fn reference(&self, name: &str) -> CurrencyRef {
        if name == BASE {
            return CurrencyRef::from(BASE);
        }
        self.ids.get(name).cloned().expect("it was created")
    }

    fn create_currencies(&mut self) -> Result<(), ExperimentError> {
        let daemon = self.daemon();
        let own = daemon.is_own();
        let currencies = self.part.graph.currencies_in_order();
        let create = |name: &str, owner: Option<u32>| Operation::CreateCurrency {
            // In somebody else's allotd the plain names may be taken.
            name: if own { name.to_owned() } else { format!("{name}-{}", std::process::id()) },
            owner,
            group: owner,
            mode: None,
        };
        let made = daemon.operate(
            "creating the currencies",
            currencies.iter().map(|c| create(&c.name, c.owner)).collect(),
        )?;
        let named: Vec<_> = currencies
            .iter()
            .zip(made)
            .map(|(currency, id)| {
                let id = id.expect("a created currency has an id");
                (currency.name.clone(), CurrencyRef(format!("#{id}")))
            })
            .collect();
        self.ids.extend(named);
        let funding: Vec<_> = self
            .part
            .graph
            .currencies_in_order()
            .into_iter()
            .flat_map(|currency| currency.funding.iter().map(move |f| (&currency.name, f)))
            .map(|(name, funding)| self.fund(self.reference(name), funding))
            .collect();
        self.daemon().operate("funding the currencies", funding)?;
        Ok(())
    }

    fn fund(&self, holder: CurrencyRef, funding: &Funding) -> Operation {
        Operation::Fund {
            currency: holder,
            from: self.reference(&funding.from),
            amount: amount(funding),
        }
    }

    /// Makes every process a client, with what the current funding says.
    fn adopt(&mut self) -> Result<(), ExperimentError> {
        let mut adopt = Vec::new();
        for (client, worker) in self.part.graph.clients.iter().zip(self.workers.list()) {
            let first = client.funding.first().map_or(BASE, |funding| funding.from.as_str());
            let of_first = client.funding.iter().filter(|funding| funding.from == first);
            adopt.push(Operation::Adopt {
                pid: Some(worker.pid),
                start_time_ticks: Some(worker.start_time_ticks),
                from: Some(self.reference(first)),
                funding: Some(of_first.map(amount).collect()),
            });
        }
        let made = self.daemon().operate("adopting the workloads", adopt)?;
        let mut rest = Vec::new();
        for (client, id) in self.part.graph.clients.iter().zip(made) {
            let id = CurrencyRef(format!("#{}", id.expect("an adopted client has an id")));
            let first = client.funding.first().map_or(BASE, |funding| funding.from.as_str());
            let others = client.funding.iter().filter(|funding| funding.from != first);
            rest.extend(others.map(|funding| self.fund(id.clone(), funding)));
            self.ids.insert(client.name.clone(), id);
        }
        if !rest.is_empty() {
            self.daemon().operate("funding the clients", rest)?;
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), ExperimentError> {
        let clients = self.part.graph.clients.iter();
        let release = clients
            .map(|client| Operation::Release { client: self.reference(&client.name) })
            .collect();
        self.daemon().operate("releasing the workloads", release)?;
        Ok(())
    }

    fn edit(&mut self, edit: &Edit) -> Result<(), ExperimentError> {
        let operation = match edit {
            Edit::Fund { holder, funding } => self.fund(self.reference(holder), funding),
            Edit::Nice { client, amount, .. } => {
                let clients = self.part.graph.clients.iter();
                let mut pairs = clients.zip(self.workers.list());
                let worker = pairs.find(|(of, _)| of.name == *client).map(|(_, worker)| worker);
                let pid = worker.expect("the graph was checked").pid;
                Operation::Nice { pid: Some(pid), resource: None, amount: *amount }
            }
        };
        self.daemon().operate("changing the funding", vec![operation])?;
        Ok(())
    }

    fn guaranteed(&self) -> Result<BTreeMap<String, f64>, ExperimentError> {
        let values = self.daemon().guaranteed()?;
        let value = |id: &CurrencyRef| {
            let id = id.0.strip_prefix('#').and_then(|id| id.parse::<u64>().ok());
            id.and_then(|id| values.get(&id)).copied().unwrap_or(0.0)
        };
        Ok(self.ids.iter().map(|(name, id)| (name.clone(), value(id))).collect())
    }
}

/// What is shown while a turn passes.
struct View<'a> {
    label: &'a str,
    phase: &'a str,
    managed: bool,
    promised: &'a [f64],
    /// CPU time when measuring began.
    base: Option<&'a [u64]>,
}

/// Takes away the currencies that were made. The clients went with their processes, but allotd
/// may need a moment to notice.
fn sweep(
    daemon: &Daemon,
    graph: &Graph,
    ids: &BTreeMap<String, CurrencyRef>,
) -> Result<(), ExperimentError> {
    let mut currencies = graph.currencies_in_order();
    currencies.reverse();
    let destroy: Vec<_> = currencies
        .iter()
        .filter_map(|currency| ids.get(&currency.name))
        .map(|currency| Operation::DestroyCurrency { currency: currency.clone() })
        .collect();
    if destroy.is_empty() {
        return Ok(());
    }
    let mut tries = 0;
    loop {
        match daemon.operate("taking away the currencies", destroy.clone()) {
            Err(_) if tries < 100 => tries += 1,
            done => return done.map(drop),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn amount(funding: &Funding) -> Amount {
    Amount { resource: "cpu".to_owned(), kind: funding.kind, amount: funding.amount }
}

fn differences(before: &[u64], after: &[u64]) -> Vec<u64> {
    before.iter().zip(after).map(|(before, after)| after.saturating_sub(*before)).collect()
}

/// Parts of their sum; all 0 where that is 0.
pub(crate) fn shares(amounts: &[u64]) -> Vec<f64> {
    let total: u64 = amounts.iter().sum();
    let share = |amount: &u64| if total == 0 { 0.0 } else { *amount as f64 / total as f64 };
    amounts.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rates: impl Iterator<Item = u64>) -> Series {
        let mut series = Series { at: vec![0.0], used_ns: vec![vec![0, 0]], iterations: vec![] };
        let mut used = 0;
        for (tick, rate) in rates.enumerate() {
            used += rate;
            series.at.push((tick + 1) as f64 * 0.01);
            series.used_ns.push(vec![used, 0]);
        }
        series
    }

    #[test]
    fn quanta_that_are_used_whole_are_worth_what_they_are() {
        let even = series(std::iter::repeat_n(10_000_000, 500));
        assert!((even.dispersion([0.0, 5.0], 1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn quanta_of_which_others_take_half_at_random_are_worth_half() {
        // All or nothing, equally often: E[f²] / E[f]² = 1/2 / 1/4.
        let half = series((0..500).map(|tick| if tick % 2 == 0 { 10_000_000 } else { 0 }));
        assert!((half.dispersion([0.0, 5.0], 1.0) - 2.0).abs() < 0.02);
        let nothing = series(std::iter::repeat_n(0, 10));
        assert_eq!(nothing.dispersion([0.0, 1.0], 1.0), 1.0);
    }

    #[test]
    fn shares_of_nothing() {
        assert_eq!(shares(&[0, 0]), [0.0, 0.0]);
        assert_eq!(shares(&[1, 3]), [0.25, 0.75]);
    }
}
