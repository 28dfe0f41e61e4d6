//! The lines of iocost's two files at the root of the cgroup tree, `io.cost.model` and
//! `io.cost.qos`: what the kernel shows, and what it takes. Pure.
//!
//! 1. A line is `MAJ:MIN key=value …`, one a device. Whoever writes names what is to change.
//! 2. **What is read cannot always be written.** `ctrl=auto` shows the numbers that the kernel chose;
//!    written back, they would be a user's, and stay. So of an automatic line only `ctrl=auto` goes
//!    back (and `enable`, which is separate).
//! 3. **A device without a line** was never touched: it comes back as not enabled and automatic. Its
//!    line stays until the device goes, which changes nothing: the kernel forgets no device.
//! 4. Numbers are compared as numbers: `95` is written, `95.00` is read.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A device's major and minor number. Of a whole disk: cgroups know nothing smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DeviceNumber {
    /// The driver's.
    pub major: u32,
    /// The driver's own for this device.
    pub minor: u32,
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl From<DeviceNumber> for String {
    fn from(number: DeviceNumber) -> String {
        number.to_string()
    }
}

/// It is no `MAJ:MIN`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no device number; one looks like 8:0")]
pub struct NoDeviceNumber(pub String);

impl std::str::FromStr for DeviceNumber {
    type Err = NoDeviceNumber;

    fn from_str(text: &str) -> Result<DeviceNumber, NoDeviceNumber> {
        let numbers = text.trim().split_once(':').and_then(|(major, minor)| {
            Some(DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        numbers.ok_or_else(|| NoDeviceNumber(text.to_owned()))
    }
}

impl TryFrom<String> for DeviceNumber {
    type Error = NoDeviceNumber;

    fn try_from(text: String) -> Result<DeviceNumber, NoDeviceNumber> {
        text.parse()
    }
}

/// How fast a device is, as the kernel's linear cost model takes it (Documentation/admin-guide/
/// cgroup-v2.rst, `io.cost.model`). Each number is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Bytes a second read in large pieces, in order.
    pub rbps: u64,
    /// Reads of 4 KiB a second, in order.
    pub rseqiops: u64,
    /// Reads of 4 KiB a second, anywhere.
    pub rrandiops: u64,
    /// Bytes a second written in large pieces, in order.
    pub wbps: u64,
    /// Writes of 4 KiB a second, in order.
    pub wseqiops: u64,
    /// Writes of 4 KiB a second, anywhere.
    pub wrandiops: u64,
}

impl Model {
    /// The six numbers with their names, in the kernel's order.
    pub fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("rbps", self.rbps),
            ("rseqiops", self.rseqiops),
            ("rrandiops", self.rrandiops),
            ("wbps", self.wbps),
            ("wseqiops", self.wseqiops),
            ("wrandiops", self.wrandiops),
        ]
    }

    /// Whether each number is one that the kernel takes.
    pub fn is_sound(&self) -> bool {
        self.fields().iter().all(|(_, value)| *value > 0)
    }

    /// The same device at so many thousandths of its speed, each number at least 1.
    #[must_use]
    pub fn scaled(&self, thousandths: u64) -> Model {
        let scale = |value: u64| {
            let scaled = u128::from(value) * u128::from(thousandths) / 1000;
            u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
        };
        Model {
            rbps: scale(self.rbps),
            rseqiops: scale(self.rseqiops),
            rrandiops: scale(self.rrandiops),
            wbps: scale(self.wbps),
            wseqiops: scale(self.wseqiops),
            wrandiops: scale(self.wrandiops),
        }
    }

    /// The line that makes it a device's model.
    pub fn line(&self, number: DeviceNumber) -> String {
        let mut line = format!("{number} ctrl=user model=linear");
        for (name, value) in self.fields() {
            line.push_str(&format!(" {name}={value}"));
        }
        line
    }
}

/// How fast a device is, and how long one request takes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speed {
    /// Mean time of one read of 4 KiB, anywhere, with no other beside it, in µs.
    pub read_latency_us: u64,
    /// The same of a write.
    pub write_latency_us: u64,
    /// What the cost model takes.
    pub model: Model,
}

/// What the kernel holds a device to: `io.cost.qos`. Percentiles and rates in hundredths of a
/// percent, latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Percentile of read latencies that is looked at; 0 looks at none.
    pub read_percentile: u32,
    /// What that may be, in µs.
    pub read_latency_us: u64,
    /// Percentile of write latencies.
    pub write_percentile: u32,
    /// What that may be, in µs.
    pub write_latency_us: u64,
    /// The least rate, as a part of the model's speed.
    pub least_rate: u32,
    /// The greatest.
    pub greatest_rate: u32,
}

impl Quality {
    /// The line that turns iocost on for a device.
    pub fn line(&self, number: DeviceNumber) -> String {
        let percent = |hundredths: u32| format!("{}.{:02}", hundredths / 100, hundredths % 100);
        format!(
            "{number} enable=1 ctrl=user rpct={} rlat={} wpct={} wlat={} min={} max={}",
            percent(self.read_percentile),
            self.read_latency_us,
            percent(self.write_percentile),
            self.write_latency_us,
            percent(self.least_rate),
            percent(self.greatest_rate),
        )
    }
}

/// The line of a device in what was read of either file; `None` where it has none.
pub fn line_of(text: &str, number: DeviceNumber) -> Option<&str> {
    let name = number.to_string();
    text.lines().map(str::trim_end).find(|line| line.split(' ').next() == Some(name.as_str()))
}

