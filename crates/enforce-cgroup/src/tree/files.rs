//! Settings of cgroups, one file operation a function.

use std::path::Path;
use undo::cgroup::read;

/// Reads `cpu.weight`; `None` where the cgroup has no CPU controller.
pub(crate) fn weight(group: &Path) -> Option<u32> {
    read(group, "cpu.weight").ok()?.parse().ok()
}

/// Reads the CPU time that a cgroup and all below it used since it was made, in ns.
pub(crate) fn usage_ns(group: &Path) -> Option<u64> {
    let text = read(group, "cpu.stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.parse::<u64>().ok().map(|usage_us| usage_us * 1000)
}

/// Files of the controllers that we turn on, with their text while nobody has set anything. Files that are missing say
/// nothing.
const AS_MADE: [(&str, &str); 9] = [
    ("cpu.weight", "100"),
    ("cpu.idle", "0"),
    ("memory.min", "0"),
    ("memory.low", "0"),
    ("memory.high", "max"),
    ("memory.max", "max"),
    ("memory.swap.max", "max"),
    ("io.weight", "default 100"),
    ("io.max", ""),
];

/// Returns whether nobody has set anything of these controllers on a cgroup.
pub(crate) fn is_as_made(group: &Path, controllers: &[&str]) -> bool {
    let is = |file: &str, as_made: &dyn Fn(&str) -> bool| {
        let ours = file.split_once('.').is_some_and(|(name, _)| controllers.contains(&name));
        !ours || read(group, file).map_or(true, |text| as_made(&text))
    };
    AS_MADE.iter().all(|(file, as_made)| is(file, &|text| text == *as_made))
        && is("cpu.max", &|text| text.starts_with("max"))
}

/// Returns whether a controller is on for the children of a cgroup.
pub(crate) fn controls_children(group: &Path, controller: &str) -> bool {
    read(group, "cgroup.subtree_control")
        .is_ok_and(|list| list.split_whitespace().any(|name| name == controller))
}

/// Lists a cgroup path and those around it, outermost first, the root left out.
pub(crate) fn and_around(path: &str) -> Vec<String> {
    let mut all: Vec<String> = Path::new(path)
        .ancestors()
        .filter_map(Path::to_str)
        .filter(|path| *path != "/" && !path.is_empty())
        .map(str::to_owned)
        .collect();
    all.reverse();
    all
}
