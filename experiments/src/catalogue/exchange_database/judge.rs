//! The judgement of `exchange-database`, live or simulated, beside the words of the paper (6.6).

use crate::report::comparison::Comparison;
use crate::report::types::Check;
use crate::report::verdict::Verdict;

/// The servers. The first gives disk tickets for memory tickets of the second.
pub(super) const SERVERS: [&str; 2] = ["small", "big"];
/// The most by which an order may be wrong, as a part: neighbours differ by little more than
/// chance.
const ORDER: f64 = 0.03;
const TENFOLD: f64 = 10.0;

/// An exchange, and the progress of both servers with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Memory that `small` gets, in pages.
    pub memory: u64,
    /// Disk tickets that `small` gives.
    pub disk: u64,
    /// Look-ups of `small` and of `big`, as times of those without exchange.
    pub times: [f64; 2],
}

/// The paper's words on a server's look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    NoGain,
    Gain,
    Tenfold,
}

impl Says {
    fn words(self) -> &'static str {
        match self {
            Says::NoGain => "no gain",
            Says::Gain => "gain",
            Says::Tenfold => "over 10",
        }
    }

    fn agrees(self, times: f64) -> bool {
        match self {
            Says::NoGain => times <= 1.0,
            Says::Gain => times > 1.0,
            Says::Tenfold => times >= TENFOLD,
        }
    }
}

impl Cell {
    /// Returns its name in tables.
    pub fn name(memory: u64, disk: u64) -> String {
        match memory {
            0 => "no exchange".to_owned(),
            _ => format!("{memory} memory for {disk} disk"),
        }
    }

    /// Returns the paper's words on a server; none where it leaves that open.
    fn paper(&self, server: usize) -> Option<Says> {
        let (memory, disk) = (self.memory, self.disk);
        match (server, memory) {
            (0, 700..) => Some(Says::Tenfold),
            (0, 400..) => Some(Says::Gain),
            (0, ..200) => Some(Says::NoGain),
            // Two for one is too much at 200, and welcome at 300; "a large number" is too much at
            // either.
            (0, _) if disk >= 800 || (memory < 300 && disk >= 2 * memory) => Some(Says::NoGain),
            (0, 300..) if disk <= 600 => Some(Says::Gain),
            (1, _) if disk >= 600 => Some(Says::Gain),
            _ => None,
        }
    }
}

/// Judges exchanges: all 64, or some.
pub(super) fn judge(cells: &[Cell]) -> Verdict {
    let mut checks = Vec::new();
    let mut check = |what: String, ok: bool| checks.push(Check { what, ok });
    if cells.len() == 64 {
        for (server, name) in SERVERS.iter().enumerate() {
            let count = cells.iter().filter(|cell| cell.times[server] > 1.0).count();
            check(format!("{name} gains by most ({count} of 64; paper: most)"), count > 32);
        }
    }
    let all = |keep: &dyn Fn(&&Cell) -> bool, test: &dyn Fn(&Cell) -> bool| {
        cells.iter().filter(keep).all(test)
    };
    check(
        "small loses where it gives 800 disk for 100 to 300 memory (paper: it does)".to_owned(),
        all(&|it| it.disk == 800 && it.memory <= 300, &|it| it.times[0] < 1.0),
    );
    let tenfold = cells.iter().filter(|cell| cell.memory >= 700);
    let least = tenfold.map(|cell| cell.times[0]).fold(f64::INFINITY, f64::min);
    check(
        format!(
            "small gains tenfold by 700 and 800 memory, for any disk (least: {least:.1}; paper: over 1000 %)"
        ),
        least >= TENFOLD,
    );
    check(
        "big gains by 600 disk and more, for any memory (paper: it does)".to_owned(),
        all(&|it| it.disk >= 600, &|it| it.times[1] > 1.0),
    );
    check(
        format!(
            "more memory is no worse for small, nor more disk for big, {:.0} % aside",
            ORDER * 100.0
        ),
        is_ordered(cells, 0, |cell| (cell.disk, cell.memory))
            && is_ordered(cells, 1, |cell| (cell.memory, cell.disk)),
    );
    Verdict { comparisons: comparisons(cells), checks, notes: notes(cells) }
}

