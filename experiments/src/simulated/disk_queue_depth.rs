//! Shares of a disk at depths 1, 4 and 16: past the cache, through it and mapped; two to sixteen readers; readers
//! and writers.
//!
//! Clients are in two groups; those of the first have four times the tickets of those of the second. Each has as
//! many threads as the device takes requests, so that there is something to share at every depth. Three runs a
//! cell: by tickets with a disk that waits for who is about to come back, by tickets without, and in order of
//! arrival, which is also the best that the disk can do for so many.

use super::report::Findings;
use super::scene::{Plan, client, cpu, soft_disk};
use crate::plot::{Line, Panel};
use crate::{Contest, ExperimentInfo, Outcome};
use ledger::BASE;
use sim::machine::workload::{Access, Order, Transfer};
use sim::machine::{
    Costs, Discipline, DiskSettings, Machine, MemorySettings, ObjectId, Service, Settings, Usage,
};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "disk-queue-depth",
    title: "Shares of a disk at depth",
    paper: "paper 1, 5.5 (batches)",
    what: "Clients with tickets 4:1 read and write at queue depths 1, 4 and 16: O_DIRECT, buffered and \
           mapped, two to sixteen of them; the ratio that they get, and what order costs.",
    least_seconds: 10.0,
    usual_seconds: 60.0,
    own_allotd: false,
};

/// What the ratio may differ from 4, as a part of it.
const RATIO_TOLERANCE: f64 = 0.05;
/// The part of the throughput in order of arrival that must be left.
const THROUGHPUT_LEAST: f64 = 0.9;
/// The same where there are as many clients as one head has requests to choose from: see [`Cell::throughput_least`].
const THROUGHPUT_LEAST_OF_SWEEPS: f64 = 0.8;
const PROMISED: f64 = 4.0;
/// Runs with one head last so many times as long as the others.
const SLOW_TIMES: f64 = 4.0;
/// How long the disk is kept for somebody (BFQ's `slice_idle` is 8 ms).
const ANTICIPATE_NS: u64 = 8_000_000;
/// Pages of a file: more than memory, so that it matters little what is there.
const PAGES: u64 = 65_536;

const READ: Access = Access::Direct { pages: 1, write: false };
const WRITE: Access = Access::Direct { pages: 1, write: true };
const BUFFERED: Access = Access::Buffered { ahead: 32 };
const MAPPED: Access = Access::Mapped;

struct Cell {
    what: String,
    depth: usize,
    /// For each client; the first half has four times the tickets of the second.
    clients: Vec<(Access, Order)>,
    service: Service,
}

impl Cell {
    /// One head serves few requests a second: it has longer, so that enough are counted.
    fn seconds(&self, plan: &Plan) -> f64 {
        if self.service == Service::OF_PAPER_1 { plan.seconds * SLOW_TIMES } else { plan.seconds }
    }

    /// In order of arrival, requests come back in the order in which the head passed: each sweep over the disk is
    /// short. Shares say who is next, and break that order where there are as many clients as requests in a batch.
    fn throughput_least(&self) -> f64 {
        let sweeps = self.service == Service::OF_PAPER_1 && self.clients.len() >= self.depth;
        if sweeps { THROUGHPUT_LEAST_OF_SWEEPS } else { THROUGHPUT_LEAST }
    }
}

struct Got {
    ratio: f64,
    bytes_per_s: f64,
}

fn run_cell(plan: &Plan, cell: &Cell, discipline: Discipline, anticipate_ns: u64) -> Got {
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
    let settings =
        Settings { seed: plan.seed, cpus: 4, disk, memory, costs, ..Settings::default() };
    let mut machine = Machine::new(settings);
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

/// A file for each client, on the disk in another order than that in which clients take turns: otherwise turns would
/// be the shortest way over the disk.
fn shuffled_files(machine: &mut Machine, count: usize) -> Vec<ObjectId> {
    let mut files = vec![0; count];
    // Five shares no divisor with 2, 4 and 16.
    for place in 0..count {
        files[place * 5 % count] = machine.add_file(PAGES);
    }
    files
}

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

pub(super) fn run(plan: &Plan) -> Outcome {
    let mut findings = Findings::new();
    findings.policy = "YFQ, a batch of the device's depth".to_owned();
    findings.default = "requests in order of arrival".to_owned();
    findings.units =
        "ratio: bytes of the first half of the clients by those of the second; the first tenth of \
                      each run is not measured, and runs with one head last four times as long"
            .to_owned();
    let mut ratios = Vec::new();
    let mut farthest = (-1.0, String::new());
    let mut least = (f64::INFINITY, String::new());
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 3];
    for (place, cell) in cells().iter().enumerate() {
        let patient = run_cell(plan, cell, Discipline::Fair, ANTICIPATE_NS);
        let greedy = run_cell(plan, cell, Discipline::Fair, 0);
        let fifo = run_cell(plan, cell, Discipline::Fifo, 0);
        for (line, got) in lines.iter_mut().zip([&patient, &greedy, &fifo]) {
            line.push((place as f64, got.ratio));
        }
        findings.contest(
            Contest::new(&cell.what, "ratio", "")
                .promising(Some(PROMISED))
                .measured(Some(patient.ratio), Some(fifo.ratio)),
        );
        findings.contest(
            Contest::new(&cell.what, "not kept for anybody", "ratio")
                .measured(Some(greedy.ratio), None),
        );
        let kib = |got: &Got| Some(got.bytes_per_s / 1024.0);
        findings
            .contest(Contest::new(&cell.what, "all", "KiB/s").measured(kib(&patient), kib(&fifo)));
        let off = (patient.ratio / PROMISED - 1.0).abs();
        let kept = patient.bytes_per_s / fifo.bytes_per_s / cell.throughput_least();
        if off > farthest.0 {
            farthest = (off, format!("{:.2} in {}", patient.ratio, cell.what));
        }
        if kept < least.0 {
            let part = 100.0 * patient.bytes_per_s / fifo.bytes_per_s;
            least = (kept, format!("{part:.0} % in {}", cell.what));
        }
        ratios.push(cell.what.clone());
    }
    findings.check(
        format!("the ratio is 4 within 5 % in every cell (farthest: {})", farthest.1),
        farthest.0 <= RATIO_TOLERANCE,
    );
    findings.check(
        format!("90 % of the throughput in order of arrival is left in every cell, 80 % where one head serves \
                 as many clients as it has requests to choose from (nearest to that: {})", least.1),
        least.0 >= 1.0,
    );
    let mut named = vec![Line {
        name: "promised".to_owned(),
        points: (0..ratios.len()).map(|place| (place as f64, PROMISED)).collect(),
        dashed: true,
    }];
    let names = ["by tickets", "by tickets, not kept for anybody", "in order of arrival"];
    named.extend(names.iter().zip(lines).map(|(name, points)| Line {
        name: (*name).to_owned(),
        points,
        dashed: false,
    }));
    let panel = Panel {
        title: "Ratio of bytes, 4 promised".to_owned(),
        x_label: "cell, in the table's order".to_owned(),
        y_label: "ratio".to_owned(),
        lines: named,
        marks: Vec::new(),
        x_names: Vec::new(),
    };
    findings.finish(plan, vec![("disk-queue-depth", vec![panel])])
}
