//! The instances of resources that this machine has: disks and network interfaces.

use ledger::{KindName, Resource};
use std::path::Path;

/// Where the kernel lists the instances of a kind, and what a person calls one.
fn listed(kind: KindName) -> Option<(&'static Path, &'static str)> {
    match kind {
        KindName::DISK => Some((Path::new("/sys/class/block"), "disk")),
        KindName::NET => Some((Path::new("/sys/class/net"), "network interface")),
        _ => None,
    }
}

/// Why a resource is not there; `None` where it is, or where the kernel does not say.
pub fn why_missing(resource: &Resource) -> Option<String> {
    let (directory, what) = listed(resource.kind())?;
    let name = resource.instance()?;
    let found = std::fs::read_dir(directory).ok()?;
    let mut names: Vec<String> =
        found.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if names.iter().any(|known| known == name) {
        return None;
    }
    names.sort();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Some(format!("there is no {what} `{name}`; this machine has {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_list_is_missing() {
        let there = |word: &str| why_missing(&word.parse().expect("a resource")).is_none();
        assert!(there("net:lo") || !Path::new("/sys/class/net/lo").exists());
        assert!(!there("net:nosuch0") || !Path::new("/sys/class/net").exists());
        assert!(there("cpu") && there("token:licences"));
    }
}
