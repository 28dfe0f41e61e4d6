//! The kernel's form of a hard cap: the line of a disk in a cgroup's `io.max`.

use disk::{DeviceNumber, line_of};
use ledger::DiskLimit;

/// The file of hard caps.
pub(super) const FILE: &str = "io.max";

/// Returns the line that sets all four; that of [`DiskLimit::default`] takes them back. The kernel takes no 0: that becomes 1.
pub(super) fn line(number: DeviceNumber, limit: DiskLimit) -> String {
    let word = |limit: Option<u64>| match limit {
        Some(limit) => limit.max(1).to_string(),
        None => "max".to_owned(),
    };
    format!(
        "{number} rbps={} wbps={} riops={} wiops={}",
        word(limit.read_bytes),
        word(limit.written_bytes),
        word(limit.reads),
        word(limit.writes)
    )
}

/// Parses what a disk's line of the file says; a disk without a line is not limited.
pub(super) fn parse(number: DeviceNumber, text: &str) -> DiskLimit {
    let line = line_of(text, number).unwrap_or_default();
    let value = |key: &str| {
        line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
    };
    DiskLimit {
        read_bytes: value("rbps"),
        written_bytes: value("wbps"),
        reads: value("riops"),
        writes: value("wiops"),
    }
}

#[cfg(test)]
mod tests {
    use super::{line, parse};
    use disk::DeviceNumber;
    use ledger::DiskLimit;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };

    #[test]
    fn limits_come_back_as_they_were_found() {
        let none = DiskLimit::default();
        assert_eq!(line(SDA, none), "8:0 rbps=max wbps=max riops=max wiops=max");
        let limit = DiskLimit { read_bytes: Some(1 << 20), writes: Some(0), ..none };
        assert_eq!(line(SDA, limit), "8:0 rbps=1048576 wbps=max riops=max wiops=1");
        let text = "8:0 rbps=1048576 wbps=max riops=max wiops=12\n";
        assert_eq!(format!("{}\n", line(SDA, parse(SDA, text))), text);
        assert_eq!(parse(SDA, "8:16 rbps=1 wbps=1 riops=1 wiops=1"), none);
    }
}
