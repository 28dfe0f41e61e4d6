//! How a cgroup gets a weight, or a limit, on one device: which file, and what is written. Pure.
//!
//! 1. **BFQ** reads `io.bfq.weight` (1 to 1000), **iocost** `io.weight` (1 to 10000). Both take
//!    `MAJ:MIN N` for one device and `MAJ:MIN default` to take it back. `io.bfq.weight` is there once
//!    BFQ is loaded; a device's line in `io.weight` is taken once iocost is on for it (before, the
//!    kernel answers EOPNOTSUPP). So devices are prepared first.
//! 2. **Hard caps** are lines of `io.max`, and only written where somebody asks: they leave a device
//!    idle while somebody waits.

use super::iocost::DeviceNumber;
use super::way::Way;
use std::ops::RangeInclusive;

/// A file of a cgroup, and what to write there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The file, in the cgroup's folder.
    pub file: &'static str,
    /// What to write.
    pub text: String,
}

impl Way {
    /// The file of a cgroup's weights.
    pub fn weight_file(&self) -> &'static str {
        match self {
            Way::Iocost(_) => "io.weight",
            Way::Bfq => "io.bfq.weight",
        }
    }

    /// Weights that the kernel takes.
    pub fn weights(&self) -> RangeInclusive<u32> {
        match self {
            Way::Iocost(_) => 1..=10_000,
            Way::Bfq => 1..=1000,
        }
    }

    /// Gives a cgroup a weight on a device.
    ///
    /// # Panics
    /// When the weight is outside [`Way::weights`]: a broken invariant.
    pub fn weigh(&self, number: DeviceNumber, weight: u32) -> Order {
        assert!(self.weights().contains(&weight), "the kernel takes no weight of {weight}");
        Order { file: self.weight_file(), text: format!("{number} {weight}") }
    }

    /// Takes it back: the cgroup's own weight for all devices counts again.
    pub fn unweigh(&self, number: DeviceNumber) -> Order {
        Order { file: self.weight_file(), text: format!("{number} default") }
    }

    /// Brings a cgroup's file back to what it said of a device, from what was read of it before.
    pub fn reweigh(&self, number: DeviceNumber, found: &str) -> Order {
        match self.weight_in(number, found) {
            Some(weight) => self.weigh(number, weight),
            None => self.unweigh(number),
        }
    }

    /// The weight on a device, in what was read of a cgroup's file; `None` where that is the
    /// cgroup's own for all devices, or is none that this kernel could have taken.
    pub fn weight_in(&self, number: DeviceNumber, text: &str) -> Option<u32> {
        let name = number.to_string();
        let line = text.lines().find_map(|line| {
            let (device, weight) = line.split_once(' ')?;
            (device == name).then_some(weight)
        });
        line?.trim().parse().ok().filter(|weight| self.weights().contains(weight))
    }
}

/// The file of hard caps.
pub const LIMIT_FILE: &str = "io.max";

/// Hard caps of a cgroup on a device. What is `None` is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes read, a second.
    pub read_bytes: Option<u64>,
    /// Bytes written, a second.
    pub written_bytes: Option<u64>,
    /// Reads a second.
    pub reads: Option<u64>,
    /// Writes a second.
    pub writes: Option<u64>,
}

impl Limits {
    /// Sets all four; [`Limits::default`] takes them back. The kernel takes no 0: that becomes 1.
    pub fn order(&self, number: DeviceNumber) -> Order {
        let word = |limit: Option<u64>| match limit {
            Some(limit) => limit.max(1).to_string(),
            None => "max".to_owned(),
        };
        let text = format!(
            "{number} rbps={} wbps={} riops={} wiops={}",
            word(self.read_bytes),
            word(self.written_bytes),
            word(self.reads),
            word(self.writes)
        );
        Order { file: LIMIT_FILE, text }
    }

    /// One of so many equal parts.
    #[must_use]
    pub fn part(&self, count: u64) -> Limits {
        self.each(|limit| limit.map(|limit| (limit / count.max(1)).max(1)))
    }

