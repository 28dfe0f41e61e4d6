//! Paper 1, 6.4 (figure 10): one `iohog` with half of the disk as a hard share, four that divide
//! the rest.

use crate::report::comparison::Comparison;
use crate::report::findings::Findings;
use crate::report::outcome::Outcome;
use crate::simulation::plan::{Plan, Words};
use crate::simulation::samples::{Samples, over_time, sample};
use crate::simulation::tickets::{client, cpu, hard_disk, soft_disk};
use ledger::BASE;
use sim::machine::workload::Iohog;
use sim::machine::{Discipline, DiskSettings, Machine, MemorySettings, Settings};

/// Pages of a file.
const PAGES: u64 = 4096;

fn five(plan: &Plan, discipline: Discipline) -> Samples {
    let disk = DiskSettings { discipline, ..DiskSettings::default() };
    // Less than one file: who begins anew reads anew, so all want the disk as long as it takes.
    let memory = MemorySettings { pages: PAGES / 2, ..MemorySettings::default() };
    let settings = Settings { seed: plan.seed, disk, memory, ..Settings::default() };
    let mut machine = Machine::new(settings);
    let user = machine.add_currency("user", BASE, &[cpu(), soft_disk(1000)]);
    let user = user.expect("root may make a currency");
    let mut clients = vec![client(&mut machine, BASE, &[cpu(), hard_disk(500)])];
    for _ in 0..4 {
        clients.push(client(&mut machine, user, &[cpu(), soft_disk(1000)]));
    }
    for id in &clients {
        let file = (machine.add_file(PAGES), PAGES);
        machine.start(*id, 0, Iohog::new(file));
    }
    sample(&mut machine, &clients, plan.seconds, 230)
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let names = ["50 % hard", "soft 1", "soft 2", "soft 3", "soft 4"].map(str::to_owned);
    let fair = five(plan, Discipline::Fair);
    let fifo = five(plan, Discipline::Fifo);
    // Until the first has all its pages, as in the figure.
    let busy = |samples: &Samples| {
        let wants = |usages: &&Vec<sim::machine::Usage>| usages[0].disk_requests < PAGES;
        samples.usages.iter().take_while(wants).last().expect("it begins with none").clone()
    };
    let (served, beside) = (busy(&fair), busy(&fifo));
    let total =
        |all: &[sim::machine::Usage]| all.iter().map(|it| it.disk_requests).sum::<u64>() as f64;
    let mut findings = Findings::default();
    for (place, name) in names.iter().enumerate() {
        let promised = if place == 0 { 0.5 } else { 0.125 };
        let part = |all: &[sim::machine::Usage]| all[place].disk_requests as f64 / total(all);
        findings.row(name, promised, part(&served), promised * 0.05, part(&beside));
    }
    let soft = |all: &[sim::machine::Usage]| {
        all[1..].iter().map(|it| it.disk_requests).sum::<u64>() as f64 / 4.0
    };
    let ratio = |all: &[sim::machine::Usage]| all[0].disk_requests as f64 / soft(all);
    findings.compare(
        Comparison::new("hard to soft", "ratio of pages", "")
            .promising(Some(4.0))
            .measured(Some(ratio(&served)), Some(ratio(&beside)))
            .paper("4.1"),
    );
    let rate =
        |samples: &Samples| (0..5).map(|it| samples.rate(it, |it| it.disk_requests)).sum::<f64>();
    findings.compare(
        Comparison::new("all", "pages a second", "").measured(Some(rate(&fair)), Some(rate(&fifo))),
    );
    let end = fair.usages.iter().position(|usages| usages[0].disk_requests >= PAGES);
    match end {
        Some(end) => findings.note(format!(
            "the first has read its {PAGES} pages after {:.0} s, the others {:.0} on average (paper: 115 s \
             and about 1000)",
            fair.at[end],
            soft(&served)
        )),
        None => findings.note(format!("the first has read {} pages", fair.last()[0].disk_requests)),
    }
    let pages = |usage: &sim::machine::Usage| usage.iterations.min(PAGES) as f64;
    let panels = vec![
        over_time("Figure 10: 50 % hard, four soft", "pages", fair.lines(&names, pages)),
        over_time("In order of arrival", "pages", fifo.lines(&names, pages)),
    ];
    let words = Words {
        policy: "YFQ, batches of one, one request in the device".to_owned(),
        default: "requests in order of arrival",
        units: "parts of the pages that were read while the first still read",
    };
    plan.finish(words, findings, vec![("disk-shares", panels)])
}
