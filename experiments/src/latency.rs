//! `latency`: paper 3, section 5.4, figures 39 to 42: Interbench's interactive programs beside its
//! loads.

use crate::arena::{Group, Member, Rule, Slice, TURNS, trees_ns};
use crate::contest::{Contest, mean, percentile};
use crate::daemon::Setup;
use crate::orders::{Player, Work};
use crate::page::Notes;
use crate::players::{outcome, wants};
use crate::plot::{draw, side_by_side};
use crate::report::Findings;
use crate::session::Bench;
use crate::workers::{Job, Workers, nanoseconds};
use crate::workload::monotonic_ns;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome, sources};
use std::collections::BTreeMap;

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "latency",
    title: "Latency of interactive programs",
    paper: "paper 3, 5.4, figures 39 to 42",
    what: "Interbench's X, video, gaming and audio, each alone and against a load: CPU burn, \
           compiling, memory, reading, writing. How late they wake, and whether they meet their \
           deadlines; both sides have the same tickets. Allot and the kernel's default take turns.",
    least_seconds: 24.0,
    usual_seconds: 240.0,
    own_allotd: true,
};

const LOADS: [&str; 6] = ["none", "burn", "compile", "memory", "read", "write"];
/// Interbench burns with so many processes, and compiles with so many at a time.
const PROCESSES: usize = 4;
/// Files that are read and written.
const FILE_MIB: u64 = 64;
/// At the start of each measurement, so much of it is left out.
const SETTLE_PART: f64 = 0.2;
/// A latency is no worse if it is so many times the default's at most, and this many ms more:
/// what repeating the same measurement differs by, and what timers resolve.
const SAME: f64 = 1.1;
const SAME_MS: f64 = 0.05;
/// The most that any may be worse.
const WORST: f64 = 2.0;
/// So many of the cells must be no worse.
const CELLS: f64 = 0.75;
/// What each side must have of what it is due.
const KEPT: f64 = 0.9;

/// What one program met beside one load under one rule.
#[derive(Clone, Debug, Default)]
struct Cell {
    late_ms: Vec<f64>,
    met: u64,
    due: u64,
    own_ns: u64,
    load_ns: u64,
    seconds: f64,
}

impl Cell {
    fn p99(&self) -> Option<f64> {
        percentile(&self.late_ms, 0.99)
    }

