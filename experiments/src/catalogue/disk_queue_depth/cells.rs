//! The cells of `disk-queue-depth`.

use crate::harness::disk_client::{DiskClient, DiskFunding};
use crate::workloads::disk::DiskLoad;

/// Size of each process's file.
const MIB: u64 = 8;
/// BFQ serves one process for up to so long (`timeout_sync`) before the next.
pub(super) const TURN_SECONDS: f64 = 0.125;

/// The load of one group of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadKind {
    /// Reads past the page cache, with so many requests at a time that a group alone keeps the
    /// device busy.
    Direct,
    /// Reads through the page cache.
    Buffered,
    /// Reads by mapping.
    Mapped,
    /// Writes past the page cache, as `Direct` reads.
    DirectWrite,
}

impl LoadKind {
    fn name(self) -> &'static str {
        match self {
            LoadKind::Direct => "O_DIRECT",
            LoadKind::Buffered => "buffered",
            LoadKind::Mapped => "mmap",
            LoadKind::DirectWrite => "O_DIRECT writers",
        }
    }

    /// Returns the requests in flight of each of `count` processes in a group.
    fn in_flight(self, device: usize, count: usize) -> usize {
        match self {
            LoadKind::Direct | LoadKind::DirectWrite => (2 * device).div_ceil(count).max(1),
            // The kernel reads ahead a piece while one is waited for.
            LoadKind::Buffered => 2,
            LoadKind::Mapped => 1,
        }
    }

    fn load(self, device: usize, count: usize) -> DiskLoad {
        match self {
            LoadKind::Direct => DiskLoad::ReadDirect(self.in_flight(device, count)),
            LoadKind::Buffered => DiskLoad::ReadBuffered,
            LoadKind::Mapped => DiskLoad::IoHog,
            LoadKind::DirectWrite => DiskLoad::WriteDirect(self.in_flight(device, count)),
        }
    }
}

/// A cell of the grid: two groups of as many processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub kinds: [LoadKind; 2],
    /// Number of processes in all.
    pub count: usize,
    pub weights: [u64; 2],
}

impl Cell {
    pub const fn of(kind: LoadKind, count: usize, weights: [u64; 2]) -> Cell {
        Cell { kinds: [kind, kind], count, weights }
    }

    /// Returns its name in tables.
    pub fn name(&self) -> String {
        let [one, other] = self.kinds;
        let what = match one == other {
            true => one.name().to_owned(),
            false => format!("{} and {}", one.name(), other.name()),
        };
        let [heavy, light] = self.weights;
        format!("{what} x{}, {heavy}:{light}", self.count)
    }

    /// Returns its processes, on a device that takes so many requests at a time.
    pub fn clients(&self, device: usize) -> Vec<DiskClient> {
        let half = self.count / 2;
        let all: u64 = self.weights.iter().sum();
        let mut clients = Vec::new();
        for (group, (kind, weight)) in self.kinds.iter().zip(self.weights).enumerate() {
            for number in 0..half {
                let share = 1.0 / half as f64;
                clients.push(DiskClient {
                    name: format!("{}{number}", ["heavy", "light"][group]),
                    fund: DiskFunding::OfUser(weight * 100),
                    promised: weight as f64 / all as f64 * share,
                    load: kind.load(device, half),
                    mib: MIB,
                });
            }
        }
        clients
    }

    /// Returns the time until every process has had its turns under BFQ, in s: one for the least
    /// weight, so many times that for the others.
    pub fn round_seconds(&self) -> f64 {
        let [one, other] = self.weights;
        let turns = (self.count / 2) as f64 * (one + other) as f64 / one.min(other) as f64;
        turns * TURN_SECONDS
    }

    /// Returns the reason why the device decides here, and not the rule; none where shares must
    /// hold.
    pub fn explained(&self, device: usize) -> Option<&'static str> {
        let half = self.count / 2;
        let mut in_flight = self.kinds.iter().map(|kind| kind.in_flight(device, half) * half);
        if in_flight.clone().any(|count| count < 2) {
            return Some("a group with one request at a time gives up its place at each");
        }
        in_flight
            .any(|count| count < device + 1)
            .then_some("a group asks for less at a time than the device takes: it cannot use more")
    }
}

