//! What `top` knows, and the rows that follow from it.

use crate::graph::{Graph, label};
use command_line::style::clean;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use wire::{Class, ClientSample, ClientState, CurrencyKind, LedgerView, Sample, Status};

/// Shares are measured over this long, or over one interval where that is longer.
const WINDOW_NS: u64 = 5_000_000_000;

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// Who used most.
    #[default]
    Measured,
    /// Who was promised most.
    Promised,
    /// Who was farthest from what was promised.
    Error,
    /// By number of process.
    Pid,
    /// By name of command.
    Command,
}

impl SortBy {
    /// The next in turn.
    pub fn next(self) -> SortBy {
        match self {
            SortBy::Measured => SortBy::Promised,
            SortBy::Promised => SortBy::Error,
            SortBy::Error => SortBy::Pid,
            SortBy::Pid => SortBy::Command,
            SortBy::Command => SortBy::Measured,
        }
    }

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            SortBy::Measured => "measured",
            SortBy::Promised => "promised",
            SortBy::Error => "error",
            SortBy::Pid => "pid",
            SortBy::Command => "command",
        }
    }
}

/// One client.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its process.
    pub pid: u32,
    /// Its owner.
    pub user: String,
    /// Its command.
    pub command: String,
    /// Who funds its CPU.
    pub from: String,
    /// What it does.
    pub state: ClientState,
    /// Promised over the window, 0 to 1 of the CPUs shared out; nothing after one sample.
    pub promised: Option<f64>,
    /// Measured over the window, likewise.
    pub measured: Option<f64>,
    /// Draws won so far.
    pub wins: u64,
    /// The average part of a slice that it used when it won, over the window.
    pub slice: Option<f64>,
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Model {
    /// How allotd is set up.
    pub status: Option<Status>,
    /// Who owns and funds each client, by currency.
    people: BTreeMap<u64, (String, String)>,
    samples: VecDeque<Sample>,
    /// What rows are ordered by.
    pub sort: SortBy,
    /// Whether the help is shown.
    pub help: bool,
    /// The first row shown.
    pub scroll: usize,
    /// How many rows fit, as last drawn.
    pub page: u16,
    /// New samples wait here while paused.
    paused: Option<VecDeque<Sample>>,
}

impl Model {
    /// Takes the setup and the ledger.
    pub fn set_around(&mut self, status: Status, ledger: LedgerView) {
        let graph = Graph::new(&ledger);
        self.people = graph
            .currencies()
            .filter(|one| one.kind == CurrencyKind::Client)
            .map(|one| {
                let mut issuers: Vec<String> = graph
                    .held(one.id)
                    .iter()
                    .filter(|ticket| ticket.resource == "cpu")
                    .filter_map(|ticket| graph.get(ticket.issuer).map(label))
                    .collect();
                issuers.dedup();
                let mut from = issuers.join(",");
                if one.class == Class::Guest {
                    from.push_str(" (guest)");
                }
                (one.id, (clean(&one.owner_name), from))
            })
            .collect();
        self.status = Some(status);
    }

    /// Takes a sample; forgets those that the window has left behind.
    pub fn add_sample(&mut self, sample: Sample) {
        let samples = self.paused.as_mut().unwrap_or(&mut self.samples);
        // Another allotd, whose totals begin anew.
        if samples.back().is_some_and(|last| sample.at_ns < last.at_ns || sample.draws < last.draws)
        {
            samples.clear();
        }
        samples.push_back(sample);
        let newest = samples.back().map_or(0, |last| last.at_ns);
        while samples.len() > 2 && samples[1].at_ns + WINDOW_NS <= newest {
            samples.pop_front();
        }
    }

    /// Stops the picture, or lets it go on.
    pub fn pause(&mut self) {
        match self.paused.take() {
            Some(newer) => self.samples = newer,
            None => self.paused = Some(self.samples.clone()),
        }
    }

    /// Whether the picture stands.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Up or down, within what there is.
    pub fn scroll_by(&mut self, rows: i64) {
        let clients = self.latest().map_or(0, |sample| sample.clients.len());
        let most = clients.saturating_sub(usize::from(self.page));
        let wanted = (self.scroll as i64).saturating_add(rows).max(0);
        self.scroll = usize::try_from(wanted).unwrap_or(usize::MAX).min(most);
    }

    /// The newest sample.
    pub fn latest(&self) -> Option<&Sample> {
        self.samples.back()
    }

    /// How long the window is by now, in ns.
    pub fn window_ns(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some(first), Some(last)) => last.at_ns.saturating_sub(first.at_ns),
            _ => 0,
        }
    }

    /// The part of one CPU that allotd itself used over the window.
    pub fn daemon_share(&self) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let used = last.daemon_cpu_ns.saturating_sub(first.daemon_cpu_ns);
        (self.window_ns() > 0).then(|| used as f64 / self.window_ns() as f64)
    }

    /// The part of the CPUs shared out that all clients together used over the window.
    pub fn clients_share(&self) -> Option<f64> {
        (self.window_ns() > 0).then(|| self.rows().iter().filter_map(|row| row.measured).sum())
    }

    /// Every client, in order.
    pub fn rows(&self) -> Vec<Row> {
        let Some(latest) = self.latest() else { return Vec::new() };
        let mut rows: Vec<Row> =
            latest.clients.iter().map(|client| self.row(latest, client)).collect();
        rows.sort_by(|a, b| {
            let order = match self.sort {
                SortBy::Measured => by_share(b.measured, a.measured),
                SortBy::Promised => by_share(b.promised, a.promised),
                SortBy::Error => by_share(error(b), error(a)),
                SortBy::Pid => Ordering::Equal,
                SortBy::Command => a.command.cmp(&b.command),
            };
            order.then(a.pid.cmp(&b.pid))
        });
        rows
    }

    fn row(&self, latest: &Sample, client: &ClientSample) -> Row {
        // Since its first sample within the window.
        let before = self.samples.iter().find_map(|sample| {
            let index = sample.clients.binary_search_by_key(&client.id, |one| one.id).ok()?;
            Some((sample.at_ns, &sample.clients[index]))
        });
        let over = |total: fn(&ClientSample) -> u64| {
            let (since_ns, before) = before?;
            let whole = latest.at_ns.saturating_sub(since_ns) as f64 * f64::from(latest.seats);
            let part = total(client).saturating_sub(total(before)) as f64;
            (whole > 0.0).then(|| part / whole)
        };
        let (user, from) = self.people.get(&client.id).cloned().unwrap_or_default();
        Row {
            pid: client.pid,
            user,
            command: clean(&client.command),
            from,
            state: client.state,
            promised: over(|one| one.promised_ns),
            measured: over(|one| one.used_ns),
            wins: client.wins,
            slice: before.and_then(|(_, before)| {
                let wins = client.wins.saturating_sub(before.wins);
                let quantum_ns = self.status.as_ref()?.cpu.quantum_ns;
                let used_ns = client.used_ns.saturating_sub(before.used_ns);
                let slices_ns = wins.saturating_mul(quantum_ns);
                (slices_ns > 0).then(|| used_ns as f64 / slices_ns as f64)
            }),
        }
    }
}

fn error(row: &Row) -> Option<f64> {
    Some((row.measured? - row.promised?).abs())
}

fn by_share(a: Option<f64>, b: Option<f64>) -> Ordering {
    a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0))
}
