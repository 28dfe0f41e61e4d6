//! Samples of clients in virtual time.

use crate::report::plot::{Line, Panel, plain_panel};
use ledger::CurrencyId;
use sim::machine::{Machine, Usage};

/// The usage of clients at some moments.
pub(crate) struct Samples {
    /// The moments, in seconds of virtual time.
    pub at: Vec<f64>,
    /// The usage of each client, for each moment.
    pub usages: Vec<Vec<Usage>>,
    /// Pages that were free or about to be, for each moment.
    pub spare_pages: Vec<u64>,
}

/// Runs a machine for `seconds`, and samples it `times` times.
pub(crate) fn sample(
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
    /// Returns the usage at the end.
    pub fn last(&self) -> &[Usage] {
        self.usages.last().expect("there is a first sample")
    }

    /// Returns the first sample of the steady state, which is the last two thirds.
    pub fn steady(&self) -> usize {
        self.at.len() / 3
    }

    /// Returns a quantity of one client in the steady state.
    pub fn of(&self, client: usize, what: impl Fn(&Usage) -> f64) -> Vec<f64> {
        self.usages[self.steady()..].iter().map(|usages| what(&usages[client])).collect()
    }

    /// Returns the growth of a quantity a second, in the steady state.
    pub fn rate(&self, client: usize, what: impl Fn(&Usage) -> u64) -> f64 {
        let (from, to) = (self.steady(), self.at.len() - 1);
        let grown = what(&self.usages[to][client]) - what(&self.usages[from][client]);
        grown as f64 / (self.at[to] - self.at[from])
    }

    /// Returns a line for each client.
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

/// Returns a panel over time.
pub(crate) fn over_time(title: &str, y_label: &str, lines: Vec<Line>) -> Panel {
    plain_panel(title, "time (s)", y_label, lines)
}
