//! How much memory is lacking.
//!
//! 1. **A cgroup with a limit** (`memory.max`, `memory.high`; the one at the top, and each around it): its room is the
//!    limit less what it holds. All that is in it is looked at as the clients', so any lack of it counts.
//! 2. **Several cgroups with a limit together** that no cgroup around them has: likewise.
//! 3. **The machine**: its room is what is free above the high watermarks of its zones, below which the kernel
//!    starts to take pages by its own choice. Of a zone only what an ordinary allocation may use. (What is free and
//!    does not count is read once a second, as the limits are; what is free, each time.) The kernel fills free memory with files on purpose and takes it back from whoever has it, clients or not, so a lack there
//!    counts only under pressure (rule 3 of [`reclaimer`](super::reclaimer)).
//! 4. **The shortfall** is the greatest of (headroom − room).

use crate::error::MemoryError;
use crate::group::Group;
use crate::options::SharedLimit;
use crate::size::headroom_bytes;
use std::path::Path;

/// Limits are read again after so long: who sets them does so seldom.
const LIMITS_NS: u64 = 1_000_000_000;

/// Where room is looked for.
#[derive(Debug)]
pub(crate) struct Room {
    limited: Vec<Limited>,
    together: Option<SharedLimit>,
    /// Those of them that there are.
    fellows: Vec<Group>,
    /// When the limits were read, and when the zones.
    limits_ns: Option<u64>,
    zones_ns: Option<u64>,
    zones: Zones,
    /// In place of what [`headroom_bytes`] says.
    headroom_bytes: Option<u64>,
    page_bytes: u64,
}

/// A cgroup, and its limit, if it has one.
#[derive(Debug)]
struct Limited {
    group: Group,
    limit_bytes: Option<u64>,
}

impl Limited {
    fn read(&mut self) {
        let limits = ["memory.max", "memory.high"].map(|file| self.group.limit_bytes(file));
        self.limit_bytes = limits.into_iter().flatten().min();
    }

    /// The limit, and the room below it. A cgroup that is gone, or cannot be read, limits nobody.
    fn room(&self) -> Option<(u64, u64)> {
        let limit = self.limit_bytes?;
        Some((limit, limit.saturating_sub(self.group.held_bytes().ok()?)))
    }
}

impl Room {
    /// The cgroup at the top and those around it; the machine alone, without a top.
    ///
    /// # Errors
    /// When the top is no cgroup with a memory controller.
    pub fn new(
        top: Option<&Path>,
        together: Option<SharedLimit>,
        headroom_bytes: Option<u64>,
        page_bytes: u64,
    ) -> Result<Room, MemoryError> {
        let mut groups = Vec::new();
        if let Some(top) = top {
            groups.push(Group::open(top)?);
            // Up to the root of the tree, which holds everything and has no controller's files.
            let around = top.ancestors().skip(1).map_while(|path| Group::open(path).ok());
            groups.extend(around);
        }
        let limited = groups.into_iter().map(|group| Limited { group, limit_bytes: None });
        Ok(Room {
            limited: limited.collect(),
            together,
            fellows: Vec::new(),
            limits_ns: None,
            zones_ns: None,
            zones: Zones::default(),
            headroom_bytes,
            page_bytes,
        })
    }

    /// The cgroup at the top.
    pub fn top(&self) -> Option<&Group> {
        self.limited.first().map(|limited| &limited.group)
    }

    /// What is lacking now, in bytes; of the machine only `under_pressure`.
    pub fn shortfall_bytes(&mut self, now_ns: u64, under_pressure: bool) -> u64 {
        let is_due = |at: Option<u64>| at.is_none_or(|at| now_ns.saturating_sub(at) >= LIMITS_NS);
        if is_due(self.limits_ns) {
            self.limited.iter_mut().for_each(Limited::read);
            let folders = self.together.iter().flat_map(|together| &together.folders);
            self.fellows = folders.filter_map(|folder| Group::open(folder).ok()).collect();
            self.limits_ns = Some(now_ns);
        }
        if under_pressure && is_due(self.zones_ns) {
            // Where it cannot be read, nothing is lacking of no memory.
            self.zones = std::fs::read_to_string("/proc/zoneinfo")
                .map(|text| parse_zones(&text, self.page_bytes))
                .unwrap_or_default();
            self.zones_ns = Some(now_ns);
        }
        let cgroups = self.limited.iter().filter_map(Limited::room);
        let together = self.together.as_ref().map(|together| {
            let held = self.fellows.iter().filter_map(|group| group.held_bytes().ok());
            (together.limit_bytes, together.limit_bytes.saturating_sub(held.sum()))
        });
        let machine = (under_pressure && self.zones.managed_bytes > 0)
            .then(|| (self.zones.managed_bytes, self.zones.room_bytes(free_bytes())));
        cgroups
            .chain(together)
            .chain(machine)
            .map(|(of, room)| {
                self.headroom_bytes.unwrap_or_else(|| headroom_bytes(of)).saturating_sub(room)
            })
            .max()
            .unwrap_or(0)
    }
}

/// What is free on the machine, in bytes.
fn free_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.freeram * u64::from(info.mem_unit)
}

/// What all zones of the machine come to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Zones {
    managed_bytes: u64,
    /// Free, but below a watermark, or kept from ordinary allocations.
    kept_bytes: u64,
}

impl Zones {
    fn room_bytes(&self, free_bytes: u64) -> u64 {
        free_bytes.saturating_sub(self.kept_bytes)
    }
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
    fn kept(&self) -> u64 {
        self.free.min(self.high.saturating_add(self.protection))
    }
}

/// Rule 3.
fn parse_zones(text: &str, page_bytes: u64) -> Zones {
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
    Zones {
        managed_bytes: zones.iter().map(|zone| zone.managed * page_bytes).sum(),
        kept_bytes: zones.iter().map(|zone| zone.kept() * page_bytes).sum(),
    }
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
        let zones = |text: &str| parse_zones(text, 4096);
        let pages = |managed: u64, kept: u64| Zones {
            managed_bytes: managed * 4096,
            kept_bytes: kept * 4096,
        };
        // Of 3840 pages 99 + 1934 do not count, of 5000 pages 3000 do not.
        assert_eq!(zones(ZONES), pages(503_840, 2033 + 3000));
        assert_eq!(zones(ZONES).room_bytes(8840 * 4096), (1807 + 2000) * 4096);
        let low = ZONES.replace("free     5000", "free     2999");
        assert_eq!(zones(&low).room_bytes(6839 * 4096), 1807 * 4096);
        assert_eq!(zones(""), Zones::default());
    }

    #[test]
    fn this_machine_has_zones() {
        let text = std::fs::read_to_string("/proc/zoneinfo").expect("it is Linux");
        let zones = parse_zones(&text, 4096);
        // Not more: what is free may exceed what is managed where a hypervisor takes and gives memory (a balloon).
        let free = free_bytes();
        assert!(
            zones.managed_bytes > 0 && zones.room_bytes(free) <= free,
            "{zones:?}, {free} free"
        );
    }

    #[test]
    fn without_a_top_only_the_machine_counts_and_only_under_pressure() {
        let mut room = Room::new(None, None, Some(1 << 62), 4096).expect("nothing to open");
        assert_eq!(room.shortfall_bytes(0, false), 0);
        let lacking = room.shortfall_bytes(0, true);
        assert!(lacking > 1 << 61 && lacking <= 1 << 62, "{lacking}");
    }
}
