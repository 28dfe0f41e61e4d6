//! What is mounted where, of /proc/PID/mountinfo (proc_pid_mountinfo(5)).

use std::path::PathBuf;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device's numbers, as in `8:1`; 0:N where the file system has no single device.
    pub device: String,
    /// The directory.
    pub mount_point: PathBuf,
    /// The kind of file system, as in `ext4`.
    pub kind: String,
    /// What is mounted, as in `/dev/sda1`.
    pub source: String,
    /// The file system's own options, with their values where they have some.
    pub options: Vec<(String, Option<String>)>,
}

/// The mounts that this process sees.
///
/// # Errors
/// When /proc cannot be read.
pub fn mounts() -> std::io::Result<Vec<Mount>> {
    std::fs::read_to_string("/proc/self/mountinfo").map(|text| mounts_of(&text))
}

/// Whether `/proc` shows users their own processes alone (`hidepid`).
pub fn hides_processes() -> bool {
    mounts().is_ok_and(|mounts| mounts.iter().any(hides))
}

fn hides(mount: &Mount) -> bool {
    let shown = |value: &Option<String>| matches!(value.as_deref(), Some("0" | "off"));
    mount.kind == "proc"
        && mount.mount_point == std::path::Path::new("/proc")
        && mount.options.iter().any(|(name, value)| name == "hidepid" && !shown(value))
}

/// The mounts of a mountinfo's text. Lines that cannot be read are left out.
pub fn mounts_of(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // Behind the mount's options stand any number of optional fields, and a dash that ends them.
    let (place, file_system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (device, mount_point) = (place.next()?, place.nth(1)?);
    let mut file_system = file_system.split(' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    let option = |option: &str| match option.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (option.to_owned(), None),
    };
    Some(Mount {
        device: device.to_owned(),
        mount_point: unescaped(mount_point).into(),
        kind: kind.to_owned(),
        source: unescaped(source),
        options: file_system.next().unwrap_or("").split(',').map(option).collect(),
    })
}

/// The kernel writes blanks, line ends and backslashes of a path as `\\ooo`, octal.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = "29 1 8:1 / / rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                    30 29 8:2 / /a\\040b\\134c ro - ext4 /dev/sda\\0402 ro,data=journal\n\
                    nonsense\n\
                    31 29 0:44 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";
        let mounts = mounts_of(text);
        let [root, odd, cgroup] = &mounts[..] else { panic!("{mounts:?}") };
        assert_eq!((root.device.as_str(), root.mount_point.to_str()), ("8:1", Some("/")));
        assert_eq!((root.kind.as_str(), root.source.as_str()), ("ext4", "/dev/sda1"));
        let option = ("errors".to_owned(), Some("remount-ro".to_owned()));
        assert_eq!(root.options, [("rw".to_owned(), None), option]);
        assert_eq!(odd.mount_point.to_str(), Some("/a b\\c"));
        assert_eq!(odd.source, "/dev/sda 2");
        let names: Vec<&str> = cgroup.options.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["rw", "cpu", "cpuacct"]);
    }

    #[test]
    fn this_machine_has_a_root() {
        let mounts = mounts().expect("/proc is mounted");
        assert!(mounts.iter().any(|mount| mount.mount_point.to_str() == Some("/")));
    }

    #[test]
    fn paths_are_plain() {
        for (written, plain) in [
            ("/a\\040b\\011", "/a b\t"),
            ("/a\\134040", "/a\\040"),
            ("/\\9x\\", "/\\9x\\"),
            ("/ä\\12", "/ä\\12"),
        ] {
            assert_eq!(unescaped(written), plain);
        }
    }

    #[test]
    fn a_proc_that_hides_processes_is_known_by_its_options() {
        let hides_with = |options: &str| {
            let line = format!("22 27 0:21 / /proc rw,nosuid shared:12 - proc proc rw{options}\n");
            mounts_of(&line).iter().any(hides)
        };
        assert!(hides_with(",hidepid=2") && hides_with(",gid=4,hidepid=invisible"));
        assert!(!hides_with("") && !hides_with(",hidepid=0") && !hides_with(",hidepid=off"));
    }
}
