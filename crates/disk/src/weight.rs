//! Files of a cgroup, and what is written there for a weight on one device. Pure.
//!
//! 1. **BFQ** reads `io.bfq.weight` (1 to 1000), **iocost** `io.weight` (1 to 10000). Both take
//!    `MAJ:MIN N` for one device and `MAJ:MIN default` to take it back. `io.bfq.weight` is there once
//!    BFQ is loaded; a device's line in `io.weight` is taken once iocost is on for it (before, the
//!    kernel answers EOPNOTSUPP). So devices are prepared first.

use crate::io_controller::IoController;
use crate::iocost::DeviceNumber;
use std::ops::RangeInclusive;

/// A write to a file of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWrite {
    /// The file, in the cgroup's folder.
    pub file: &'static str,
    /// The text to write.
    pub text: String,
}

impl IoController {
    /// Returns the name of the file of a cgroup's weights.
    pub fn weight_file(&self) -> &'static str {
        match self {
            IoController::Iocost(_) => "io.weight",
            IoController::Bfq => "io.bfq.weight",
        }
    }

    /// Returns the weights that the kernel takes.
    pub fn weights(&self) -> RangeInclusive<u32> {
        match self {
            IoController::Iocost(_) => 1..=10_000,
            IoController::Bfq => 1..=1000,
        }
    }

    /// Gives a cgroup a weight on a device.
    ///
    /// # Panics
    /// When the weight is outside [`IoController::weights`]: a broken invariant.
    pub fn weigh(&self, number: DeviceNumber, weight: u32) -> FileWrite {
        assert!(self.weights().contains(&weight), "the kernel takes no weight of {weight}");
        FileWrite { file: self.weight_file(), text: format!("{number} {weight}") }
    }

    /// Takes a weight back: the cgroup's own weight for all devices counts again.
    pub fn unweigh(&self, number: DeviceNumber) -> FileWrite {
        FileWrite { file: self.weight_file(), text: format!("{number} default") }
    }

    /// Brings a cgroup's file back to what it said of a device, from its text before the change.
    pub fn reweigh(&self, number: DeviceNumber, found: &str) -> FileWrite {
        match self.weight_in(number, found) {
            Some(weight) => self.weigh(number, weight),
            None => self.unweigh(number),
        }
    }

    /// Parses the weight on a device from the text of a cgroup's file; `None` where that is the cgroup's own for all
    /// devices, or is none that this kernel could have taken.
    pub fn weight_in(&self, number: DeviceNumber, text: &str) -> Option<u32> {
        let name = number.to_string();
        let line = text.lines().find_map(|line| {
            let (device, weight) = line.split_once(' ')?;
            (device == name).then_some(weight)
        });
        line?.trim().parse().ok().filter(|weight| self.weights().contains(weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iocost::{Model, Speed};

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const MODEL: Model =
        Model { rbps: 1, rseqiops: 1, rrandiops: 1, wbps: 1, wseqiops: 1, wrandiops: 1 };
    const COST: IoController =
        IoController::Iocost(Speed { read_latency_us: 1, write_latency_us: 1, model: MODEL });

    #[test]
    fn each_way_has_its_file() {
        assert_eq!(COST.weigh(SDA, 10_000).text, "8:0 10000");
        assert_eq!(COST.weigh(SDA, 1).file, "io.weight");
        let order = FileWrite { file: "io.bfq.weight", text: "8:0 default".to_owned() };
        assert_eq!(IoController::Bfq.unweigh(SDA), order);
    }

    #[test]
    #[should_panic(expected = "no weight of 1001")]
    fn bfq_ends_at_a_thousand() {
        IoController::Bfq.weigh(SDA, 1001);
    }

    #[test]
    fn a_weight_comes_back_as_it_was_found() {
        let found = "default 100\n8:16 7\n8:0 300\n";
        assert_eq!(IoController::Bfq.weight_in(SDA, found), Some(300));
        assert_eq!(IoController::Bfq.reweigh(SDA, found), IoController::Bfq.weigh(SDA, 300));
        assert_eq!(
            IoController::Bfq.reweigh(SDA, "default 100\n8:16 7\n"),
            IoController::Bfq.unweigh(SDA)
        );
        assert_eq!(
            IoController::Bfq.weight_in(SDA, "default 100\n8:0 5000\n"),
            None,
            "out of range"
        );
    }
}
