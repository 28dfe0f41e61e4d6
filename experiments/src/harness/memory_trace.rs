//! The memory of readers over time.

use crate::report::plot::{Line, Panel, plain_panel};
use crate::report::statistics::mean;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const KIB: f64 = 1024.0;
/// Bytes by which a sample may be below a guarantee: the kernel counts in pages.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Part of the limit that must be in use on average.
pub(crate) const IN_USE: f64 = 0.9;
/// Seconds until a state counts as steady.
const SETTLED_SECONDS: f64 = 2.0;

/// A reader, and its promise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub name: &'static str,
    /// Hard memory tickets of base, in KiB; 0: none.
    pub guaranteed_kib: u64,
    pub guest: bool,
    /// The size of its file, in MiB.
    pub file_mib: u64,
}

impl Reader {
    /// Returns its guarantee.
    pub fn guaranteed_bytes(&self) -> u64 {
        self.guaranteed_kib << 10
    }

    /// Returns its name in tables.
    pub fn title(&self) -> String {
        match (self.guaranteed_kib, self.guest) {
            (0, false) => self.name.to_owned(),
            (0, true) => format!("{} (guest)", self.name),
            (kib, _) => format!("{} ({kib} KiB)", self.name),
        }
    }
}

/// The memory of readers over time.
#[derive(Clone, Debug)]
pub(crate) struct MemoryTrace {
    limit_bytes: u64,
    /// Seconds from the start.
    pub at: Vec<f64>,
    /// Bytes that each holds, for each sample.
    pub held: Vec<Vec<u64>>,
    /// Bytes that all hold, for each sample.
    pub all: Vec<u64>,
    /// Pages a second that each needed again.
    pub refaults: Vec<f64>,
    /// Reads a second of each.
    pub reads: Vec<f64>,
    /// CPU time of allotd, as a part of one CPU.
    pub allotd_cpu: f64,
}

impl MemoryTrace {
    /// Creates a trace without samples.
    pub fn new(limit_bytes: u64) -> MemoryTrace {
        MemoryTrace {
            limit_bytes,
            at: Vec::new(),
            held: Vec::new(),
            all: Vec::new(),
            refaults: Vec::new(),
            reads: Vec::new(),
            allotd_cpu: 0.0,
        }
    }

    /// Returns the steady state: from 2 s after nine tenths of the memory were in use, and each
    /// reader held what it is guaranteed, for the first time. Empty where that was never so.
    pub fn steady(&self, readers: &[Reader]) -> SteadyState {
        let enough = |look: &usize| {
            let has = |(reader, held): (&Reader, &u64)| *held >= reader.guaranteed_bytes();
            self.all[*look] as f64 >= IN_USE * self.limit_bytes as f64
                && readers.iter().zip(&self.held[*look]).all(has)
        };
        let first = (0..self.at.len()).find(enough);
        self.after(first.map(|look| self.at[look] + SETTLED_SECONDS))
    }

    /// Returns the state from a time on.
    pub fn after(&self, seconds: Option<f64>) -> SteadyState {
        let looks =
            (0..self.at.len()).filter(|look| seconds.is_some_and(|at| self.at[*look] >= at));
        let looks: Vec<usize> = looks.collect();
        let readers = self.held.first().map_or(0, Vec::len);
        let of = |reader: usize| looks.iter().map(move |look| self.held[*look][reader]);
        let average = |values: Vec<f64>| mean(&values).unwrap_or(0.0);
        SteadyState {
            since: seconds,
            looks: looks.len(),
            mean: (0..readers)
                .map(|it| average(of(it).map(|held| held as f64).collect()))
                .collect(),
            least: (0..readers).map(|it| of(it).min().unwrap_or(0)).collect(),
            in_use: average(looks.iter().map(|look| self.all[*look] as f64).collect())
                / self.limit_bytes as f64,
        }
    }

    /// Returns a panel of what each holds over time, with the guarantees, in KiB.
    pub fn panel(&self, title: &str, readers: &[Reader]) -> Panel {
        let mut lines = Vec::new();
        for (place, reader) in readers.iter().enumerate() {
            let kib =
                |look: usize| self.held[look].get(place).map_or(0.0, |held| *held as f64 / KIB);
            let points = (0..self.at.len()).map(|look| (self.at[look], kib(look))).collect();
            lines.push(Line { name: reader.title(), points, dashed: false });
            if reader.guaranteed_kib > 0 {
                let kib = reader.guaranteed_kib as f64;
                let end = self.at.last().copied().unwrap_or(0.0);
                lines.push(Line {
                    name: String::new(),
                    points: vec![(0.0, kib), (end, kib)],
                    dashed: true,
                });
            }
        }
        plain_panel(title, "time (s)", "held (KiB)", lines)
    }
}

/// The steady state of a trace.
#[derive(Clone, Debug)]
pub(crate) struct SteadyState {
    /// Its begin, in seconds from the start.
    pub since: Option<f64>,
    /// Number of samples.
    pub looks: usize,
    /// Bytes that each held on average.
    pub mean: Vec<f64>,
    /// The fewest bytes that each held in any sample.
    pub least: Vec<u64>,
    /// Part of the limit in use, on average.
    pub in_use: f64,
}

impl SteadyState {
    /// Returns whether there were samples, and none of them below a guarantee.
    pub fn keeps(&self, place: usize, reader: &Reader) -> bool {
        self.looks > 0 && self.least[place] + PAGE_BYTES >= reader.guaranteed_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers() -> Vec<Reader> {
        let of = |name, guaranteed_kib| Reader { name, guaranteed_kib, guest: false, file_mib: 16 };
        vec![of("A", 8), of("B", 0)]
    }

    fn watched(held: &[[u64; 2]]) -> MemoryTrace {
        MemoryTrace {
            at: (0..held.len()).map(|look| look as f64).collect(),
            held: held.iter().map(|held| held.map(|kib| kib << 10).to_vec()).collect(),
            all: held.iter().map(|held| held.iter().sum::<u64>() << 10).collect(),
            ..MemoryTrace::new(20 << 10)
        }
    }

    #[test]
    fn what_counts_begins_two_seconds_after_all_is_there() {
        let seen = watched(&[[1, 1], [4, 15], [9, 10], [1, 18], [9, 9], [10, 8]]);
        let steady = seen.steady(&readers());
        assert_eq!((steady.since, steady.looks), (Some(4.0), 2), "from the third look on");
        assert_eq!(steady.mean, [9.5 * KIB, 8.5 * KIB]);
        assert_eq!(steady.least, [9 << 10, 8 << 10]);
        assert!((steady.in_use - 0.9).abs() < 1e-9);
        assert!(steady.keeps(0, &readers()[0]) && steady.keeps(1, &readers()[1]));
    }

    #[test]
    fn a_page_less_is_tolerated_and_no_look_shows_nothing() {
        let look = |kib| watched(&[[9, 10], [9, 10], [kib, 10]]).steady(&readers());
        assert!(look(4).keeps(0, &readers()[0]));
        assert!(!look(3).keeps(0, &readers()[0]));
        let never = watched(&[[9, 2], [7, 12]]).steady(&readers());
        assert_eq!((never.since, never.looks), (None, 0));
        assert!(!never.keeps(0, &readers()[0]));
    }
}