    /// Of each the less.
    #[must_use]
    pub fn stricter(&self, other: Limits) -> Limits {
        let less = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Limits {
            read_bytes: less(self.read_bytes, other.read_bytes),
            written_bytes: less(self.written_bytes, other.written_bytes),
            reads: less(self.reads, other.reads),
            writes: less(self.writes, other.writes),
        }
    }

    fn each(&self, how: impl Fn(Option<u64>) -> Option<u64>) -> Limits {
        Limits {
            read_bytes: how(self.read_bytes),
            written_bytes: how(self.written_bytes),
            reads: how(self.reads),
            writes: how(self.writes),
        }
    }

    /// Those on a device in what was read of a cgroup's `io.max`, to be noted before a change.
    pub fn found(number: DeviceNumber, text: &str) -> Limits {
        let line = super::iocost::line_of(text, number).unwrap_or_default();
        let value = |key: &str| {
            line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
        };
        Limits {
            read_bytes: value("rbps"),
            written_bytes: value("wbps"),
            reads: value("riops"),
            writes: value("wiops"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::iocost::{Model, Speed};
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const MODEL: Model =
        Model { rbps: 1, rseqiops: 1, rrandiops: 1, wbps: 1, wseqiops: 1, wrandiops: 1 };
    const COST: Way = Way::Iocost(Speed { read_latency_us: 1, write_latency_us: 1, model: MODEL });

    #[test]
    fn each_way_has_its_file() {
        assert_eq!(COST.weigh(SDA, 10_000).text, "8:0 10000");
        assert_eq!(COST.weigh(SDA, 1).file, "io.weight");
        let order = Order { file: "io.bfq.weight", text: "8:0 default".to_owned() };
        assert_eq!(Way::Bfq.unweigh(SDA), order);
    }

    #[test]
    #[should_panic(expected = "no weight of 1001")]
    fn bfq_ends_at_a_thousand() {
        Way::Bfq.weigh(SDA, 1001);
    }

    #[test]
    fn a_weight_comes_back_as_it_was_found() {
        let found = "default 100\n8:16 7\n8:0 300\n";
        assert_eq!(Way::Bfq.weight_in(SDA, found), Some(300));
        assert_eq!(Way::Bfq.reweigh(SDA, found), Way::Bfq.weigh(SDA, 300));
        assert_eq!(Way::Bfq.reweigh(SDA, "default 100\n8:16 7\n"), Way::Bfq.unweigh(SDA));
        assert_eq!(Way::Bfq.weight_in(SDA, "default 100\n8:0 5000\n"), None, "out of range");
    }

    #[test]
    fn limits_are_parted_and_the_stricter_counts() {
        let limits = Limits { read_bytes: Some(100), reads: Some(1), ..Limits::default() };
        let third = Limits { read_bytes: Some(33), reads: Some(1), ..Limits::default() };
        assert_eq!(limits.part(3), third);
        assert_eq!(limits.part(0), limits);
        let other = Limits { read_bytes: Some(7), writes: Some(5), ..Limits::default() };
        let both =
            Limits { read_bytes: Some(7), reads: Some(1), writes: Some(5), ..Limits::default() };
        assert_eq!(limits.stricter(other), both);
        assert_eq!(limits.stricter(Limits::default()), limits);
    }

    #[test]
    fn limits_come_back_as_they_were_found() {
        assert_eq!(Limits::default().order(SDA).text, "8:0 rbps=max wbps=max riops=max wiops=max");
        let limits = Limits { read_bytes: Some(1 << 20), writes: Some(0), ..Limits::default() };
        assert_eq!(limits.order(SDA).text, "8:0 rbps=1048576 wbps=max riops=max wiops=1");
        let text = "8:0 rbps=1048576 wbps=max riops=max wiops=12\n";
        let found = Limits::found(SDA, text);
        assert_eq!(format!("{}\n", found.order(SDA).text), text);
        assert_eq!(Limits::found(SDA, "8:16 rbps=1 wbps=1 riops=1 wiops=1"), Limits::default());
    }
}
