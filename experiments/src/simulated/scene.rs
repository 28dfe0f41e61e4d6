//! Words in which simulated experiments are told.

use crate::ExperimentInfo;
use crate::plot::{Line, Panel};
use ledger::{CurrencyId, Funding, Resource, TicketKind};
use sim::machine::books::{disk, funding};
use sim::machine::{Machine, Usage};

/// What was asked for.
pub(super) struct Plan {
    pub info: ExperimentInfo,
    /// Of virtual time, for each run.
    pub seconds: f64,
    pub seed: u64,
}

/// Soft tickets for a CPU, as many as everybody has.
pub(super) fn cpu() -> Funding {
    funding(Resource::Cpu, TicketKind::Soft, 1000)
}

/// Soft tickets for the disk.
pub(super) fn soft_disk(amount: u64) -> Funding {
    funding(disk(), TicketKind::Soft, amount)
}

/// Thousandths of the disk.
pub(super) fn hard_disk(amount: u64) -> Funding {
    funding(disk(), TicketKind::Hard, amount)
}

/// Thousandths of the memory that can be had.
pub(super) fn hard_memory(amount: u64) -> Funding {
    funding(Resource::Memory, TicketKind::Hard, amount)
}

/// Soft tickets for memory.
pub(super) fn soft_memory(amount: u64) -> Funding {
    funding(Resource::Memory, TicketKind::Soft, amount)
}

/// A client that the broker does not refuse: its tickets are the experiment's own.
pub(super) fn client(machine: &mut Machine, issuer: CurrencyId, tickets: &[Funding]) -> CurrencyId {
    machine.add_client(issuer, tickets).expect("root may fund a client")
}

/// What clients had used at each moment.
pub(super) struct Samples {
    /// In seconds of virtual time.
    pub at: Vec<f64>,
    /// For each moment, a usage for each client.
    pub usages: Vec<Vec<Usage>>,
    /// Pages that were free, or about to be.
    pub spare_pages: Vec<u64>,
}

/// Runs a machine for so long, and looks so many times.
pub(super) fn sample(
    machine: &mut Machine,
    clients: &[CurrencyId],
    seconds: f64,
    times: u64,
) -> Samples {
    let mut samples = Samples { at: Vec::new(), usages: Vec::new(), spare_pages: Vec::new() };
    let (begin_ns, length_ns) = (machine.now_ns(), (seconds * 1e9) as u64);
    for time in 0..=times {
        let at_ns =
            begin_ns + (u128::from(length_ns) * u128::from(time) / u128::from(times)) as u64;
        machine.run_until(at_ns);
        samples.at.push(at_ns as f64 / 1e9);
        samples.usages.push(clients.iter().map(|id| machine.usage(*id)).collect());
        samples.spare_pages.push(machine.spare_pages());
    }
    samples
}

impl Samples {
    /// What clients used in all.
    pub fn last(&self) -> &[Usage] {
        self.usages.last().expect("there is a first sample")
    }

    /// From when on a state is steady: the last two thirds.
    pub fn steady(&self) -> usize {
        self.at.len() / 3
    }

    /// Of one client, in the steady state.
    pub fn of(&self, client: usize, what: impl Fn(&Usage) -> f64) -> Vec<f64> {
        self.usages[self.steady()..].iter().map(|usages| what(&usages[client])).collect()
    }

    /// What grew by how much a second, in the steady state.
    pub fn rate(&self, client: usize, what: impl Fn(&Usage) -> u64) -> f64 {
        let (from, to) = (self.steady(), self.at.len() - 1);
        let grown = what(&self.usages[to][client]) - what(&self.usages[from][client]);
        grown as f64 / (self.at[to] - self.at[from])
    }

    /// A line for each client.
    pub fn lines(&self, names: &[String], what: impl Fn(&Usage) -> f64) -> Vec<Line> {
        let line = |(client, name): (usize, &String)| Line {
            name: name.clone(),
            points: self
                .at
                .iter()
                .zip(&self.usages)
                .map(|(at, all)| (*at, what(&all[client])))
                .collect(),
            dashed: false,
        };
        names.iter().enumerate().map(line).collect()
    }
}

/// Axes of time and something.
pub(super) fn over_time(title: &str, y_label: &str, lines: Vec<Line>) -> Panel {
    Panel {
        title: title.to_owned(),
        x_label: "time (s)".to_owned(),
        y_label: y_label.to_owned(),
        lines,
        marks: Vec::new(),
        x_names: Vec::new(),
    }
}