/// Returns whether, among cells of the same first number, more of the second is no worse.
fn is_ordered(cells: &[Cell], server: usize, by: fn(&Cell) -> (u64, u64)) -> bool {
    let mut sorted: Vec<&Cell> = cells.iter().collect();
    sorted.sort_by_key(|cell| by(cell));
    sorted.windows(2).all(|pair| {
        let same = by(pair[0]).0 == by(pair[1]).0;
        !same || pair[1].times[server] > (1.0 - ORDER) * pair[0].times[server]
    })
}

fn comparisons(cells: &[Cell]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for cell in cells {
        for (server, name) in SERVERS.iter().enumerate() {
            let what = Cell::name(cell.memory, cell.disk);
            let comparison = Comparison::new(&what, &format!("{name}'s gain"), "times")
                .measured(Some(cell.times[server]), Some(1.0));
            comparisons.push(match cell.paper(server) {
                Some(says) => comparison.paper(says.words()),
                None => comparison,
            });
        }
    }
    comparisons
}

fn notes(cells: &[Cell]) -> Vec<String> {
    let mut said = 0;
    let mut others = Vec::new();
    for cell in cells {
        for (server, name) in SERVERS.iter().enumerate() {
            let Some(says) = cell.paper(server) else { continue };
            said += 1;
            let times = cell.times[server];
            if !says.agrees(times) {
                let what = Cell::name(cell.memory, cell.disk);
                others.push(format!("{what}: {name} {times:.2} (paper: {})", says.words()));
            }
        }
    }
    let mut notes = vec![format!(
        "as in the paper's text: {} of {said}{}{}",
        said - others.len(),
        if others.is_empty() { "" } else { "; not: " },
        others.join(", ")
    )];
    let two_for_one = cells.iter().filter(|cell| cell.disk == 2 * cell.memory && cell.memory < 400);
    let ratios: Vec<String> = two_for_one
        .map(|cell| format!("{:.2} times by {} memory", cell.times[0], cell.memory))
        .collect();
    if !ratios.is_empty() {
        notes.push(format!(
            "two disk for one memory is for small {}: a ratio alone is no offer (paper: no gain by 100 and 200, gain by \
             300)",
            ratios.join(", ")
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(memory: u64, disk: u64, times: [f64; 2]) -> Cell {
        Cell { memory, disk, times }
    }

    #[test]
    fn the_papers_words() {
        let says = |server, memory, disk| cell(memory, disk, [1.0; 2]).paper(server);
        assert_eq!(says(0, 100, 100), Some(Says::NoGain));
        assert_eq!(says(0, 200, 400), Some(Says::NoGain));
        assert_eq!(says(0, 200, 300), None);
        assert_eq!(says(0, 300, 600), Some(Says::Gain));
        assert_eq!(says(0, 300, 700), None);
        assert_eq!(says(0, 300, 800), Some(Says::NoGain));
        assert_eq!(says(0, 400, 800), Some(Says::Gain));
        assert_eq!(says(0, 700, 800), Some(Says::Tenfold));
        assert_eq!(says(1, 100, 600), Some(Says::Gain));
        assert_eq!(says(1, 800, 500), None);
    }

    #[test]
    fn the_verdict() {
        let verdict = |cells: &[Cell]| {
            let judged = judge(cells);
            assert_eq!(judged.comparisons.len(), 2 * cells.len());
            (judged.checks.iter().map(|check| check.ok).collect::<Vec<_>>(), judged.notes)
        };
        let good = [
            cell(100, 800, [0.3, 1.6]),
            cell(300, 600, [1.1, 1.4]),
            cell(300, 800, [0.6, 1.6]),
            cell(700, 100, [20.0, 0.9]),
            cell(700, 800, [12.0, 1.5]),
        ];
        let (checks, notes) = verdict(&good);
        assert_eq!(checks, [true; 4]);
        assert!(notes[0].ends_with("9 of 9"), "{notes:?}");
        assert!(notes[1].contains("1.10 times by 300 memory"), "{notes:?}");
        let mut bad = good;
        bad[0].times = [1.2, 0.9];
        bad[4].times = [9.0, 1.5];
        let (checks, notes) = verdict(&bad);
        assert_eq!(checks, [false, false, false, false]);
        assert!(notes[0].contains("100 memory for 800 disk: big 0.90 (paper: gain)"), "{notes:?}");
    }
}
