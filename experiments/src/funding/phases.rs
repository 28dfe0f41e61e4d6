//! A run's phases: the stretches of time in which no client wakes or sleeps and no funding changes.

use crate::funding::graph::{
    BASE, Doing, Edit, Funding, Graph, GraphError, HARD_TOTAL, TicketKind,
};
use std::collections::BTreeMap;

/// The shortest phase that can be measured, in seconds.
pub const PHASE_MIN_SECONDS: f64 = 1.0;

/// Amounts of tickets by holder, issuer and kind.
pub type Tickets = BTreeMap<(String, String, FundingKind), u64>;

/// A kind of tickets, with an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FundingKind {
    /// Relative.
    Soft,
    /// Fixed.
    Hard,
    /// Lent by a waiting client.
    Transfer,
}

impl From<TicketKind> for FundingKind {
    fn from(kind: TicketKind) -> FundingKind {
        match kind {
            TicketKind::Soft => FundingKind::Soft,
            TicketKind::Hard => FundingKind::Hard,
            TicketKind::Transfer => FundingKind::Transfer,
        }
    }
}

/// A stretch of a run in which nothing changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name; empty where there is one phase only.
    pub name: String,
    /// Its beginning, in seconds from the start.
    pub start: f64,
    /// Its end, in seconds from the start.
    pub end: f64,
    /// For each client, whether it burns.
    pub active: Vec<bool>,
    /// Tickets in force.
    pub tickets: Tickets,
    /// Changes at its beginning.
    pub edits: Vec<Edit>,
}

/// Returns the phases of a run of `seconds`.
pub fn phases(graph: &Graph, seconds: f64) -> Result<Vec<Phase>, GraphError> {
    let refuse = |what: String| GraphError { file: graph.title.clone(), line: None, what };
    let steps = graph.clients.iter().flat_map(|client| client.does.iter().map(|step| step.at));
    let changes = graph.changes.iter().map(|change| change.at);
    let mut edges: Vec<f64> = steps.chain(changes).map(|at| at.seconds(seconds)).collect();
    if let Some(late) = edges.iter().find(|at| **at >= seconds) {
        return Err(refuse(format!("something happens at {late} s; the run ends at {seconds} s")));
    }
    edges.extend([0.0, seconds]);
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let count = edges.len() - 1;
    if !graph.phases.is_empty() && graph.phases.len() != count {
        let named = graph.phases.len();
        return Err(refuse(format!("it names {named} phases and has {count}")));
    }
    let mut tickets: Tickets = graph
        .tickets()
        .map(|(holder, f)| ((holder.to_owned(), f.from.clone(), f.kind.into()), f.amount))
        .collect();
    let mut phases = Vec::new();
    for (index, edge) in edges.windows(2).enumerate() {
        let (start, end) = (edge[0], edge[1]);
        let name = match graph.phases.get(index) {
            Some(name) => name.clone(),
            None if count == 1 => String::new(),
            None => format!("phase {} of {count}", index + 1),
        };
        if end - start < PHASE_MIN_SECONDS {
            return Err(refuse(format!(
                "from {start} s to {end} s is too short to measure; each phase needs \
                 {PHASE_MIN_SECONDS} s"
            )));
        }
        let edits: Vec<Edit> = graph
            .changes
            .iter()
            .filter(|change| change.at.seconds(seconds) == start)
            .map(|change| change.edit.clone())
            .collect();
        for edit in &edits {
            apply(edit, &mut tickets).map_err(refuse)?;
        }
        let mut active = Vec::new();
        for client in &graph.clients {
            let mut last = (0.0, Doing::Burn);
            for step in &client.does {
                let at = step.at.seconds(seconds);
                if at < last.0 {
                    let what =
                        format!("the steps of `{}` are not in the order of time", client.name);
                    return Err(refuse(what));
                }
                if at <= start {
                    last = (at, step.what);
                }
            }
            active.push(last.1 == Doing::Burn);
        }
        let tickets = tickets.clone();
        phases.push(Phase { name, start, end, active, tickets, edits });
    }
    Ok(phases)
}

