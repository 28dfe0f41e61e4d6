//! Reads the description of this machine.

use crate::report::machine::MachineDescription;
use std::fs::read_to_string;

/// Describes this machine now. A value that cannot be read is `unknown` or 0.
pub(crate) fn describe(cpus: &[u32]) -> MachineDescription {
    let unknown = || "unknown".to_owned();
    let os = read_to_string("/etc/os-release").unwrap_or_default();
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let load = read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|first| first.parse().ok());
    MachineDescription {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        os: value(&os, "PRETTY_NAME", '=').unwrap_or_else(unknown),
        cpu_model: value(&info, "model name", ':').unwrap_or_else(unknown),
        cpus_online: info.lines().filter(|line| line.starts_with("processor")).count(),
        cpus: cpus.to_vec(),
        cpu_quota: quota(),
        load_average: load.unwrap_or(0.0),
    }
}

fn value(text: &str, key: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    let (_, value) = line.split_once(separator)?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// Returns the least limit from our control group upwards (version 2), or our own (version 1), in
/// CPUs.
fn quota() -> Option<f64> {
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut path = value(&groups, "0::", ':')?.trim_start_matches(':').to_owned();
    let mut least: Option<f64> = None;
    loop {
        let limit = read_to_string(format!("/sys/fs/cgroup{path}/cpu.max")).unwrap_or_default();
        if let Some(limit) = parse_limit(&limit) {
            least = Some(least.map_or(limit, |least| least.min(limit)));
        }
        match path.rfind('/') {
            Some(_) if path == "/" => break,
            Some(at) => path.truncate(at),
            None => break,
        }
    }
    let number = |name: &str| -> Option<f64> {
        read_to_string(format!("/sys/fs/cgroup/cpu/cpu.cfs_{name}_us")).ok()?.trim().parse().ok()
    };
    least.or_else(|| match (number("quota"), number("period")) {
        (Some(quota), Some(period)) if quota > 0.0 => Some(quota / period),
        _ => None,
    })
}

/// Reads `max 100000` or `150000 100000`.
fn parse_limit(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        assert_eq!(parse_limit("max 100000\n"), None);
        assert_eq!(parse_limit("150000 100000\n"), Some(1.5));
        assert_eq!(parse_limit(""), None);
    }

    #[test]
    fn this_machine() {
        let machine = describe(&[0]);
        assert!(machine.cpus_online > 0, "{machine:?}");
        assert!(machine.kernel.starts_with(|c: char| c.is_ascii_digit()), "{machine:?}");
    }
}
