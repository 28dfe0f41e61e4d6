//! `disk-shares`: paper 1, section 6.4, figure 10. Five processes page a file each in from one disk; one
//! has half of base's hard disk tickets, four the default tickets of their user's currency.

use crate::contest::Contest;
use crate::disk_bench::{Disk, DiskClient, DiskPart, DiskRule, Fund};
use crate::disk_loads::DiskLoad;
use crate::plot::{Panel, draw, progress, progress_panel};
use crate::report::Findings;
use crate::session::{Bench, Series};
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "disk-shares",
    title: "Proportional shares of a disk",
    paper: "paper 1, section 6.4, figure 10",
    what: "Five processes touch each page of a 16 MiB file of their own in order, with one request \
           at a time. One has a hard share of half the disk, four share what their user has: 4:1 by the \
           time when the first is done (4.1:1 in the paper). By BFQ, by iocost where the disk takes many \
           requests at a time, and as the disk was found. Needs root and a disk that may be used up (lab/with-disk).",
    least_seconds: 30.0,
    usual_seconds: 240.0,
    own_allotd: true,
};

const MIB: u64 = 16;
const PAGES: u64 = MIB * 256;
const RULES: [DiskRule; 3] = [DiskRule::Bfq, DiskRule::Iocost, DiskRule::Default];
/// Of the time, for measuring the disk.
const OF_MEASURING: f64 = 0.1;
/// How far the ratio may be off, as a part of it, besides what one turn of BFQ's makes.
const OFF: f64 = 0.05;
/// BFQ serves one for up to 125 ms (`timeout_sync`): at either end, somebody has one turn more or less.
const TURNS_SECONDS: f64 = 0.25;

fn clients() -> Vec<DiskClient> {
    let client = |name: &str, fund, promised| DiskClient {
        name: name.to_owned(),
        fund,
        promised,
        load: DiskLoad::IoHog,
        mib: MIB,
    };
    let mut clients = vec![client("hard", Fund::Hard(500), 0.5)];
    let soft = ["soft A", "soft B", "soft C", "soft D"];
    clients.extend(soft.map(|name| client(name, Fund::OfUser(1000), 0.125)));
    clients
}

/// What one rule did.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// The first's pages for one of the others', on average.
    ratio: f64,
    /// The least and the most of the others', as parts of their average.
    least: f64,
    most: f64,
    /// Pages of all, a second.
    total: f64,
    /// When it ended, in s, and whether the first was done.
    at: f64,
    is_done: bool,
}

impl Seen {
    /// By the end of a series.
    fn of(series: &Series) -> Option<Seen> {
        let (pages, at) = (series.iterations.last()?, *series.at.last()?);
        let (first, others) = pages.split_first()?;
        let average = others.iter().sum::<u64>() as f64 / others.len() as f64;
        if average <= 0.0 || at <= 0.0 {
            return None;
        }
        let part = |count: Option<&u64>| count.map_or(0.0, |count| *count as f64 / average);
        Some(Seen {
            ratio: *first as f64 / average,
            least: part(others.iter().min()),
            most: part(others.iter().max()),
            total: pages.iter().sum::<u64>() as f64 / at,
            at,
            is_done: *first >= PAGES,
        })
    }

    /// How far the ratio may be off.
    fn bound(&self) -> f64 {
        4.0 * (OFF + TURNS_SECONDS / self.at)
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = Disk::find(bench.options)?;
    let measured = disk.measure(bench, bench.total * OF_MEASURING)?;
    bench.elapsed += bench.total * OF_MEASURING;
    let nothing = bench.dir.path().join("no-disks.toml");
    let clients = clients();
    let names: Vec<String> = clients.iter().map(|client| client.name.clone()).collect();
    let mut findings = {
        let daemon = bench.disk_daemon(&disk, &nothing)?;
        Findings::new(bench, &daemon)?
    };
    let seconds = bench.total * (1.0 - OF_MEASURING) / RULES.len() as f64;
    let mut seen: Vec<(DiskRule, Seen)> = Vec::new();
    let mut panels: Vec<Panel> = Vec::new();
    for rule in RULES {
        if let Some(why) = disk.lacks(rule, &measured) {
            findings.notes.push(why);
            continue;
        }
        let disks = match (rule, &measured) {
            (DiskRule::Iocost, Ok(file)) => file,
            _ => &nothing,
        };
        let part = DiskPart { label: "figure 10", rule, clients: &clients, disks, seconds };
        let series = bench.run_on_disk(&disk, &part, &|pages| pages[0] >= PAGES)?;
        if let Some(found) = Seen::of(&series) {
            seen.push((rule, found));
        }
        let lines = progress(&names, &series, &|_| true);
        panels.push(progress_panel(rule.name(), lines, Vec::new()));
    }
    judge(&seen, &mut findings);
    findings.notes.push(format!(
        "{}: it takes {} requests at a time, and was found with the scheduler {}; the kernel's default is \
         that, with each client in a control group of its share's weight",
        disk.name, disk.depth, disk.scheduler
    ));
    let svg = vec![("disk-shares.svg".to_owned(), draw(INFO.title, &panels))];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn judge(seen: &[(DiskRule, Seen)], findings: &mut Findings) {
    let default = seen.iter().find(|(rule, _)| *rule == DiskRule::Default).map(|(_, seen)| *seen);
    let is_allots = |(rule, _): &&(DiskRule, Seen)| *rule != DiskRule::Default;
    for (rule, found) in seen.iter().filter(is_allots) {
        let mut put = |quantity: &str, unit: &str, of: fn(&Seen) -> f64, promised, paper: &str| {
            findings.contests.push(
                Contest::new(rule.name(), quantity, unit)
                    .promising(promised)
                    .measured(Some(of(found)), default.as_ref().map(of))
                    .paper(paper),
            );
        };
        put("hard for one soft", ":1", |seen| seen.ratio, Some(4.0), "4.1");
        put("least soft", "of average", |seen| seen.least, Some(1.0), "overlap");
        put("most soft", "of average", |seen| seen.most, Some(1.0), "overlap");
        put("pages", "1/s", |seen| seen.total, None, "-");
        let (bound, ratio, at) = (found.bound(), found.ratio, found.at);
        let when = match found.is_done {
            true => "when the hard share's client had touched its file",
            false => "at the end",
        };
        findings.checks.push(Check {
            what: format!(
                "{}: the ratio is 4:1 within {bound:.2} {when}, after {at:.1} s ({ratio:.2}:1)",
                rule.name()
            ),
            ok: (ratio - 4.0).abs() <= bound,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(pages: [u64; 5], at: f64) -> Series {
        Series {
            at: vec![0.0, at],
            iterations: vec![vec![0; 5], pages.to_vec()],
            used_ns: vec![vec![0; 5]; 2],
        }
    }

    #[test]
    fn the_ratio_is_of_the_others_average() {
        let seen = Seen::of(&series([4096, 1000, 1010, 990, 1000], 40.0)).unwrap();
        assert!((seen.ratio - 4.096).abs() < 1e-9 && seen.is_done);
        assert!((seen.least - 0.99).abs() < 1e-9 && (seen.most - 1.01).abs() < 1e-9);
        assert!((seen.bound() - 0.225).abs() < 1e-9);
        assert_eq!(Seen::of(&series([5, 0, 0, 0, 0], 1.0)), None);
        assert_eq!(Seen::of(&Series::default()), None);
    }

    #[test]
    fn what_the_tickets_promise_adds_up() {
        let clients = clients();
        let all: f64 = clients.iter().map(|client| client.promised).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
