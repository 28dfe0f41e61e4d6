//! A report on a disk's shares, for `allot doctor`. Pure.

use crate::filesystem::CgroupWriteback;
use crate::io_controller::{IoController, NoIoController};
use crate::iocost::Speed;
use crate::look::DiskFacts;

/// A report on a disk's shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// What enforces its weights, or why nothing can.
    pub controller: Result<IoController, NoIoController>,
    /// The disk, in one line.
    pub line: String,
    /// Uses of the disk that no share can hold, one sentence each.
    pub gaps: Vec<String>,
}

/// Reports on a disk whose speed may be known.
pub fn report(facts: &DiskFacts, speed: Option<&Speed>) -> DiskReport {
    let or_unknown = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
    let scheduler = facts.scheduler.as_ref();
    let scheduler =
        scheduler.map(|it| format!("{} (offered: {})", it.current, it.offered.join(", ")));
    let kind = facts.is_rotational.map(|is| if is { "it has a head" } else { "it has no head" });
    let line = format!(
        "{} ({}): scheduler {}; {} requests wait, the device takes {} at a time; {}",
        facts.name,
        facts.number,
        or_unknown(scheduler),
        or_unknown(facts.nr_requests.map(|count| count.to_string())),
        or_unknown(facts.hardware_depth.map(|count| count.to_string())),
        kind.unwrap_or("whether it has a head is unknown"),
    );
    let mut gaps = Vec::new();
    let (has_io, has_memory) = facts.controllers;
    if !has_io {
        gaps.push("the root of the cgroup tree offers no io controller".to_owned());
    } else if !has_memory {
        let lack = "the root of the cgroup tree offers no memory controller";
        gaps.push(format!("{lack}, so buffered writes count for nobody's share"));
    }
    for it in &facts.file_systems {
        if it.is_writable && it.writeback != CgroupWriteback::ByCgroup {
            gaps.push(format!("{} ({}): {}", it.mount_point.display(), it.kind, it.writeback));
        }
    }
    DiskReport { controller: IoController::choose(facts, speed), line, gaps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::FileSystem;
    use crate::{BfqOffer, DeviceNumber, Scheduler};

    fn facts() -> DiskFacts {
        let scheduler = Scheduler {
            current: "none".to_owned(),
            offered: vec!["none".to_owned(), "bfq".to_owned()],
        };
        let file_system = |kind: &str, is_writable| FileSystem {
            mount_point: format!("/{kind}").into(),
            kind: kind.to_owned(),
            source: "/dev/sda1".to_owned(),
            is_writable,
            writeback: CgroupWriteback::of(kind, ""),
        };
        DiskFacts {
            name: "sda".to_owned(),
            steps: vec![],
            number: DeviceNumber { major: 8, minor: 0 },
            identity: "serial 1".to_owned(),
            sequence: None,
            scheduler: Some(scheduler),
            nr_requests: Some(64),
            hardware_depth: None,
            is_rotational: Some(true),
            size_bytes: None,
            bfq: BfqOffer::Offered,
            has_iocost: true,
            controllers: (true, true),
            cost: (None, None),
            file_systems: vec![
                file_system("ext4", true),
                file_system("vfat", true),
                file_system("iso9660", false),
            ],
        }
    }

    #[test]
    fn what_is_known_and_what_is_not_is_said() {
        let mut facts = facts();
        let report = super::report(&facts, None);
        assert_eq!(
            report.line,
            "sda (8:0): scheduler none (offered: none, bfq); 64 requests wait, the device takes \
             unknown at a time; it has a head"
        );
        assert_eq!(report.controller, Ok(IoController::Bfq));
        assert_eq!(report.gaps.len(), 1, "{:?}", report.gaps);
        assert!(report.gaps[0].starts_with("/vfat (vfat): not known"), "{:?}", report.gaps);
        facts.controllers = (true, false);
        assert!(super::report(&facts, None).gaps[0].contains("no memory controller"));
        facts.controllers = (false, false);
        facts.is_rotational = None;
        let report = super::report(&facts, None);
        assert!(report.gaps[0].ends_with("no io controller"), "{:?}", report.gaps);
        assert!(report.line.ends_with("whether it has a head is unknown"));
    }
}