const SHORT: [Cell; 2] =
    [Cell::of(LoadKind::Direct, 2, [4, 1]), Cell::of(LoadKind::Mapped, 4, [4, 1])];
/// Cells with every value of every dimension, but not each combination.
const REDUCED: [Cell; 6] = [
    Cell::of(LoadKind::Direct, 2, [4, 1]),
    Cell::of(LoadKind::Direct, 16, [4, 1]),
    Cell::of(LoadKind::Direct, 2, [2, 3]),
    Cell::of(LoadKind::Buffered, 4, [4, 1]),
    Cell::of(LoadKind::Mapped, 16, [4, 1]),
    Cell { kinds: [LoadKind::Direct, LoadKind::DirectWrite], count: 4, weights: [4, 1] },
];
const FULL: [Cell; 13] = [
    Cell::of(LoadKind::Direct, 2, [4, 1]),
    Cell::of(LoadKind::Direct, 4, [4, 1]),
    Cell::of(LoadKind::Direct, 16, [4, 1]),
    Cell::of(LoadKind::Direct, 2, [2, 3]),
    Cell::of(LoadKind::Direct, 16, [2, 3]),
    Cell::of(LoadKind::Buffered, 2, [4, 1]),
    Cell::of(LoadKind::Buffered, 4, [4, 1]),
    Cell::of(LoadKind::Buffered, 16, [4, 1]),
    Cell::of(LoadKind::Mapped, 2, [4, 1]),
    Cell::of(LoadKind::Mapped, 4, [4, 1]),
    Cell::of(LoadKind::Mapped, 16, [4, 1]),
    Cell { kinds: [LoadKind::Direct, LoadKind::DirectWrite], count: 4, weights: [4, 1] },
    Cell { kinds: [LoadKind::DirectWrite, LoadKind::Direct], count: 4, weights: [4, 1] },
];
/// Seconds below which the reduced cells are run.
const FULL_SECONDS: f64 = 300.0;
/// Seconds below which only two are run.
const REDUCED_SECONDS: f64 = 100.0;

/// Returns the cells for a run of `seconds`.
pub(super) fn cells_for(seconds: f64) -> &'static [Cell] {
    match seconds {
        seconds if seconds < REDUCED_SECONDS => &SHORT,
        seconds if seconds < FULL_SECONDS => &REDUCED,
        _ => &FULL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_the_device_is_asked_for_more_than_it_takes_shares_must_hold() {
        let direct = Cell::of(LoadKind::Direct, 2, [4, 1]);
        assert_eq!(direct.name(), "O_DIRECT x2, 4:1");
        assert_eq!(direct.clients(16)[0].load, DiskLoad::ReadDirect(32));
        assert_eq!(direct.explained(16), None);
        assert_eq!(
            Cell::of(LoadKind::Direct, 16, [4, 1]).clients(16)[9].load,
            DiskLoad::ReadDirect(4)
        );
        let mapped = |count| Cell::of(LoadKind::Mapped, count, [4, 1]);
        assert!(mapped(2).explained(1).is_some(), "one request at a time");
        assert_eq!(mapped(4).explained(1), None);
        assert!(mapped(16).explained(16).is_some(), "8 of 16 places");
        let clients = mapped(16).clients(16);
        let all: f64 = clients.iter().map(|client| client.promised).sum();
        assert!((all - 1.0).abs() < 1e-9 && clients.len() == 16);
    }

    #[test]
    fn the_reduced_cells_leave_no_value_out() {
        let (reduced, full) = (cells_for(120.0), cells_for(400.0));
        assert_eq!((cells_for(60.0).len(), reduced.len(), full.len()), (2, 6, 13));
        for cell in full {
            assert!(reduced.iter().any(|one| one.count == cell.count), "{cell:?}");
            assert!(reduced.iter().any(|one| one.weights == cell.weights), "{cell:?}");
            for kind in cell.kinds {
                assert!(reduced.iter().any(|one| one.kinds.contains(&kind)), "{cell:?}");
            }
        }
    }
}