/// What to write so that `io.cost.model` shows this line again (rules 2 and 3).
pub fn model_to_write(found: Option<&str>, number: DeviceNumber) -> String {
    match found {
        Some(line) if !is_automatic(line) => line.to_owned(),
        _ => format!("{number} ctrl=auto"),
    }
}

/// What to write so that `io.cost.qos` shows this line again (rules 2 and 3).
pub fn quality_to_write(found: Option<&str>, number: DeviceNumber) -> String {
    match found {
        Some(line) if !is_automatic(line) => line.to_owned(),
        Some(line) => {
            let enable = values(line).get("enable").copied().unwrap_or("0").to_owned();
            format!("{number} enable={enable} ctrl=auto")
        }
        None => format!("{number} enable=0 ctrl=auto"),
    }
}

/// Whether a line that was read says what another one did that was written (rule 4). What only one
/// of them names does not count, nor do the numbers of an automatic one.
pub fn says(read: &str, written: &str) -> bool {
    let (read, written) = (values(read), values(written));
    written.iter().all(|(key, value)| match read.get(key) {
        Some(is) => is == value || number(is).is_some_and(|is| Some(is) == number(value)),
        None => true,
    })
}

fn is_automatic(line: &str) -> bool {
    values(line).get("ctrl") == Some(&"auto")
}

fn values(line: &str) -> BTreeMap<&str, &str> {
    line.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect()
}

/// In hundredths. The kernel shows at most two decimals.
fn number(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let hundredths: u64 = format!("{decimals:0<2}").get(..2)?.parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(100)?.checked_add(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
    const AUTO_MODEL: &str = "8:0 ctrl=auto model=linear rbps=245855193 rseqiops=61575 \
         rrandiops=6946 wbps=141365009 wseqiops=33716 wrandiops=26796";
    const AUTO_QUALITY: &str =
        "8:0 enable=0 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00";

    fn model() -> Model {
        Model { rbps: 1000, rseqiops: 20, rrandiops: 3, wbps: 4, wseqiops: 5, wrandiops: 1 }
    }

    #[test]
    fn numbers_survive_being_written() {
        assert_eq!("8:0".parse(), Ok(SDA));
        assert_eq!(SDA.to_string(), "8:0");
        for wrong in ["", "8", "8:", ":0", "8:0:1", "a:b", "-1:0", "8:99999999999"] {
            assert!(wrong.parse::<DeviceNumber>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_model_becomes_a_line() {
        assert_eq!(
            model().line(SDA),
            "8:0 ctrl=user model=linear rbps=1000 rseqiops=20 rrandiops=3 wbps=4 wseqiops=5 \
             wrandiops=1"
        );
        let half = model().scaled(500);
        assert_eq!((half.rbps, half.rseqiops, half.wrandiops), (500, 10, 1), "never 0");
        assert_eq!(Model { rbps: u64::MAX, ..model() }.scaled(1000).rbps, u64::MAX);
        assert!(model().is_sound());
        assert!(!Model { wbps: 0, ..model() }.is_sound());
    }

    #[test]
    fn a_quality_becomes_a_line() {
        let quality = Quality {
            read_percentile: 9500,
            read_latency_us: 100_000,
            write_percentile: 9905,
            write_latency_us: 7,
            least_rate: 100,
            greatest_rate: 1_000_000,
        };
        let line = quality.line(SDA);
        assert_eq!(
            line,
            "8:0 enable=1 ctrl=user rpct=95.00 rlat=100000 wpct=99.05 wlat=7 min=1.00 max=10000.00"
        );
        assert!(says(&line, &line));
    }

    #[test]
    fn the_line_of_a_device_is_found() {
        let text = "8:16 enable=1\n8:0 enable=0 ctrl=auto\n";
        assert_eq!(line_of(text, SDA), Some("8:0 enable=0 ctrl=auto"));
        assert_eq!(line_of(text, DeviceNumber { major: 8, minor: 1 }), None, "8:16 is not 8:1");
        assert_eq!(line_of("", SDA), None);
    }

    #[test]
    fn what_was_automatic_comes_back_automatic() {
        assert_eq!(model_to_write(Some(AUTO_MODEL), SDA), "8:0 ctrl=auto");
        assert_eq!(model_to_write(None, SDA), "8:0 ctrl=auto");
        assert_eq!(quality_to_write(Some(AUTO_QUALITY), SDA), "8:0 enable=0 ctrl=auto");
        let enabled = AUTO_QUALITY.replace("enable=0", "enable=1");
        assert_eq!(quality_to_write(Some(&enabled), SDA), "8:0 enable=1 ctrl=auto");
        assert_eq!(quality_to_write(None, SDA), "8:0 enable=0 ctrl=auto");
    }

    #[test]
    fn what_was_a_users_comes_back_as_it_was() {
        let line = model().line(SDA);
        assert_eq!(model_to_write(Some(&line), SDA), line);
        let quality = AUTO_QUALITY.replace("auto", "user");
        assert_eq!(quality_to_write(Some(&quality), SDA), quality);
    }

    #[test]
    fn lines_are_compared_by_what_they_say() {
        assert!(says(AUTO_QUALITY, "8:0 enable=0 ctrl=auto"));
        assert!(says("8:0 rpct=95.00 min=1.00", "8:0 rpct=95 min=1"));
        assert!(!says("8:0 rpct=95.01", "8:0 rpct=95"));
        assert!(!says("8:0 enable=1", "8:0 enable=0"));
        assert!(!says("8:0 ctrl=user", "8:0 ctrl=auto"));
    }
}
