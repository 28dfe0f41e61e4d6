//! Funding graphs in TOML: who funds whom, and when clients burn and sleep. The format is
//! described in docs/experiments.md.

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use toml::Spanned;
pub use wire::TicketKind;

/// The root currency's name.
pub const BASE: &str = "base";
/// A currency's hard tickets always total this (paper 1, 3.3).
pub const HARD_TOTAL: u64 = 1000;
/// The most tickets of one kind between two currencies.
pub const AMOUNT_MAX: u64 = 1_000_000_000;
/// The most clients, each of which is a process, and the most currencies.
pub const NODES_MAX: usize = 1000;

/// A file that is no usable funding graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct GraphError {
    /// Which file.
    pub file: String,
    /// Where in it, from 1; none where it concerns the whole.
    pub line: Option<usize>,
    /// What is wrong.
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
    /// In seconds from the start of a run of so many seconds.
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
    /// Who issues them: a currency's name, or [`BASE`].
    pub from: String,
    /// Relative or fixed.
    pub kind: TicketKind,
    /// How many.
    pub amount: u64,
}

/// A pure currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Currency {
    /// Its name.
    pub name: String,
    /// What backs it.
    pub funding: Vec<Funding>,
    /// Whose it is, where not the caller's.
    pub owner: Option<u32>,
}

/// What a client does from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doing {
    /// Uses all the CPU that it can get.
    #[serde(alias = "wake")]
    Burn,
    /// Wants none.
    Sleep,
}

/// A change in what a client does.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// From when on.
    pub at: Moment,
    /// What.
    pub what: Doing,
}

/// A client: one real process.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// What funds it; nothing leaves it frozen.
    pub funding: Vec<Funding>,
    /// What it does, in the order of time; before the first step it burns.
    pub does: Vec<Step>,
    /// The user that it runs as, where not the caller.
    pub uid: Option<u32>,
    /// Its nice value, -20 to 19, for runs beside allot.
    pub nice: i32,
}

/// What is changed while the clients run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A currency's or client's tickets from an issuer become this.
    Fund {
        /// Who gets them.
        holder: String,
        /// From whom, of which kind, how many.
        funding: Funding,
    },
    /// The operation `nice` (paper 1, 4.4 and 5.6).
    Nice {
        /// Which client.
        client: String,
        /// With how many base tickets.
        amount: u64,
        /// Whose base tickets they were.
        out_of: String,
    },
}

/// A change while the clients run.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at: Moment,
    /// What.
    pub edit: Edit,
}

