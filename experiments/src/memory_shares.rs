//! `memory-shares`: paper 1's figure 9, four readers of which two have guarantees; and its figure 6, where tickets are
//! deactivated whenever a client blocks.

use crate::contest::Contest;
use crate::daemon::Memory;
use crate::memory_load::{IN_USE, KIB, Look, Reader, Steady, disk, memory_tickets};
use crate::plot::draw;
use crate::report::Findings;
use crate::session::Bench;
use crate::{Check, ExperimentError, ExperimentInfo, Outcome};
use wire::{CurrencyRef, Operation, TicketKind};

pub(crate) const INFO: ExperimentInfo = ExperimentInfo {
    name: "memory-shares",
    title: "Hard shares of memory, and tickets that are deactivated at every block",
    paper: "paper 1, figures 9 and 6",
    what: "Four readers of 16 MiB at random in 8 MiB of memory, two with guarantees of 2048 and 1400 KiB: what each \
           holds under allot and under the kernel alone, and under allot when whoever blocks loses its tickets until it \
           runs again.",
    least_seconds: 40.0,
    usual_seconds: 120.0,
    own_allotd: true,
};

/// What paper 1 left to clients was 4.2 MB of 8; here the kernel's own memory is outside the limit.
pub(crate) const LIMIT_MIB: u64 = 8;
/// The paper's 500 and 350 pages (its 2 MB is 2000 KB).
pub(crate) const READERS: [Reader; 4] =
    [reader("A", 2048), reader("B", 1400), reader("C", 0), reader("D", 0)];
/// Parts of the time: allot, the kernel alone, allot with tickets deactivated at every block.
const PARTS: [f64; 3] = [0.4, 0.25, 0.35];

const fn reader(name: &'static str, guaranteed_kib: u64) -> Reader {
    Reader { name, guaranteed_kib, guest: false, file_mib: 16 }
}

pub(crate) fn run(bench: &mut Bench) -> Result<Outcome, ExperimentError> {
    let disk = disk(INFO.name)?;
    let memory = Memory { policy: "min-funding", limit_mib: LIMIT_MIB, guests: None };
    let [seconds, of_kernel, of_blocks] = PARTS.map(|part| part * bench.total);

    let mut stage = bench.memory_stage(memory)?;
    let mut findings = Findings::new(bench, stage.daemon.as_ref().expect("it was started"))?;
    stage.start(bench, &disk, &READERS, seconds)?;
    let watched = stage.watch(bench, seconds, "figure 9", "allot", &mut |_| Ok(()))?;
    drop(stage);
    let allot = watched.steady(&READERS);
    let mut panels = vec![watched.panel("allot", &READERS)];

    let kernel = match bench.memory_fence(LIMIT_MIB)? {
        Some(mut stage) => {
            stage.start(bench, &disk, &READERS, of_kernel)?;
            let note = "the kernel alone";
            let watched = stage.watch(bench, of_kernel, "figure 9", note, &mut |_| Ok(()))?;
            panels.push(watched.panel(note, &READERS));
            // It guarantees nothing, so nobody need have had anything.
            Some(watched.steady(&READERS.map(|reader| Reader { guaranteed_kib: 0, ..reader })))
        }
        None => {
            findings
                .notes
                .push("no control group is ours to make: allot is measured alone".to_owned());
            bench.elapsed += of_kernel;
            None
        }
    };

    let mut stage = bench.memory_stage(memory)?;
    stage.start(bench, &disk, &READERS, of_blocks)?;
    let mut blocks = Blocks::default();
    let watched =
        stage.watch(bench, of_blocks, "figure 6", "allot", &mut |look| blocks.look(look))?;
    drop(stage);
    panels.push(watched.panel("allot, tickets deactivated at every block", &READERS));
    let at_blocks = watched.after(Some(of_blocks / 3.0));
    findings.notes.push(format!(
        "figure 6: whoever was seen blocked at a look lost its memory tickets, and had them back when it was seen \
         running: {} changes, {:.0} % of the looks found them blocked; what counts is the last two thirds",
        blocks.changes,
        100.0 * blocks.blocked as f64 / blocks.looks.max(1) as f64
    ));
    judge(&allot, kernel.as_ref(), &at_blocks, &mut findings.contests, &mut findings.checks);
    let svg = vec![("memory-shares.svg".to_owned(), draw(INFO.title, &panels))];
    Ok(findings.finish(bench, &INFO, INFO.title, INFO.paper, svg))
}

/// Tickets that are deactivated whenever a client blocks.
#[derive(Default)]
struct Blocks {
    /// Whether each has its tickets now.
    has: Vec<bool>,
    looks: u64,
    blocked: u64,
    changes: u64,
}

