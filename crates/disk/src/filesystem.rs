//! File systems on a device, and whether what is written to them through the page cache counts for
//! the cgroup that wrote it.
//!
//! The kernel does not show which file systems do (the flag `SB_I_CGROUPWB` of a superblock), so this
//! is a list from its source, and what is not on it is said to be unknown. Where writeback is not by
//! cgroup, or the cgroup has no memory controller, buffered writes count for the root: no weight holds
//! them back. Reads, O_DIRECT and mmap faults count right everywhere.

use std::path::PathBuf;

/// A file system on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// Where it is mounted, the first place in the kernel's list.
    pub mount_point: PathBuf,
    /// Its type, as in `ext4`.
    pub kind: String,
    /// What was mounted, as in `/dev/sda1`.
    pub source: String,
    /// Whether it can be written.
    pub is_writable: bool,
    /// Whether buffered writes count for who wrote.
    pub writeback: CgroupWriteback,
}

/// Whether buffered writes count for the cgroup that wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupWriteback {
    /// They do.
    ByCgroup,
    /// They do not: they go through a journal of data, which is one for all.
    DataJournal,
    /// It is not on the list of those that do.
    Unknown,
}

impl std::fmt::Display for CgroupWriteback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CgroupWriteback::ByCgroup => "buffered writes count for who wrote",
            CgroupWriteback::DataJournal => {
                "data=journal: buffered writes count for nobody's share"
            }
            CgroupWriteback::Unknown => {
                "not known to have cgroup writeback: buffered writes may count for nobody's share"
            }
        })
    }
}

impl CgroupWriteback {
    /// Of a file system of this type with these options.
    pub fn of(kind: &str, options: &str) -> CgroupWriteback {
        let journals_data = options.split(',').any(|option| option == "data=journal");
        match kind {
            "ext4" if journals_data => CgroupWriteback::DataJournal,
            "ext4" | "ext2" | "btrfs" | "f2fs" | "xfs" => CgroupWriteback::ByCgroup,
            _ => CgroupWriteback::Unknown,
        }
    }
}

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The device, or 0:N where the file system has no single one.
    pub number: String,
    /// The file system.
    pub file_system: FileSystem,
}

/// The lines of a mountinfo. What cannot be read is left out.
pub(crate) fn mounts(text: &str) -> Vec<Mount> {
    let read = |mount: observe::Mount| {
        let is_writable = mount.options.iter().all(|(name, _)| name != "ro");
        let with_values = mount.options.iter();
        let with_values =
            with_values.filter_map(|(name, value)| Some(format!("{name}={}", value.as_deref()?)));
        let options = with_values.collect::<Vec<_>>().join(",");
        let writeback = CgroupWriteback::of(&mount.kind, &options);
        let observe::Mount { device, mount_point, kind, source, .. } = mount;
        let file_system = FileSystem { mount_point, kind, source, is_writable, writeback };
        Mount { number: device, file_system }
    };
    observe::mounts_of(text).into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                    30 29 8:2 / /a\\040b ro - ext4 /dev/sda2 ro,data=journal\n\
                    nonsense\n\
                    31 29 0:44 / /home rw - btrfs /dev/sdb rw,space_cache=v2\n\
                    32 29 8:17 / /boot rw - vfat /dev/sdb1 rw\n";
        let mounts = mounts(text);
        let seen: Vec<_> = mounts
            .iter()
            .map(|mount| {
                let it = &mount.file_system;
                let place = it.mount_point.to_str().expect("text");
                (mount.number.as_str(), place, it.source.as_str(), it.is_writable, it.writeback)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("8:1", "/", "/dev/sda1", true, CgroupWriteback::ByCgroup),
                ("8:2", "/a b", "/dev/sda2", false, CgroupWriteback::DataJournal),
                ("0:44", "/home", "/dev/sdb", true, CgroupWriteback::ByCgroup),
                ("8:17", "/boot", "/dev/sdb1", true, CgroupWriteback::Unknown),
            ]
        );
    }

    #[test]
    fn only_what_is_known_is_said() {
        assert_eq!(CgroupWriteback::of("xfs", "rw"), CgroupWriteback::ByCgroup);
        assert_eq!(CgroupWriteback::of("ext4", "rw,data=ordered"), CgroupWriteback::ByCgroup);
        assert_eq!(CgroupWriteback::of("ext4", "rw,data=journal"), CgroupWriteback::DataJournal);
        assert_eq!(CgroupWriteback::of("zfs", ""), CgroupWriteback::Unknown);
    }
}
