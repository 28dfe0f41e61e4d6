//! Funding graphs in TOML. The format is described in docs/experiments.md.

use crate::funding::graph::{
    AMOUNT_MAX, BASE, Change, Client, Currency, Edit, Funding, Graph, GraphError, HARD_TOTAL,
    Moment, NODES_MAX, Step, TicketKind,
};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use toml::Spanned;

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

/// A file's text, in which errors name the line.
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

    /// Checks that there are clients, not too many, each with a name of its own.
    fn check_names(&self, raw: &File) -> Result<(), GraphError> {
        if raw.client.is_empty() {
            return Err(self.error("there is no [[client]]"));
        }
        if raw.client.len() > NODES_MAX || raw.currency.len() > NODES_MAX {
            return Err(self.error(format!("more than {NODES_MAX} clients or currencies")));
        }
        let mut names = BTreeSet::new();
        let all = raw.currency.iter().map(|c| &c.name).chain(raw.client.iter().map(|c| &c.name));
        for name in all {
            if !is_name(name.get_ref()) {
                let what = format!(
                    "`{}` is no name: a letter, then at most 31 letters, digits or one of ._-",
                    name.get_ref()
                );
                return Err(self.at(name, what));
            }
            if !names.insert(name.get_ref().clone()) {
                return Err(self.at(name, format!("`{}` is there twice", name.get_ref())));
            }
        }
        Ok(())
    }

    fn currency(
        &self,
        raw: &RawCurrency,
        currencies: &BTreeSet<String>,
    ) -> Result<Currency, GraphError> {
        let funding = self.funding(&raw.funding, currencies)?;
        Ok(Currency { name: raw.name.get_ref().clone(), funding, owner: None })
    }

    fn client(&self, raw: &RawClient, currencies: &BTreeSet<String>) -> Result<Client, GraphError> {
        for pair in raw.does.windows(2) {
            // Parts and seconds can only be compared once the length of the run is known.
            let one = pair[0].get_ref().at.seconds(f64::NAN);
            let other = pair[1].get_ref().at.seconds(f64::NAN);
            if other <= one {
                return Err(self.at(&pair[1], "the steps are not in the order of time"));
            }
        }
        Ok(Client {
            name: raw.name.get_ref().clone(),
            funding: self.funding(&raw.funding, currencies)?,
            does: raw.does.iter().map(|step| *step.get_ref()).collect(),
            uid: None,
            nice: 0,
        })
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
        source.check_names(&raw)?;
        let currency_names: BTreeSet<_> =
            raw.currency.iter().map(|c| c.name.get_ref().clone()).collect();
        let client_names: BTreeSet<_> =
            raw.client.iter().map(|c| c.name.get_ref().clone()).collect();
        let currencies = raw.currency.iter().map(|raw| source.currency(raw, &currency_names));
        let clients = raw.client.iter().map(|raw| source.client(raw, &currency_names));
        let changes =
            raw.change.iter().map(|raw| source.change(raw, &currency_names, &client_names));
        let graph = Graph {
            currencies: currencies.collect::<Result<_, _>>()?,
            clients: clients.collect::<Result<_, _>>()?,
            changes: changes.collect::<Result<_, _>>()?,
            title: raw.title,
            paper: raw.paper,
            phases: raw.phases,
        };
        graph.check_hard_totals().map_err(|what| source.error(what))?;
        if let Some(cycle) = graph.cycle() {
            let what = format!("these currencies fund each other in a circle: {cycle}");
            return Err(source.error(what));
        }
        Ok(graph)
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
    fn moments() {
        assert_eq!(Moment::Part(0.25).seconds(8.0), 2.0);
        let text = format!(
            "{SOUND}does = [{{ at = 1, what = 'sleep' }}, {{ at = 2.5, what = 'burn' }}]\n"
        );
        let graph = Graph::parse("g", &text).unwrap();
        let at: Vec<_> = graph.clients[0].does.iter().map(|step| step.at).collect();
        assert_eq!(at, [Moment::Seconds(1.0), Moment::Seconds(2.5)]);
    }

    /// Each case has a file, the line of the mistake, and a word of the message.
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
