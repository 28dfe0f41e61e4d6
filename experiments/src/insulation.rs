//! `insulation`: paper 3, section 5.3, figures 32 to 38.

use crate::daemon::Setup;
use crate::graph::{BASE, Client, Currency, Funding, Graph, TicketKind};
use crate::plot::{draw, progress, progress_panel};
use crate::report::Findings;
use crate::session::{Bench, Part, Record, is_allots};
use crate::{ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "insulation",
    title: "User insulation",
    paper: "paper 3, figures 32 to 38",
    what: "User bill runs one process, user paul runs 2, 10 and 60. Both users have the same, \
           whatever paul starts. The kernel's default takes turns with allot in the same run.",
    least_seconds: 10.0,
    usual_seconds: 30.0,
    own_allotd: false,
};

/// How many processes paul has, what part of the run that takes, and the paper's figures.
const PARTS: [(usize, f64, &str); 3] =
    [(2, 0.2, "figure 32"), (10, 0.3, "figures 33, 34"), (60, 0.5, "figures 37, 38")];
/// Whom they run as, where we may choose: numbers that no person has.
const BILL_UID: u32 = 65533;
const PAUL_UID: u32 = 65534;

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let mut daemon = bench.allotd(&Setup::of(bench.options))?;
    let mut findings = Findings::new(bench, &daemon)?;
    let two_users = nix::unistd::geteuid().is_root() && daemon.is_own();
    if !two_users {
        let what = "all processes run as one uid, in two currencies; as root they run as two";
        findings.notes.push(what.to_owned());
    }
    let mut svg = Vec::new();
    for (count, part_of_run, figures) in PARTS {
        let graph = graph(count, two_users);
        let seconds = bench.total * part_of_run;
        let label = format!("1:{count}");
        let tick = findings.quantum();
        let slices = bench.slices();
        let last = Some(count) == PARTS.last().map(|(count, ..)| *count);
        let part =
            Part { label: &label, graph: &graph, seconds, tick, slices, weights: true, last };
        let record = bench.run(Some(&mut daemon), &part)?;
        let names = users(&graph);
        findings.add(&label, &names, &record.windows);
        let title = format!("User insulation, 1 process against {count} (paper 3, {figures})");
        svg.push((
            format!("insulation-{count}.svg"),
            plot(&title, &names, &record, seconds, slices),
        ));
    }
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn plot(title: &str, names: &[String], record: &Record, seconds: f64, slices: &[f64]) -> String {
    let whole = [(0.0, seconds)];
    let allot = progress(names, &record.series, &|at| is_allots(at, &whole, slices));
    let kernel = progress(names, &record.series, &|at| !is_allots(at, &whole, slices));
    let panels = [
        progress_panel("allot (its slices of the run, joined)", allot, Vec::new()),
        progress_panel("the kernel's default (its slices, joined)", kernel, Vec::new()),
    ];
    draw(title, &panels)
}

fn users(graph: &Graph) -> Vec<String> {
    graph.clients.iter().map(|client| client.funding[0].from.clone()).collect()
}

/// Both users have the same base tickets, all processes the same of their user's.
fn graph(count: usize, two_users: bool) -> Graph {
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
        title: INFO.title.to_owned(),
        paper: INFO.paper.to_owned(),
        phases: Vec::new(),
        currencies: vec![user("bill", BILL_UID), user("paul", PAUL_UID)],
        clients,
        changes: Vec::new(),
    }
}
