//! Shares of a disk at depths 1, 4 and 16: past the cache, through it and mapped; two to sixteen
//! readers; readers and writers.
//!
//! Clients are in two groups; those of the first have four times the tickets of those of the
//! second. Each has as many threads as the device takes requests, so that there is something to
//! share at every depth. Three runs a cell: by tickets with a disk that waits for who is about to
//! come back, by tickets without, and in order of arrival, which is also the best that the disk can
//! do for so many.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::report::plot::{Line, Panel, plain_panel};
use crate::simulation::plan::{Plan, Words};
use crate::simulation::tickets::{client, cpu, soft_disk};
use ledger::BASE;
use sim::machine::workload::{Access, Order, Transfer};
use sim::machine::{
    Costs, Discipline, DiskSettings, Machine, MemorySettings, ObjectId, Service, Settings, Usage,
};

/// The most by which the ratio may differ from 4, as a part of it.
const RATIO_TOLERANCE: f64 = 0.05;
/// The least throughput, as a part of that in order of arrival.
const THROUGHPUT_LEAST: f64 = 0.9;
/// The same where there are as many clients as one head has requests to choose from: see
/// [`Cell::throughput_least`].
const THROUGHPUT_LEAST_OF_SWEEPS: f64 = 0.8;
const PROMISED: f64 = 4.0;
/// Length of runs with one head, as times of the others.
const SLOW_TIMES: f64 = 4.0;
/// Time for which the disk is kept for a client (BFQ's `slice_idle` is 8 ms).
const ANTICIPATE_NS: u64 = 8_000_000;
/// Pages of a file: more than memory, so that its content there matters little.
const PAGES: u64 = 65_536;

const READ: Access = Access::Direct { pages: 1, write: false };
const WRITE: Access = Access::Direct { pages: 1, write: true };
const BUFFERED: Access = Access::Buffered { ahead: 32 };
const MAPPED: Access = Access::Mapped;

/// A cell of the grid.
struct Cell {
    what: String,
    depth: usize,
    /// The access of each client. The first half has four times the tickets of the second.
    clients: Vec<(Access, Order)>,
    service: Service,
}

impl Cell {
    /// Returns the length of a run. One head serves few requests a second: it has longer, so that
    /// enough are counted.
    fn seconds(&self, plan: &Plan) -> f64 {
        if self.service == Service::OF_PAPER_1 { plan.seconds * SLOW_TIMES } else { plan.seconds }
    }

    /// Returns the least throughput. In order of arrival, requests come back in the order in which
    /// the head passed: each sweep over the disk is short. Shares name the next client, and break
    /// that order where there are as many clients as requests in a batch.
    fn throughput_least(&self) -> f64 {
        let sweeps = self.service == Service::OF_PAPER_1 && self.clients.len() >= self.depth;
        if sweeps { THROUGHPUT_LEAST_OF_SWEEPS } else { THROUGHPUT_LEAST }
    }
}

/// The result of one run of a cell.
struct Got {
    ratio: f64,
    bytes_per_s: f64,
}

/// The results of a cell: with a disk that is kept for a client, with one that is not, and in order
/// of arrival.
struct CellResult {
    cell: Cell,
    patient: Got,
    greedy: Got,
    fifo: Got,
}

impl CellResult {
    fn of(plan: &Plan, cell: Cell) -> CellResult {
        CellResult {
            patient: run_cell(plan, &cell, Discipline::Fair, ANTICIPATE_NS),
            greedy: run_cell(plan, &cell, Discipline::Fair, 0),
            fifo: run_cell(plan, &cell, Discipline::Fifo, 0),
            cell,
        }
    }

    /// Returns the distance of the ratio from its promise, as a part of that.
    fn off(&self) -> f64 {
        (self.patient.ratio / PROMISED - 1.0).abs()
    }

    /// Returns the throughput, as a part of the least.
    fn kept(&self) -> f64 {
        self.patient.bytes_per_s / self.fifo.bytes_per_s / self.cell.throughput_least()
    }
}

/// Returns a machine with one disk, and with so much memory that its files do not fit.
fn machine(plan: &Plan, cell: &Cell, discipline: Discipline, anticipate_ns: u64) -> Machine {
    let disk = DiskSettings {
        service: cell.service,
        depth: cell.depth,
        discipline,
        anticipate_ns,
        gap_pages: 1000,
    };
    let memory = MemorySettings { pages: 8192, ..MemorySettings::default() };
    // A CPU of today, for which a disk is far away.
    let costs = Costs {
        touch_ns: 500,
        copy_ns: 1_000,
        fault_ns: 3_000,
        request_ns: 5_000,
        ..Costs::default()
    };
    Machine::new(Settings { seed: plan.seed, cpus: 4, disk, memory, costs, ..Settings::default() })
}

