//! How much memory is lacking.
//!
//! 1. **A cgroup with a limit** (`memory.max`, `memory.high`; the one at the top, and each around it): its room is the
//!    limit less what it holds. All that is in it is looked at as the clients', so any lack of it counts.
//! 2. **The machine**: its room is what is free above the high watermarks of its zones, below which the kernel
//!    starts to take pages by its own choice. Of a zone only what an ordinary allocation may use. The kernel
//!    fills free memory with files on purpose and takes it back from whoever has it, clients or not, so a lack there
//!    counts only under pressure (rule 3 of [`reclaimer`](super::reclaimer)).
//! 3. **The shortfall** is the greatest of (headroom − room).

use super::MemoryError;
use super::group::Group;
use super::size::headroom_bytes;
use std::path::Path;

/// Where room is looked for.
#[derive(Debug)]
pub(super) struct Room {
    limited: Vec<Group>,
    /// In place of what [`headroom_bytes`] says.
    headroom_bytes: Option<u64>,
    page_bytes: u64,
}

impl Room {
    /// The cgroup at the top and those around it; the machine alone, without a top.
    ///
    /// # Errors
    /// When the top is no cgroup with a memory controller.
    pub fn new(
        top: Option<&Path>,
        headroom_bytes: Option<u64>,
        page_bytes: u64,
    ) -> Result<Room, MemoryError> {
        let mut limited = Vec::new();
        if let Some(top) = top {
            limited.push(Group::open(top)?);
            // Up to the root of the tree, which holds everything and has no controller's files.
            let around = top.ancestors().skip(1).map_while(|path| Group::open(path).ok());
            limited.extend(around);
        }
        Ok(Room { limited, headroom_bytes, page_bytes })
    }

    /// The cgroup at the top.
    pub fn top(&self) -> Option<&Group> {
        self.limited.first()
    }

    /// What is lacking now, in bytes; of the machine only `under_pressure`.
    pub fn shortfall_bytes(&self, under_pressure: bool) -> u64 {
        // A cgroup that is gone, or cannot be read, limits nobody.
        let cgroups = self.limited.iter().filter_map(|group| {
            let limits = ["memory.max", "memory.high"].map(|file| group.limit_bytes(file));
            let limit = limits.into_iter().flatten().min()?;
            Some((limit, limit.saturating_sub(group.held_bytes().ok()?)))
        });
        let machine = under_pressure.then(|| machine(self.page_bytes)).flatten();
        cgroups
            .chain(machine)
            .map(|(of, room)| {
                self.headroom_bytes.unwrap_or_else(|| headroom_bytes(of)).saturating_sub(room)
            })
            .max()
            .unwrap_or(0)
    }
}

/// All memory, and the room in it, in bytes.
fn machine(page_bytes: u64) -> Option<(u64, u64)> {
    let (managed, room) = parse_zones(&std::fs::read_to_string("/proc/zoneinfo").ok()?);
    Some((managed * page_bytes, room * page_bytes))
}

/// One zone of /proc/zoneinfo, in pages.
#[derive(Default)]
struct Zone {
    free: u64,
    high: u64,
    managed: u64,
    /// Kept from ordinary allocations.
    protection: u64,
}

impl Zone {
    fn room(&self) -> u64 {
        self.free.saturating_sub(self.high.saturating_add(self.protection))
    }
}

/// What all zones manage, and the room in them, in pages (rule 2).
fn parse_zones(text: &str) -> (u64, u64) {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if line.starts_with("Node ") {
            zones.push(Zone::default());
            continue;
        }
        let Some(zone) = zones.last_mut() else { continue };
        let line = line.trim_start();
        let number = |key: &str| line.strip_prefix(key).and_then(|rest| rest.trim().parse().ok());
        if let Some(pages) = number("pages free ") {
            zone.free = pages;
        } else if let Some(pages) = number("high ") {
            zone.high = pages;
        } else if let Some(pages) = number("managed ") {
            zone.managed = pages;
        } else if let Some(list) = line.strip_prefix("protection: ") {
            let last = list.trim_matches(['(', ')']).rsplit(',').next();
            zone.protection = last.and_then(|word| word.trim().parse().ok()).unwrap_or(0);
        }
    }
    zones.iter().fold((0, 0), |(managed, room), zone| (managed + zone.managed, room + zone.room()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: &str = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 180
  pages free     3840
        boost    0
        min      67
        low      83
        high     99
        spanned  4095
        present  3998
        managed  3840
        cma      0
        protection: (0, 1934, 1934, 1934, 1934)
      nr_free_pages 3840
  pagesets
    cpu: 0
              count:    0
              high:     0
              batch:    1
Node 0, zone    DMA32
  pages free     5000
        min      1000
        low      2000
        high     3000
        managed  500000
        protection: (0, 0, 0, 0, 0)
    cpu: 0
              high:     4294
Node 0, zone  Movable
  pages free     0
        min      32
        high     32
        managed  0
        protection: (0, 0, 0, 0, 0)
";

    #[test]
    fn room_is_what_is_free_above_the_high_watermarks() {
        // 3840 − 99 − 1934 of the first, 5000 − 3000 of the second.
        assert_eq!(parse_zones(ZONES), (503_840, 1807 + 2000));
        assert_eq!(parse_zones(&ZONES.replace("free     5000", "free     2999")).1, 1807);
        assert_eq!(parse_zones(""), (0, 0));
    }

    #[test]
    fn this_machine_has_zones() {
        let (all, room) = machine(4096).expect("it is Linux");
        assert!(all > 16 << 20 && room < all, "{room} of {all}");
    }

    #[test]
    fn without_a_top_only_the_machine_counts_and_only_under_pressure() {
        let room = Room::new(None, Some(1 << 62), 4096).expect("nothing to open");
        assert_eq!(room.shortfall_bytes(false), 0);
        let lacking = room.shortfall_bytes(true);
        assert!(lacking > 1 << 61 && lacking <= 1 << 62, "{lacking}");
    }
}
