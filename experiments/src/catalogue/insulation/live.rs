//! `insulation` on real processes.

use crate::about::About;
use crate::error::ExperimentError;
use crate::funding::graph::{BASE, Client, Currency, Funding, Graph, TicketKind};
use crate::harness::context::ExperimentContext;
use crate::harness::daemon::DaemonSettings;
use crate::harness::graph_part::{GraphPart, PartRecord};
use crate::harness::slices::is_allots;
use crate::report::findings::Findings;
use crate::report::outcome::{Outcome, Plot};
use crate::report::plot::{Panel, progress, progress_panel};

/// Number of paul's processes, the part of the run that they take, and the paper's figures.
const PARTS: [(usize, f64, &str); 3] =
    [(2, 0.2, "figure 32"), (10, 0.3, "figures 33, 34"), (60, 0.5, "figures 37, 38")];
/// The uids of both users, where we may choose: numbers that no person has.
const BILL_UID: u32 = 65533;
const PAUL_UID: u32 = 65534;

pub(crate) fn run(context: &mut ExperimentContext) -> Result<Outcome, ExperimentError> {
    let mut daemon = context.allotd(&DaemonSettings::of(context.options))?;
    let selection = context.selection();
    let mut findings = Findings::default();
    let two_users = nix::unistd::geteuid().is_root() && daemon.is_own();
    if !two_users {
        findings.note("all processes run as one uid, in two currencies; as root they run as two");
    }
    let mut plots = Vec::new();
    for (count, part_of_run, figures) in PARTS {
        let graph = graph(count, two_users, context.about);
        let label = format!("1:{count}");
        let part = GraphPart {
            label: &label,
            graph: &graph,
            seconds: context.total * part_of_run,
            tick: selection.quantum,
            slices: context.slices(),
            weights: true,
            last: Some(count) == PARTS.last().map(|(count, ..)| *count),
        };
        let record = context.run(Some(&mut daemon), &part)?;
        let names = users(&graph);
        findings.add_shares(&selection, &label, &names, &record.windows);
        let title = format!("User insulation, 1 process against {count} (paper 3, {figures})");
        let panels = panels(&names, &record, part.seconds, part.slices);
        plots.push(Plot::new(&format!("insulation-{count}"), &title, panels));
    }
    Ok(context.finish(findings, plots))
}

fn panels(names: &[String], record: &PartRecord, seconds: f64, slices: &[f64]) -> Vec<Panel> {
    let whole = [(0.0, seconds)];
    let allot = progress(names, &record.series, &|at| is_allots(at, &whole, slices));
    let kernel = progress(names, &record.series, &|at| !is_allots(at, &whole, slices));
    vec![
        progress_panel("allot (its slices of the run, joined)", allot, Vec::new()),
        progress_panel("the kernel's default (its slices, joined)", kernel, Vec::new()),
    ]
}

fn users(graph: &Graph) -> Vec<String> {
    graph.clients.iter().map(|client| client.funding[0].from.clone()).collect()
}

/// Returns the graph: both users have the same base tickets, all processes the same of their
/// user's.
fn graph(count: usize, two_users: bool, about: About) -> Graph {
    let soft =
        |from: &str, amount| Funding { from: from.to_owned(), kind: TicketKind::Soft, amount };
    let user = |name: &str, uid| Currency {
        name: name.to_owned(),
        funding: vec![soft(BASE, 1000)],
        owner: two_users.then_some(uid),
    };
    let process = |user: &str, uid, number: usize| Client {
        name: format!("{user}-{number}"),
        funding: vec![soft(user, 100)],
        does: Vec::new(),
        uid: two_users.then_some(uid),
        nice: 0,
    };
    let mut clients = vec![process("bill", BILL_UID, 1)];
    clients.extend((1..=count).map(|number| process("paul", PAUL_UID, number)));
    Graph {
        title: about.title.to_owned(),
        paper: about.paper.to_owned(),
        phases: Vec::new(),
        currencies: vec![user("bill", BILL_UID), user("paul", PAUL_UID)],
        clients,
        changes: Vec::new(),
    }
}