fn run_cell(plan: &Plan, cell: &Cell, discipline: Discipline, anticipate_ns: u64) -> Got {
    let mut machine = machine(plan, cell, discipline, anticipate_ns);
    let half = cell.clients.len() / 2;
    let mut ids = Vec::new();
    let files = shuffled_files(&mut machine, cell.clients.len());
    for (place, (access, order)) in cell.clients.iter().enumerate() {
        let amount = if place < half { 4000 } else { 1000 };
        let id = client(&mut machine, BASE, &[cpu(), soft_disk(amount)]);
        let file = (files[place], PAGES);
        for thread in 0..cell.depth as u64 {
            let from = PAGES / cell.depth as u64 * thread;
            machine.start(id, 0, Transfer::new(file, *access, *order, from));
        }
        ids.push(id);
    }
    // The first tenth fills memory and queues.
    let seconds = cell.seconds(plan);
    let end_ns = (seconds * 1e9) as u64;
    machine.run_until(end_ns / 10);
    let bytes = |usage: Usage| usage.disk_read_bytes + usage.disk_written_bytes;
    let before: Vec<u64> = ids.iter().map(|id| bytes(machine.usage(*id))).collect();
    machine.run_until(end_ns);
    let got: Vec<f64> = ids
        .iter()
        .zip(before)
        .map(|(id, before)| (bytes(machine.usage(*id)) - before) as f64)
        .collect();
    let (rich, poor): (f64, f64) = (got[..half].iter().sum(), got[half..].iter().sum());
    Got { ratio: rich / poor.max(1.0), bytes_per_s: (rich + poor) / (seconds * 0.9) }
}

/// Adds a file for each client. Their order on the disk is not that in which clients take turns,
/// since turns would otherwise be the shortest way over the disk.
fn shuffled_files(machine: &mut Machine, count: usize) -> Vec<ObjectId> {
    let mut files = vec![0; count];
    // Five shares no divisor with 2, 4 and 16.
    for place in 0..count {
        files[place * 5 % count] = machine.add_file(PAGES);
    }
    files
}

/// Returns all cells of the grid.
fn cells() -> Vec<Cell> {
    let constant = Service::Constant { service_ns: 4_000_000 };
    let mut cells = Vec::new();
    for (device, service) in [("4 ms", constant), ("one head", Service::OF_PAPER_1)] {
        for depth in [1, 4, 16] {
            let mut add = |what: &str, clients: Vec<(Access, Order)>| {
                let what = format!("{device}, depth {depth}, {what}");
                cells.push(Cell { what, depth, clients, service });
            };
            for readers in [2, 4, 16] {
                add(&format!("O_DIRECT, {readers} readers"), vec![(READ, Order::Random); readers]);
            }
            add("buffered, 4 readers", vec![(BUFFERED, Order::Sequential); 4]);
            add("mapped, 4 readers", vec![(MAPPED, Order::Random); 4]);
            let mixed = |first, second| {
                vec![
                    (first, Order::Random),
                    (first, Order::Random),
                    (second, Order::Random),
                    (second, Order::Random),
                ]
            };
            add("2 readers, 2 poor writers", mixed(READ, WRITE));
            add("2 writers, 2 poor readers", mixed(WRITE, READ));
        }
    }
    cells
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let results: Vec<CellResult> =
        cells().into_iter().map(|cell| CellResult::of(plan, cell)).collect();
    let mut findings = Findings::default();
    results.iter().for_each(|result| compare(result, &mut findings));
    check(&results, &mut findings);
    let words = Words {
        policy: "YFQ, a batch of the device's depth".to_owned(),
        default: "requests in order of arrival",
        units: "ratio: bytes of the first half of the clients by those of the second; the first \
                tenth of each run is not measured, and runs with one head last four times as long",
    };
    plan.finish(words, findings, vec![("disk-queue-depth", vec![panel(&results)])])
}

fn compare(CellResult { cell, patient, greedy, fifo }: &CellResult, findings: &mut Findings) {
    findings.compare(
        Comparison::new(&cell.what, "ratio", "")
            .promising(Some(PROMISED))
            .measured(Some(patient.ratio), Some(fifo.ratio)),
    );
    findings.compare(
        Comparison::new(&cell.what, "not kept for anybody", "ratio")
            .measured(Some(greedy.ratio), None),
    );
    let kib = |got: &Got| Some(got.bytes_per_s / 1024.0);
    findings.compare(Comparison::new(&cell.what, "all", "KiB/s").measured(kib(patient), kib(fifo)));
}

/// Checks the cell whose ratio is farthest from its promise, and the one that costs most.
fn check(results: &[CellResult], findings: &mut Findings) {
    let mut farthest = (-1.0, String::new());
    let mut least = (f64::INFINITY, String::new());
    for result in results {
        let CellResult { cell, patient, fifo, .. } = result;
        if result.off() > farthest.0 {
            farthest = (result.off(), format!("{:.2} in {}", patient.ratio, cell.what));
        }
        if result.kept() < least.0 {
            let part = 100.0 * patient.bytes_per_s / fifo.bytes_per_s;
            least = (result.kept(), format!("{part:.0} % in {}", cell.what));
        }
    }
    findings.check(
        format!("the ratio is 4 within 5 % in every cell (farthest: {})", farthest.1),
        farthest.0 <= RATIO_TOLERANCE,
    );
    findings.check(
        format!(
            "90 % of the throughput in order of arrival is left in every cell, 80 % where one head \
             serves as many clients as it has requests to choose from (nearest to that: {})",
            least.1
        ),
        least.0 >= 1.0,
    );
}

fn panel(results: &[CellResult]) -> Panel {
    let line = |name: &str, dashed: bool, ratio: &dyn Fn(&CellResult) -> f64| Line {
        name: name.to_owned(),
        points: results.iter().enumerate().map(|(at, it)| (at as f64, ratio(it))).collect(),
        dashed,
    };
    let lines = vec![
        line("promised", true, &|_| PROMISED),
        line("by tickets", false, &|it| it.patient.ratio),
        line("by tickets, not kept for anybody", false, &|it| it.greedy.ratio),
        line("in order of arrival", false, &|it| it.fifo.ratio),
    ];
    plain_panel("Ratio of bytes, 4 promised", "cell, in the table's order", "ratio", lines)
}