impl Blocks {
    fn look(&mut self, look: &Look) -> Result<(), ExperimentError> {
        let Look { daemon: Some(daemon), ids, blocked } = *look else { return Ok(()) };
        self.has.resize(ids.len(), true);
        let mut operations = Vec::new();
        let guaranteed = READERS.iter().zip(ids).zip(blocked).zip(&mut self.has);
        for (((reader, id), blocked), has) in
            guaranteed.filter(|(((reader, _), _), _)| reader.guaranteed_kib > 0)
        {
            self.looks += 1;
            self.blocked += u64::from(*blocked);
            if *has != *blocked {
                continue;
            }
            *has = !blocked;
            self.changes += 1;
            let (currency, from) = (id.clone(), CurrencyRef::from(crate::graph::BASE));
            operations.push(match *has {
                true => Operation::Fund {
                    currency,
                    from,
                    amount: memory_tickets(reader.guaranteed_kib),
                },
                false => Operation::Unfund {
                    currency,
                    from,
                    resource: "memory".to_owned(),
                    kind: TicketKind::Hard,
                },
            });
        }
        if !operations.is_empty() {
            daemon.operate("deactivating memory tickets", operations)?;
        }
        Ok(())
    }
}

fn judge(
    allot: &Steady,
    kernel: Option<&Steady>,
    at_blocks: &Steady,
    contests: &mut Vec<Contest>,
    checks: &mut Vec<Check>,
) {
    let measured =
        |steady: &Steady, of: &dyn Fn(&Steady) -> f64| (steady.looks > 0).then(|| of(steady) / KIB);
    for (place, reader) in READERS.iter().enumerate() {
        let promised = (reader.guaranteed_kib > 0).then_some(reader.guaranteed_kib as f64);
        let title = reader.title();
        let mean = |steady: &Steady| steady.mean[place];
        let least = |steady: &Steady| steady.least[place] as f64;
        let mut put = |quantity: &str, allot: Option<f64>, default: Option<f64>| {
            let contest = Contest::new(&title, quantity, "KiB").measured(allot, default);
            contests.push(contest.promising(promised));
        };
        let of_kernel = |of: &dyn Fn(&Steady) -> f64| kernel.and_then(|it| measured(it, of));
        put("held on average", measured(allot, &mean), of_kernel(&mean));
        put("the least of any look", measured(allot, &least), of_kernel(&least));
        put("figure 6: average", measured(at_blocks, &mean), None);
        put("figure 6: least", measured(at_blocks, &least), None);
    }
    checks.extend(keeps(&READERS, allot, ""));
    let [_, _, rest @ ..] = &allot.mean[..] else { return };
    let (most, fewest) =
        (rest.iter().copied().fold(0.0, f64::max), allot.mean[0].min(allot.mean[1]));
    let what = format!(
        "the two without tickets hold less than the others on average (at most {:.0} KiB, the others at least {:.0})",
        most / KIB,
        fewest / KIB
    );
    checks.push(Check { what, ok: allot.looks > 0 && most < fewest });
}

/// That every guarantee was kept, and memory used. `label` goes before, where it is not empty.
pub(crate) fn keeps(readers: &[Reader], steady: &Steady, label: &str) -> Vec<Check> {
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let since = steady.since.map_or("never".to_owned(), |at| format!("from {at:.1} s on"));
    let guaranteed = readers.iter().enumerate().filter(|(_, reader)| reader.guaranteed_kib > 0);
    let mut checks: Vec<Check> = guaranteed
        .map(|(place, reader)| {
            let least = steady.least.get(place).map_or(0.0, |least| *least as f64 / KIB);
            let what = format!(
                "{label}{} keeps its guarantee in every look, but for a page, once steady ({since}: {} looks, the \
                 least {least:.0} KiB)",
                reader.title(),
                steady.looks
            );
            Check { what, ok: steady.keeps(place, reader) }
        })
        .collect();
    let what = format!(
        "{label}at least {:.0} % of the memory is in use ({:.1} %)",
        IN_USE * 100.0,
        steady.in_use * 100.0
    );
    checks.push(Check { what, ok: steady.looks > 0 && steady.in_use >= IN_USE });
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(kib: [u64; 4], least: [u64; 4], in_use: f64) -> Steady {
        Steady {
            since: Some(5.0),
            looks: 100,
            mean: kib.map(|kib| kib as f64 * KIB).to_vec(),
            least: least.map(|kib| kib << 10).to_vec(),
            in_use,
        }
    }

    #[test]
    fn the_verdict() {
        let verdict = |allot: &Steady| {
            let kernel = steady([1700, 1800, 2100, 2300], [1500, 1600, 2000, 2100], 0.99);
            let (mut contests, mut checks) = (Vec::new(), Vec::new());
            judge(allot, Some(&kernel), &kernel, &mut contests, &mut checks);
            assert_eq!(contests[0].promised, Some(2048.0));
            assert_eq!((contests[0].default, contests[9].default), (Some(1700.0), Some(2000.0)));
            checks.iter().map(|check| check.ok).collect::<Vec<_>>()
        };
        let good = steady([3000, 2500, 900, 900], [2044, 1400, 300, 300], 0.95);
        assert_eq!(verdict(&good), [true; 4]);
        let low = steady([3000, 2500, 900, 900], [2043, 1395, 300, 300], 0.89);
        assert_eq!(verdict(&low), [false, false, false, true]);
        assert!(!verdict(&steady([3000, 2000, 2100, 900], [2048; 4], 1.0))[3]);
        let nothing = Steady { looks: 0, since: None, ..good };
        assert_eq!(verdict(&nothing), [false; 4]);
    }
}
