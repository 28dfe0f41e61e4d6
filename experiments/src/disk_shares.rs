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
/// Of each run, until all is as it stays: BFQ lets some of those who were at work before their weights came
/// wait for seconds, however long the run.
const SETTLE: f64 = 0.3;
/// Seconds that settling lasts at least, where the run is twice as long.
const SETTLE_SECONDS: f64 = 8.0;
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
    /// From when it counts to when it ended, in s from the start.
    from: f64,
    at: f64,
    /// Whether the first was done by then.
    is_done: bool,
}

impl Seen {
    /// Of what was done after settling.
    fn of(series: &Series) -> Option<Seen> {
        let (pages, at) = (series.iterations.last()?, *series.at.last()?);
        let settle = (at * SETTLE).max(SETTLE_SECONDS.min(at / 2.0));
        let begin = series.at.iter().position(|at| *at >= settle)?;
        let from = series.at[begin];
        let done: Vec<u64> =
            pages.iter().zip(&series.iterations[begin]).map(|(last, first)| last - first).collect();
        let (first, others) = done.split_first()?;
        let average = others.iter().sum::<u64>() as f64 / others.len() as f64;
        if average <= 0.0 || at <= from {
            return None;
        }
        let part = |count: Option<&u64>| count.map_or(0.0, |count| *count as f64 / average);
        Some(Seen {
            ratio: *first as f64 / average,
            least: part(others.iter().min()),
            most: part(others.iter().max()),
            total: done.iter().sum::<u64>() as f64 / (at - from),
            from,
            at,
            is_done: pages[0] >= PAGES,
        })
    }

    /// How far the ratio may be off.
    fn bound(&self) -> f64 {
        4.0 * (OFF + TURNS_SECONDS / (self.at - self.from))
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
    let (rules, left_out): (Vec<DiskRule>, Vec<DiskRule>) =
        RULES.into_iter().partition(|rule| disk.lacks(*rule, &measured).is_none());
    findings.notes.extend(left_out.iter().filter_map(|rule| disk.lacks(*rule, &measured)));
    let seconds = bench.total * (1.0 - OF_MEASURING) / rules.len() as f64;
    let mut seen: Vec<(DiskRule, Seen)> = Vec::new();
    let mut panels: Vec<Panel> = Vec::new();
    for rule in rules {
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
        "measured after the first {:.0} % of each run, and {SETTLE_SECONDS:.0} s at least where that leaves as much",
        SETTLE * 100.0
    ));
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
        let (bound, ratio) = (found.bound(), found.ratio);
        let when = match found.is_done {
            true => "until the hard share's client had touched its file",
            false => "to the end",
        };
        findings.checks.push(Check {
            what: format!(
                "{}: the ratio is 4:1 within {bound:.2} from {:.1} s after the start {when} at {:.1} s ({ratio:.2}:1)",
                rule.name(),
                found.from,
                found.at
            ),
            ok: (ratio - 4.0).abs() <= bound,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was done by three times.
    fn series(at: [f64; 3], pages: [[u64; 5]; 3]) -> Series {
        Series {
            at: at.to_vec(),
            iterations: pages.map(|pages| pages.to_vec()).to_vec(),
            used_ns: vec![vec![0; 5]; 3],
        }
    }

    #[test]
    fn the_ratio_is_of_the_others_average_after_settling() {
        let early = [96, 0, 10, 90, 0];
        let late = [4096, 1000, 1020, 1080, 1000];
        let seen = Seen::of(&series([0.0, 16.0, 41.0], [[0; 5], early, late])).unwrap();
        assert!((seen.ratio - 4.0).abs() < 1e-9 && seen.is_done, "{seen:?}");
        assert!((seen.least - 0.99).abs() < 1e-9 && (seen.most - 1.01).abs() < 1e-9, "{seen:?}");
        assert_eq!((seen.from, seen.at, seen.total), (16.0, 41.0, 320.0));
        assert!((seen.bound() - 0.24).abs() < 1e-9);
        // A part of long runs, a time of shorter ones, half of those that are shorter yet.
        let from = |at: [f64; 3]| Seen::of(&series(at, [[0; 5], [0; 5], late])).unwrap().from;
        assert_eq!(from([0.0, 30.0, 100.0]), 30.0);
        assert_eq!(from([0.0, 8.0, 18.0]), 8.0);
        assert_eq!(from([0.0, 6.0, 12.0]), 6.0);
        // Nothing is seen of who did nothing, nor of nothing at all.
        assert_eq!(Seen::of(&series([0.0, 9.0, 18.0], [[0; 5], early, early])), None);
        assert_eq!(Seen::of(&Series::default()), None);
    }

    #[test]
    fn what_the_tickets_promise_adds_up() {
        let clients = clients();
        let all: f64 = clients.iter().map(|client| client.promised).sum();
        assert!((all - 1.0).abs() < 1e-9);
    }
}