    /// Its part of what it and the load had.
    fn share(&self) -> f64 {
        self.own_ns as f64 / ((self.own_ns + self.load_ns) as f64).max(1.0)
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let missing = sources::missing();
    let loads: Vec<&str> =
        LOADS.into_iter().filter(|load| *load != "compile" || missing.is_none()).collect();
    let setup = Setup::of(bench.options);
    let groups = [Group::new("interactive", 1000), Group::new("load", 1000)];
    let slices = (loads.len() * TURNS.len()) as f64;
    let seconds = bench.total / slices;
    let mut findings: Option<Findings> = None;
    let mut cells: BTreeMap<(usize, usize, bool), Cell> = BTreeMap::new();
    for (turn, rule) in TURNS.into_iter().enumerate() {
        let mut slice = bench.slice(rule, &setup, &groups, turn as u64)?;
        if let (None, Some(daemon)) = (&findings, slice.daemon()) {
            findings = Some(Findings::new(bench, daemon)?);
        }
        for (row, load) in loads.iter().enumerate() {
            let members = members(load, bench, turn * loads.len() + row)?;
            let mut burden = slice.start(bench, &members, seconds)?;
            burden.release();
            let part = seconds / Player::ALL.len() as f64;
            for (column, player) in Player::ALL.into_iter().enumerate() {
                let cell = cells.entry((row, column, rule == Rule::Default)).or_default();
                let label = format!("{}, load: {load}", player.name());
                measure(bench, &mut slice, &mut burden, player, part, &label, cell)?;
            }
            drop(burden);
        }
    }
    let mut findings = findings.expect("there was a slice of allot's");
    if let Some(missing) = missing {
        findings.notes.push(format!("no load compiles: {missing}"));
    }
    let mut pairs = Vec::new();
    for (column, player) in Player::ALL.into_iter().enumerate() {
        for (row, load) in loads.iter().enumerate() {
            let get = |default: bool| cells[&(row, column, default)].clone();
            pairs.push((player, *load, get(false), get(true)));
        }
    }
    for (player, load, allot, default) in &pairs {
        add(&mut findings.contests, *player, load, allot, default);
    }
    findings.checks = checks(&pairs);
    findings.notes.push(
        "figures 39 to 42 have no numbers in the text; the paper's lottery was later than the \
         standard scheduler for X, video and audio beside every CPU-bound load"
            .to_owned(),
    );
    let svg = Player::ALL
        .into_iter()
        .zip(39..)
        .map(|(player, figure)| {
            let own: Vec<Contest> = findings
                .contests
                .iter()
                .filter(|contest| contest.what.starts_with(&format!("{}, ", player.name())))
                .cloned()
                .collect();
            let title = format!("Wake-up latency of {} (paper 3, figure {figure})", player.name());
            let panels = [
                side_by_side("average (ms)", &own, "average"),
                side_by_side("99th percentile (ms)", &own, "p99"),
            ];
            (format!("latency-{}.svg", player.name()), draw(&title, &panels))
        })
        .collect();
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

fn measure(
    bench: &mut Bench,
    slice: &mut Slice,
    burden: &mut Workers,
    player: Player,
    seconds: f64,
    label: &str,
    cell: &mut Cell,
) -> Result<(), ExperimentError> {
    let path = bench.dir.path().join("notes");
    let notes = Notes::create(&path).map_err(ExperimentError::system("make room for notes"))?;
    let work = Work::Play { player, notes: path.clone() };
    let member = Member { group: 0, tickets: 100, job: Job::new(player.name(), work) };
    let mut workers = slice.start(bench, &[member], seconds)?;
    let start_ns = workers.release();
    let settled_ns = start_ns + nanoseconds(seconds * SETTLE_PART);
    let end_ns = start_ns + nanoseconds(seconds);
    let mut never = || false;
    slice.pass(bench, &mut [burden, &mut workers], settled_ns, label, &mut never)?;
    let (own, load, at) = (workers.cpu_ns()?[0], trees_ns(burden), monotonic_ns());
    slice.pass(bench, &mut [burden, &mut workers], end_ns, label, &mut never)?;
    cell.own_ns += workers.cpu_ns()?[0] - own;
    cell.load_ns += trees_ns(burden).iter().sum::<u64>() - load.iter().sum::<u64>();
    cell.seconds += (monotonic_ns() - at) as f64 / 1e9;
    drop(workers);
    for note in notes.all().iter().filter(|note| note.at_ns >= settled_ns) {
        let (met, left_out) = outcome(note);
        cell.late_ms.push(note.took_ns as f64 / 1e6);
        cell.met += u64::from(met);
        cell.due += 1 + left_out;
    }
    std::fs::remove_file(&path).map_err(ExperimentError::system("take away the notes"))?;
    bench.elapsed += seconds;
    Ok(())
}

/// The processes of a load.
fn members(load: &str, bench: &Bench, number: usize) -> Result<Vec<Member>, ExperimentError> {
    let dir = bench.dir.path();
    let file = dir.join(format!("file-{number}"));
    let several = |work: &dyn Fn(usize) -> Work| (0..PROCESSES).map(work).collect();
    let works: Vec<Work> = match load {
        "burn" => several(&|_| Work::Burn(vec![(0, true)])),
        "compile" => {
            for process in 0..PROCESSES {
                sources::write_file(&dir.join(format!("load-{process}.c")), process)
                    .map_err(ExperimentError::system("write sources"))?;
            }
            several(&|process| Work::Compile {
                source: dir.join(format!("load-{process}.c")),
                object: dir.join(format!("load-{process}.o")),
            })
        }
        "memory" => vec![Work::Memory],
        "read" => vec![Work::Read { file, mib: FILE_MIB }],
        "write" => vec![Work::Write { file, mib: FILE_MIB }],
        _ => Vec::new(),
    };
    let member = |work| Member { group: 1, tickets: 100, job: Job::new(load, work) };
    Ok(works.into_iter().map(member).collect())
}

fn add(contests: &mut Vec<Contest>, player: Player, load: &str, allot: &Cell, default: &Cell) {
    let what = format!("{}, {load}", player.name());
    let mut put = |quantity: &str, unit: &str, of: &dyn Fn(&Cell) -> Option<f64>| {
        contests.push(Contest::new(&what, quantity, unit).measured(of(allot), of(default)));
    };
    put("average", "ms", &|cell| mean(&cell.late_ms));
    put("p99", "ms", &Cell::p99);
    put("worst", "ms", &|cell| percentile(&cell.late_ms, 1.0));
    put("deadlines met", "%", &|cell| {
        (cell.due > 0).then(|| cell.met as f64 * 100.0 / cell.due as f64)
    });
    put("its CPU", "%", &|cell| Some(cell.own_ns as f64 / 1e7 / cell.seconds.max(1e-9)));
    put("load's CPU", "%", &|cell| Some(cell.load_ns as f64 / 1e7 / cell.seconds.max(1e-9)));
    put("wake-ups", "", &|cell| Some(cell.late_ms.len() as f64));
}

fn checks(pairs: &[(Player, &str, Cell, Cell)]) -> Vec<Check> {
    let mut worse = Vec::new();
    let mut twice = Vec::new();
    let mut strictly = 0;
    for (player, load, allot, default) in pairs {
        let name = || format!("{} beside {load}", player.name());
        match (allot.p99(), default.p99()) {
            (Some(allot), Some(default)) => {
                strictly += usize::from(allot <= default);
                if allot > default * SAME + SAME_MS {
                    worse.push(name());
                }
                if allot > default * WORST + SAME_MS {
                    twice.push(name());
                }
            }
            // Never awake under one of them.
            (allot, _) if allot.is_none() => twice.push(name()),
            _ => {}
        }
    }
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let total = pairs.len();
    let good = total - worse.len();
    let mut checks = vec![
        Check {
            what: format!(
                "p99 is no worse than the kernel's default (at most {SAME} times, and {SAME_MS} \
                 ms) in three quarters of the cells: {good} of {total}, in {strictly} of them not \
                 at all; worse: {}",
                list(&worse)
            ),
            ok: good as f64 >= CELLS * total as f64,
        },
        Check {
            what: format!(
                "p99 is nowhere more than {WORST} times the default's; where it is: {}",
                list(&twice)
            ),
            ok: twice.is_empty(),
        },
    ];
    // Beside a load that takes all it can get, shares say whether both sides keep theirs.
    for (player, load, allot, _) in pairs.iter().filter(|(_, load, ..)| *load == "burn") {
        let due = wants(*player, 0.5);
        let (own, rest) = (allot.share(), 1.0 - allot.share());
        checks.push(Check {
            what: format!(
                "{} beside {load}: each side keeps {:.0} % of what it is due ({:.0} % of the CPU \
                 for {due:.2}, {:.0} % for 0.50)",
                player.name(),
                KEPT * 100.0,
                own * 100.0,
                rest * 100.0
            ),
            ok: own >= KEPT * due && rest >= KEPT * 0.5,
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(p99: f64, own: u64) -> Cell {
        Cell { late_ms: vec![p99; 10], own_ns: own, load_ns: 100 - own, ..Cell::default() }
    }

    #[test]
    fn the_verdict() {
        let pair = |load, allot, default| (Player::Video, load, cell(allot, 40), cell(default, 40));
        let ok = |pairs: &[_]| checks(pairs).iter().map(|check| check.ok).collect::<Vec<_>>();
        let same = pair("none", 1.0, 1.0);
        assert_eq!(
            ok(&[same.clone(), same.clone(), same.clone(), pair("read", 1.9, 1.0)]),
            [true; 2]
        );
        assert_eq!(ok(&[same.clone(), pair("read", 1.9, 1.0)]), [false, true]);
        let bad = [same.clone(), same.clone(), same.clone(), pair("read", 2.5, 1.0)];
        assert_eq!(ok(&bad), [true, false]);
        assert!(checks(&bad)[1].what.contains("video beside read"));
        assert_eq!(ok(&[pair("burn", 1.0, 1.0)]), [true; 3]);
        let starved = (Player::Video, "burn", cell(1.0, 20), cell(1.0, 40));
        assert_eq!(ok(&[starved]), [true, true, false]);
        let silent = (Player::Audio, "none", Cell::default(), cell(1.0, 5));
        assert_eq!(ok(&[silent]), [true, false]);
    }
}
