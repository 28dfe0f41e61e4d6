//! Funding graphs: who funds whom, and when clients burn and sleep.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
pub use wire::TicketKind;

/// The root currency's name.
pub const BASE: &str = "base";
/// A currency's hard tickets always total this (paper 1, 3.3).
pub const HARD_TOTAL: u64 = 1000;
/// The most tickets of one kind between two currencies.
pub const AMOUNT_MAX: u64 = 1_000_000_000;
/// The most clients, each of which is a process, and the most currencies.
pub const NODES_MAX: usize = 1000;

/// The reason why a file is no usable funding graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct GraphError {
    /// The file's name.
    pub file: String,
    /// The line, from 1; none where the error concerns the whole file.
    pub line: Option<usize>,
    /// The mistake, in words.
    pub what: String,
}

/// A moment of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// Seconds from the start; in TOML a number.
    Seconds(f64),
    /// A part of the whole run, 0 to 1; in TOML a text such as `"50%"`.
    Part(f64),
}

impl Moment {
    /// Returns the seconds from the start of a run of `total` seconds.
    pub fn seconds(self, total: f64) -> f64 {
        match self {
            Moment::Seconds(seconds) => seconds,
            Moment::Part(part) => part * total,
        }
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "seconds, as in 2.5, or a part of the run, as in \"50%\"")
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Moment, E> {
                if seconds.is_finite() && seconds >= 0.0 {
                    Ok(Moment::Seconds(seconds))
                } else {
                    Err(E::invalid_value(de::Unexpected::Float(seconds), &self))
                }
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Moment, E> {
                self.visit_f64(seconds as f64)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                let percent = text.strip_suffix('%').and_then(|text| text.trim().parse().ok());
                match percent {
                    Some(percent) if (0.0..=100.0).contains(&percent) => {
                        Ok(Moment::Part(percent / 100.0))
                    }
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Tickets from an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funding {
    /// The issuer: a currency's name, or [`BASE`].
    pub from: String,
    /// Soft or hard.
    pub kind: TicketKind,
    /// Number of tickets.
    pub amount: u64,
}

/// A pure currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Currency {
    /// Its name.
    pub name: String,
    /// The tickets that back it.
    pub funding: Vec<Funding>,
    /// The owner's uid, where that is not the caller.
    pub owner: Option<u32>,
}

/// The activity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// Uses all the CPU that it can get.
    #[serde(alias = "wake")]
    Burn,
    /// Wants none.
    Sleep,
}

/// A change of a client's activity.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The moment of the change.
    pub at: Moment,
    /// The activity from then on.
    pub what: Doing,
}

/// A client: one real process.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// The tickets that fund it; without any it is frozen.
    pub funding: Vec<Funding>,
    /// Its activities, in the order of time; before the first step it burns.
    pub does: Vec<Step>,
    /// The uid that it runs as, where that is not the caller.
    pub uid: Option<u32>,
    /// Its nice value, -20 to 19, for runs beside allot.
    pub nice: i32,
}

/// A change of funding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A currency's or client's tickets from an issuer become this.
    Fund {
        /// The currency or client that gets them.
        holder: String,
        /// The tickets from then on.
        funding: Funding,
    },
    /// The operation `nice` (paper 1, 4.4 and 5.6).
    Nice {
        /// The client's name.
        client: String,
        /// Number of base tickets.
        amount: u64,
        /// The currency that loses them.
        out_of: String,
    },
}

/// A change of funding while the clients run.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The moment of the change.
    pub at: Moment,
    /// The change.
    pub edit: Edit,
}

/// A funding graph, with the activities of its clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Shown above tables and plots.
    pub title: String,
    /// The figure that it repeats; empty where it repeats none.
    pub paper: String,
    /// Names of the run's phases, in order; empty to have them numbered.
    pub phases: Vec<String>,
    /// Its pure currencies.
    pub currencies: Vec<Currency>,
    /// Its clients.
    pub clients: Vec<Client>,
    /// Changes, in the order of time.
    pub changes: Vec<Change>,
}

impl Graph {
    /// Returns the tickets at the start, each with its holder.
    pub fn tickets(&self) -> impl Iterator<Item = (&str, &Funding)> {
        let currencies = self.currencies.iter().map(|c| (c.name.as_str(), &c.funding));
        let clients = self.clients.iter().map(|c| (c.name.as_str(), &c.funding));
        currencies.chain(clients).flat_map(|(name, funding)| funding.iter().map(move |f| (name, f)))
    }

    /// Returns the currencies in an order in which each comes after those that fund it.
    pub fn currencies_in_order(&self) -> Vec<&Currency> {
        let mut done: BTreeSet<&str> = BTreeSet::from([BASE]);
        let mut order = Vec::new();
        while order.len() < self.currencies.len() {
            let next = self.currencies.iter().find(|c| {
                !done.contains(c.name.as_str())
                    && c.funding.iter().all(|f| done.contains(f.from.as_str()))
            });
            let next = next.expect("a graph has no cycle");
            done.insert(&next.name);
            order.push(next);
        }
        order
    }

    /// Checks that no currency issues more hard tickets than it has.
    pub(super) fn check_hard_totals(&self) -> Result<(), String> {
        let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, funding) in self.tickets().filter(|(_, f)| f.kind == TicketKind::Hard) {
            *totals.entry(&funding.from).or_default() += funding.amount;
        }
        match totals.into_iter().find(|(_, total)| *total > HARD_TOTAL) {
            Some((name, total)) => {
                Err(format!("`{name}` issues {total} hard tickets; {HARD_TOTAL} are the whole"))
            }
            None => Ok(()),
        }
    }

    /// Returns a circle of currencies that fund each other, as in `a <- b <- a`. The edges that
    /// changes may add count.
    pub(super) fn cycle(&self) -> Option<String> {
        let mut backers: BTreeMap<&str, BTreeSet<&str>> =
            self.currencies.iter().map(|c| (c.name.as_str(), BTreeSet::new())).collect();
        let added = self.changes.iter().filter_map(|change| match &change.edit {
            Edit::Fund { holder, funding } => Some((holder.as_str(), funding)),
            Edit::Nice { .. } => None,
        });
        for (holder, funding) in self.tickets().chain(added) {
            if let Some(backers) = backers.get_mut(holder) {
                backers.insert(&funding.from);
            }
        }
        // Remove what is funded only by what was removed: what stays contains a circle.
        loop {
            let free = backers.iter().find(|(_, from)| {
                from.iter().all(|from| *from == BASE || !backers.contains_key(from))
            });
            let Some((&name, _)) = free else { break };
            backers.remove(name);
        }
        let mut at = *backers.keys().next()?;
        let mut path = Vec::new();
        while !path.contains(&at) {
            path.push(at);
            at = backers[at].iter().find(|from| backers.contains_key(*from)).copied()?;
        }
        path.retain({
            let mut inside = false;
            let start = at;
            move |name| {
                inside |= *name == start;
                inside
            }
        });
        path.push(at);
        Some(path.join(" <- "))
    }
}