fn apply(edit: &Edit, tickets: &mut Tickets) -> Result<(), String> {
    match edit {
        Edit::Fund { holder, funding: Funding { from, kind, amount } } => {
            tickets.insert((holder.clone(), from.clone(), (*kind).into()), *amount);
            let hard: u64 = tickets
                .iter()
                .filter(|((_, issuer, kind), _)| issuer == from && *kind == FundingKind::Hard)
                .map(|(_, amount)| amount)
                .sum();
            if hard > HARD_TOTAL {
                return Err(format!("a change makes `{from}` issue {hard} hard tickets"));
            }
        }
        Edit::Nice { client, amount, out_of } => {
            let lender = (out_of.clone(), BASE.to_owned(), FundingKind::Soft);
            let held = tickets.get(&lender).copied().unwrap_or(0);
            if *amount == 0 || held <= *amount {
                return Err(format!("`{out_of}` holds {held} base tickets; nice takes {amount}"));
            }
            tickets.insert(lender, held - amount);
            tickets.retain(|(holder, _, _), _| holder != client);
            let job = format!("job of {client}");
            tickets.insert((job.clone(), BASE.to_owned(), FundingKind::Soft), *amount);
            tickets.insert((client.clone(), job, FundingKind::Soft), 1000);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Graph {
        let text = format!(
            "title = 't'\n[[currency]]\nname = 'u'\nfunding = [{{ from = 'base', amount = 50 }}]\n\
             [[client]]\nname = 'c'\nfunding = [{{ from = 'u', amount = 1 }}]\n{more}"
        );
        Graph::parse("g", &text).unwrap()
    }

    #[test]
    fn every_shipped_graph_is_sound() {
        for (name, text) in [
            ("figure-7", include_str!("../../graphs/figure-7.toml")),
            ("figure-4", include_str!("../../graphs/figure-4.toml")),
            ("pooled", include_str!("../../graphs/pooled.toml")),
            ("nice", include_str!("../../graphs/nice.toml")),
        ] {
            let graph = Graph::parse(name, text).unwrap();
            assert_eq!(phases(&graph, 10.0).unwrap().len(), graph.phases.len());
        }
    }

    #[test]
    fn steps_and_changes_cut_the_run() {
        let graph = parse(
            "does = [{ at = 0, what = 'sleep' }, { at = 2, what = 'wake' }]\n\
             [[change]]\nat = '50%'\nfund = { holder = 'c', from = 'u', amount = 7 }\n",
        );
        let found = phases(&graph, 10.0).unwrap();
        let edges: Vec<_> = found.iter().map(|phase| (phase.start, phase.end)).collect();
        assert_eq!(edges, [(0.0, 2.0), (2.0, 5.0), (5.0, 10.0)]);
        let active: Vec<_> = found.iter().map(|phase| phase.active[0]).collect();
        assert_eq!(active, [false, true, true]);
        let of = |phase: &Phase| phase.tickets[&("c".into(), "u".into(), FundingKind::Soft)];
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [1, 1, 7]);
        assert_eq!(found[2].edits.len(), 1);
    }

    #[test]
    fn nice_lends_the_owners_base_tickets() {
        let graph =
            parse("[[change]]\nat = 5\nnice = { client = 'c', amount = 20, out_of = 'u' }\n");
        let found = phases(&graph, 10.0).unwrap();
        let base =
            |holder: &str| found[1].tickets[&(holder.into(), BASE.into(), FundingKind::Soft)];
        assert_eq!((base("u"), base("job of c")), (30, 20));
        assert!(!found[1].tickets.contains_key(&("c".into(), "u".into(), FundingKind::Soft)));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (more, seconds, word) in [
            ("does = [{ at = 12, what = 'sleep' }]\n", 10.0, "ends at 10"),
            ("does = [{ at = 9.5, what = 'sleep' }]\n", 10.0, "too short"),
            ("does = [{ at = 8, what = 'sleep' }, { at = '50%', what = 'burn' }]\n", 10.0, "order"),
            (
                "[[change]]\nat = 5\nnice = { client = 'c', amount = 50, out_of = 'u' }\n",
                10.0,
                "holds 50",
            ),
        ] {
            let error = phases(&parse(more), seconds).unwrap_err();
            assert!(error.what.contains(word), "{more}{error}");
        }
    }
}
