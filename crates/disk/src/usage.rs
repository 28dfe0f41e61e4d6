//! What a cgroup did on each device, from its `io.stat`. Pure, but for [`read_usage`].

use crate::iocost::DeviceNumber;
use std::collections::BTreeMap;
use std::io;
use std::ops::Sub;
use std::path::Path;

/// What a cgroup and all below it did on one device since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes.
    pub read_bytes: u64,
    /// Bytes.
    pub written_bytes: u64,
    /// Requests.
    pub reads: u64,
    /// Requests.
    pub writes: u64,
    /// Bytes.
    pub discarded_bytes: u64,
    /// Requests.
    pub discards: u64,
}

impl DiskUsage {
    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }

    /// Requests of every kind.
    pub fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.discards)
    }
}

/// What was done between two looks. A device that went and came back counts anew: 0 at least.
impl Sub for DiskUsage {
    type Output = DiskUsage;

    fn sub(self, before: DiskUsage) -> DiskUsage {
        DiskUsage {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            discarded_bytes: self.discarded_bytes.saturating_sub(before.discarded_bytes),
            discards: self.discards.saturating_sub(before.discards),
        }
    }
}

/// What an `io.stat` says. Devices that have done nothing may be missing, or have a line without
/// numbers; what later kernels add is left out.
pub fn usage(text: &str) -> BTreeMap<DeviceNumber, DiskUsage> {
    text.lines()
        .filter_map(|line| {
            let (number, words) = line.split_once(' ')?;
            let mut usage = DiskUsage::default();
            for (key, value) in words.split_ascii_whitespace().filter_map(|w| w.split_once('=')) {
                let place = match key {
                    "rbytes" => &mut usage.read_bytes,
                    "wbytes" => &mut usage.written_bytes,
                    "rios" => &mut usage.reads,
                    "wios" => &mut usage.writes,
                    "dbytes" => &mut usage.discarded_bytes,
                    "dios" => &mut usage.discards,
                    _ => continue,
                };
                *place = value.parse().ok()?;
            }
            Some((number.parse().ok()?, usage))
        })
        .collect()
}

/// What the cgroup in a folder did, by device.
///
/// # Errors
/// When it is gone, or has no I/O controller.
pub fn read_usage(group: &Path) -> io::Result<BTreeMap<DeviceNumber, DiskUsage>> {
    std::fs::read_to_string(group.join("io.stat")).map(|text| usage(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    #[test]
    fn an_io_stat_is_read() {
        let text = "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=512 dios=3 cost.usage=77\n\
                    254:0 \n8:16 rbytes=x\nnonsense\n";
        let usage = usage(text);
        assert_eq!(usage.len(), 2, "{usage:?}");
        let sda = usage[&SDA];
        assert_eq!((sda.bytes(), sda.requests(), sda.discarded_bytes), (12_288, 6, 512));
        assert_eq!(usage[&DeviceNumber { major: 254, minor: 0 }], DiskUsage::default());
    }

    #[test]
    fn usage_never_goes_back() {
        let more = DiskUsage { reads: 5, read_bytes: 4096, ..DiskUsage::default() };
        let less = DiskUsage { reads: 2, ..DiskUsage::default() };
        assert_eq!((more - less).reads, 3);
        assert_eq!(less - more, DiskUsage::default());
    }
}
