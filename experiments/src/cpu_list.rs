//! Lists of CPUs as in `0-1,3`.

use crate::error::ExperimentError;

/// The kernel's own limit (`CPU_SETSIZE` of the C library).
const CPUS_MAX: u32 = 1024;

/// Reads a list of CPUs such as `0-1,3`.
pub fn parse_cpus(text: &str) -> Result<Vec<u32>, ExperimentError> {
    let bad = || {
        ExperimentError::BadOption(format!("`{text}` is no list of CPUs; write one as in 0-1,3"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| bad())?;
        let last: u32 = last.trim().parse().map_err(|_| bad())?;
        if first > last || last >= CPUS_MAX {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a list of CPUs as [`parse_cpus`] reads it.
pub fn show_cpus(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let show = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(show).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_round_trip() {
        for (text, cpus) in [("0", vec![0]), ("0-2,5", vec![0, 1, 2, 5]), ("7,9", vec![7, 9])] {
            assert_eq!(parse_cpus(text).unwrap(), cpus);
            assert_eq!(show_cpus(&cpus), text);
        }
        for text in ["", "x", "3-1", "1,,2", "99999", "-1"] {
            assert!(parse_cpus(text).is_err(), "{text}");
        }
    }
}