/// A funding graph with clients that do something.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// Shown above tables and plots.
    pub title: String,
    /// Where it comes from; empty where from no paper.
    pub paper: String,
    /// Names of the run's phases in their order; empty to have them numbered.
    pub phases: Vec<String>,
    /// Pure currencies.
    pub currencies: Vec<Currency>,
    /// Clients.
    pub clients: Vec<Client>,
    /// Changes, in the order of time.
    pub changes: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    #[serde(default)]
    paper: String,
    #[serde(default)]
    phases: Vec<String>,
    #[serde(default)]
    currency: Vec<RawCurrency>,
    #[serde(default)]
    client: Vec<RawClient>,
    #[serde(default)]
    change: Vec<RawChange>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCurrency {
    name: Spanned<String>,
    #[serde(default)]
    funding: Vec<RawFunding>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClient {
    name: Spanned<String>,
    #[serde(default)]
    funding: Vec<RawFunding>,
    #[serde(default)]
    does: Vec<Spanned<Step>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFunding {
    from: Spanned<String>,
    #[serde(default)]
    kind: TicketKind,
    amount: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    at: Spanned<Moment>,
    #[serde(default)]
    fund: Option<RawFund>,
    #[serde(default)]
    nice: Option<RawNice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFund {
    holder: Spanned<String>,
    from: Spanned<String>,
    #[serde(default)]
    kind: TicketKind,
    amount: Spanned<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNice {
    client: Spanned<String>,
    amount: Spanned<u64>,
    out_of: Spanned<String>,
}

/// A file's text, to find lines in.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn error(&self, what: impl Into<String>) -> GraphError {
        GraphError { file: self.file.to_owned(), line: None, what: what.into() }
    }

    fn at<T>(&self, place: &Spanned<T>, what: impl Into<String>) -> GraphError {
        let line = self.line(place.span().start);
        GraphError { file: self.file.to_owned(), line: Some(line), what: what.into() }
    }

    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn funding(
        &self,
        raw: &[RawFunding],
        currencies: &BTreeSet<String>,
    ) -> Result<Vec<Funding>, GraphError> {
        let mut seen = BTreeSet::new();
        raw.iter()
            .map(|raw| {
                let funding = self.one(&raw.from, raw.kind, &raw.amount, currencies)?;
                if !seen.insert((funding.from.clone(), funding.kind == TicketKind::Hard)) {
                    let what = format!("tickets of one kind from `{}` twice", funding.from);
                    return Err(self.at(&raw.from, what));
                }
                Ok(funding)
            })
            .collect()
    }

    fn one(
        &self,
        from: &Spanned<String>,
        kind: TicketKind,
        amount: &Spanned<u64>,
        currencies: &BTreeSet<String>,
    ) -> Result<Funding, GraphError> {
        let name = from.get_ref();
        if name != BASE && !currencies.contains(name) {
            return Err(self.at(from, format!("no currency is called `{name}`")));
        }
        let most = if kind == TicketKind::Hard { HARD_TOTAL } else { AMOUNT_MAX };
        if *amount.get_ref() > most {
            return Err(self.at(amount, format!("more than {most} tickets of that kind")));
        }
        Ok(Funding { from: name.clone(), kind, amount: *amount.get_ref() })
    }

    fn change(
        &self,
        raw: &RawChange,
        currencies: &BTreeSet<String>,
        clients: &BTreeSet<String>,
    ) -> Result<Change, GraphError> {
        let edit = match (&raw.fund, &raw.nice) {
            (Some(fund), None) => {
                let holder = fund.holder.get_ref();
                if !currencies.contains(holder) && !clients.contains(holder) {
                    let what = format!("no currency or client is called `{holder}`");
                    return Err(self.at(&fund.holder, what));
                }
                let funding = self.one(&fund.from, fund.kind, &fund.amount, currencies)?;
                Edit::Fund { holder: holder.clone(), funding }
            }
            (None, Some(nice)) => {
                let client = nice.client.get_ref();
                if !clients.contains(client) {
                    return Err(self.at(&nice.client, format!("no client is called `{client}`")));
                }
                let out_of = nice.out_of.get_ref();
                if !currencies.contains(out_of) {
                    return Err(self.at(&nice.out_of, format!("no currency is called `{out_of}`")));
                }
                let (client, out_of) = (client.clone(), out_of.clone());
                Edit::Nice { client, amount: *nice.amount.get_ref(), out_of }
            }
            _ => return Err(self.at(&raw.at, "a change is either `fund` or `nice`")),
        };
        Ok(Change { at: *raw.at.get_ref(), edit })
    }
}

impl Graph {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Graph, GraphError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| GraphError {
            file: file.clone(),
            line: None,
            what: cause.to_string(),
        })?;
        Graph::parse(&file, &text)
    }

    /// Reads a text; `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Graph, GraphError> {
        let source = Source { file, text };
        let raw: File = toml::from_str(text).map_err(|error| GraphError {
            file: file.to_owned(),
            line: error.span().map(|span| source.line(span.start)),
            what: error.message().trim().replace('\n', "; "),
        })?;
        if raw.client.is_empty() {
            return Err(source.error("there is no [[client]]"));
        }
        if raw.client.len() > NODES_MAX || raw.currency.len() > NODES_MAX {
            return Err(source.error(format!("more than {NODES_MAX} clients or currencies")));
        }
        let mut names = BTreeSet::new();
        let all = raw.currency.iter().map(|c| &c.name).chain(raw.client.iter().map(|c| &c.name));
        for name in all {
            if !is_name(name.get_ref()) {
                let what = format!(
                    "`{}` is no name: a letter, then at most 31 letters, digits or one of ._-",
                    name.get_ref()
                );
                return Err(source.at(name, what));
            }
            if !names.insert(name.get_ref().clone()) {
                return Err(source.at(name, format!("`{}` is there twice", name.get_ref())));
            }
        }
        let currency_names: BTreeSet<_> =
            raw.currency.iter().map(|c| c.name.get_ref().clone()).collect();
        let client_names: BTreeSet<_> =
            raw.client.iter().map(|c| c.name.get_ref().clone()).collect();
        let mut currencies = Vec::new();
        for currency in &raw.currency {
            currencies.push(Currency {
                name: currency.name.get_ref().clone(),
                funding: source.funding(&currency.funding, &currency_names)?,
                owner: None,
            });
        }
        let mut clients = Vec::new();
        for client in &raw.client {
            for pair in client.does.windows(2) {
                // Parts and seconds can only be compared once the length of the run is known.
                let one = pair[0].get_ref().at.seconds(f64::NAN);
                let other = pair[1].get_ref().at.seconds(f64::NAN);
                if other <= one {
                    return Err(source.at(&pair[1], "the steps are not in the order of time"));
                }
            }
            clients.push(Client {
                name: client.name.get_ref().clone(),
                funding: source.funding(&client.funding, &currency_names)?,
                does: client.does.iter().map(|step| *step.get_ref()).collect(),
                uid: None,
                nice: 0,
            });
        }
        let changes: Result<Vec<_>, _> = raw
            .change
            .iter()
            .map(|change| source.change(change, &currency_names, &client_names))
            .collect();
        let graph = Graph {
            title: raw.title,
            paper: raw.paper,
            phases: raw.phases,
            currencies,
            clients,
            changes: changes?,
        };
        graph.check_hard_totals().map_err(|what| source.error(what))?;
        if let Some(cycle) = graph.cycle() {
            let what = format!("these currencies fund each other in a circle: {cycle}");
            return Err(source.error(what));
        }
        Ok(graph)
    }

    /// Who holds which tickets at the start: (holder, funding).
    pub fn tickets(&self) -> impl Iterator<Item = (&str, &Funding)> {
        let currencies = self.currencies.iter().map(|c| (c.name.as_str(), &c.funding));
        let clients = self.clients.iter().map(|c| (c.name.as_str(), &c.funding));
        currencies.chain(clients).flat_map(|(name, funding)| funding.iter().map(move |f| (name, f)))
    }

    /// The currencies that fund nothing but clients last: an order in which each comes after
    /// those that fund it.
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

    fn check_hard_totals(&self) -> Result<(), String> {
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

    /// Currencies that fund each other in a circle, as in `a <- b <- a`, with the edges that
    /// changes may add.
    fn cycle(&self) -> Option<String> {
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
        // Take away what is funded only by what was taken away; what stays contains a circle.
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

fn is_name(name: &str) -> bool {
    let first = name.chars().next().is_some_and(|first| first.is_ascii_alphabetic());
    let rest = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    first && name.len() <= 32 && name.chars().all(rest) && name != BASE
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "title = 'x'\n[[currency]]\nname = 'a'\n\
        funding = [{ from = 'base', amount = 1 }]\n[[client]]\nname = 'c'\n\
        funding = [{ from = 'a', amount = 1 }]\n";

    #[test]
    fn every_shipped_graph_is_sound() {
        for (name, text) in [
            ("figure-7", include_str!("../graphs/figure-7.toml")),
            ("figure-4", include_str!("../graphs/figure-4.toml")),
            ("pooled", include_str!("../graphs/pooled.toml")),
            ("nice", include_str!("../graphs/nice.toml")),
        ] {
            let graph = Graph::parse(name, text).unwrap();
            assert_eq!(crate::timeline::phases(&graph, 10.0).unwrap().len(), graph.phases.len());
        }
    }

    #[test]
    fn moments() {
        assert_eq!(Moment::Part(0.25).seconds(8.0), 2.0);
        let text = format!(
            "{SOUND}does = [{{ at = 1, what = 'sleep' }}, {{ at = 2.5, what = 'burn' }}]\n"
        );
        let graph = Graph::parse("g", &text).unwrap();
        let at: Vec<_> = graph.clients[0].does.iter().map(|step| step.at).collect();
        assert_eq!(at, [Moment::Seconds(1.0), Moment::Seconds(2.5)]);
    }

    /// What is wrong, on which line, and a word of what is said about it.
    #[test]
    fn bad_files_are_refused_with_line_and_reason() {
        let cases: &[(&str, Option<usize>, &str)] = &[
            ("", None, "title"),
            ("title = 'x'\n", None, "no [[client]]"),
            ("title = 'x'\ntitle = 'y'\n", Some(2), "duplicate"),
            ("title = 'x'\n[[client]\n", Some(2), "expected"),
            ("title = 'x'\n[[client]]\nname = 'c'\ncolour = 'red'\n", Some(4), "colour"),
            ("title = 'x'\n[[client]]\nname = 'base'\n", Some(3), "no name"),
            ("title = 'x'\n[[client]]\nname = 'a b'\n", Some(3), "no name"),
            ("title = 'x'\n[[client]]\nname = 'c'\n[[client]]\nname = 'c'\n", Some(5), "twice"),
            (
                "title = 'x'\n[[client]]\nname = 'c'\nfunding = [{ from = 'z', amount = 1 }]\n",
                Some(4),
                "`z`",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\nfunding = [{ from = 'base', amount = -1 }]\n",
                Some(4),
                "invalid value",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n\
                 funding = [{ from = 'base', kind = 'hard', amount = 1001 }]\n",
                Some(4),
                "1000",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n\
                 funding = [{ from = 'base', amount = 9999999999999 }]\n",
                Some(4),
                "1000000000",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n\
                 funding = [{ from = 'base', amount = 1 }, { from = 'base', amount = 2 }]\n",
                Some(4),
                "twice",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\ndoes = [{ at = 'noon', what = 'burn' }]\n",
                Some(4),
                "noon",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\ndoes = [{ at = '110%', what = 'burn' }]\n",
                Some(4),
                "110%",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\ndoes = [{ at = 1, what = 'dance' }]\n",
                Some(4),
                "dance",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n\
                 does = [{ at = 2, what = 'burn' }, { at = 1, what = 'sleep' }]\n",
                Some(4),
                "order",
            ),
            ("title = 'x'\n[[client]]\nname = 'c'\n[[change]]\nat = 1\n", Some(5), "either"),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n[[change]]\nat = 1\n\
                 nice = { client = 'd', amount = 1, out_of = 'base' }\n",
                Some(6),
                "`d`",
            ),
            (
                "title = 'x'\n[[client]]\nname = 'c'\n\
                 [[currency]]\nname = 'p'\nfunding = [{ from = 'q', amount = 1 }]\n\
                 [[currency]]\nname = 'q'\nfunding = [{ from = 'p', amount = 1 }]\n",
                None,
                "p <- q <- p",
            ),
            (
                "title = 'x'\n\
                 [[client]]\nname = 'c'\nfunding = [{ from = 'base', kind = 'hard', amount = 600 }]\n\
                 [[client]]\nname = 'd'\nfunding = [{ from = 'base', kind = 'hard', amount = 600 }]\n",
                None,
                "1200 hard",
            ),
        ];
        for (text, line, word) in cases {
            let error = Graph::parse("g.toml", text).unwrap_err();
            assert!(error.to_string().contains(word), "{text}\n{error}");
            assert!(error.to_string().starts_with("g.toml"), "{error}");
            if line.is_some() {
                assert_eq!(error.line, *line, "{text}\n{error}");
            }
        }
    }

    #[test]
    fn a_change_cannot_close_a_circle() {
        let text = format!(
            "{SOUND}[[currency]]\nname = 'b'\nfunding = [{{ from = 'a', amount = 1 }}]\n\
             [[change]]\nat = 1\nfund = {{ holder = 'a', from = 'b', amount = 1 }}\n"
        );
        let error = Graph::parse("g", &text).unwrap_err();
        assert!(error.what.contains("circle"), "{error}");
    }

    #[test]
    fn who_funds_comes_first() {
        let text = format!(
            "{SOUND}[[currency]]\nname = 'z'\nfunding = [{{ from = 'y', amount = 1 }}]\n\
             [[currency]]\nname = 'y'\nfunding = [{{ from = 'a', amount = 1 }}]\n"
        );
        let graph = Graph::parse("g", &text).unwrap();
        let order: Vec<_> = graph.currencies_in_order().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(order, ["a", "y", "z"]);
    }
}
