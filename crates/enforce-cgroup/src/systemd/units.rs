//! Names of systemd's units, as cgroup paths and as systemd calls them. Pure.

/// A weight of a unit that has none of its own.
pub(crate) const UNSET: u64 = u64::MAX;
/// Least time between two changes of a unit: systemd writes a file for each.
pub(crate) const UNIT_EVERY_NS: u64 = 1_000_000_000;

/// A scope that is to be made. Without D-Bus nobody can make it.
#[cfg_attr(not(feature = "systemd"), expect(dead_code, reason = "only D-Bus reads all of it"))]
#[derive(Debug)]
pub(crate) struct Scope {
    pub name: String,
    /// The slice that it is in.
    pub slice: &'static str,
    /// Its CPU weight.
    pub weight: u64,
}

/// Lists the units of systemd that a cgroup path leads through, outermost first, each as its path. The list ends at the
/// first service or scope: what is below that is not systemd's (delegation).
///
/// ```text
/// /user.slice/user-1000.slice/session-2.scope/x -> three units
/// ```
pub(crate) fn units_of(cgroup: &str) -> Vec<String> {
    const ENDS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];
    let mut units = Vec::new();
    let mut path = String::new();
    for part in cgroup.split('/').filter(|part| !part.is_empty()) {
        let ends = ENDS.iter().any(|end| part.ends_with(end));
        if !ends && !part.ends_with(".slice") {
            break;
        }
        path.push('/');
        path.push_str(part);
        units.push(path.clone());
        if ends {
            break;
        }
    }
    units
}

/// Returns the name of a unit from its cgroup path.
pub(crate) fn unit_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    // systemd escapes names that the kernel's own files have, with one `_`.
    name.strip_prefix('_').unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_end_at_the_first_service_or_scope() {
        let session = "/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(
            units_of(session),
            ["/user.slice", "/user.slice/user-1000.slice", session].map(str::to_owned)
        );
        let delegated = "/user.slice/user-1000.slice/user@1000.service/app.slice/a.service";
        assert_eq!(
            units_of(delegated).last().map(String::as_str),
            Some("/user.slice/user-1000.slice/user@1000.service")
        );
        assert_eq!(units_of("/init.scope"), ["/init.scope"]);
        assert!(units_of("/").is_empty());
        assert!(units_of("/machine/x.slice").is_empty(), "not systemd's");
        assert_eq!(unit_name("/system.slice/_cpu.service"), "cpu.service");
    }
}
