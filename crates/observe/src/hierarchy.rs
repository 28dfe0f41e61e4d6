//! A mounted hierarchy of cgroups, of version 1 by a controller or of version 2: where its cgroups are, and who is in
//! them.

use crate::mountinfo::Mount;
use std::io;
use std::path::{Path, PathBuf};

/// The version of a hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// Version 1, with this controller.
    V1(&'static str),
    /// Version 2.
    V2,
}

impl CgroupVersion {
    /// Returns the cgroup of a process, as a path that begins with `/`; `None` when it is gone, or out of our sight.
    pub fn cgroup_of(self, pid: u32) -> Option<String> {
        self.path_in(&format!("/proc/{pid}/cgroup"))
    }

    /// Returns the cgroup of a thread of a process; `None` when it is gone, or out of our sight.
    pub fn cgroup_of_thread(self, pid: u32, tid: u32) -> Option<String> {
        self.path_in(&format!("/proc/{pid}/task/{tid}/cgroup"))
    }

    fn path_in(self, file: &str) -> Option<String> {
        self.path_from(&std::fs::read_to_string(file).ok()?)
    }

    /// Parses a `/proc/PID/cgroup`.
    pub(crate) fn path_from(self, text: &str) -> Option<String> {
        let is_it = |number: &str, controllers: &str| match self {
            CgroupVersion::V1(controller) => controllers.split(',').any(|name| name == controller),
            CgroupVersion::V2 => number == "0" && controllers.is_empty(),
        };
        let path = text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers) = (fields.next()?, fields.next()?);
            fields.next().filter(|_| is_it(number, controllers))
        })?;
        let hidden = path.starts_with("/..") || path.ends_with(" (deleted)");
        (!hidden).then(|| path.to_owned())
    }
}

/// Returns the cgroup of a process in version 2 ([`CgroupVersion::cgroup_of`]).
pub fn cgroup_of(pid: u32) -> Option<String> {
    CgroupVersion::V2.cgroup_of(pid)
}

/// A mounted hierarchy of cgroups. A cgroup is named by its path from `/`, as in `/proc/PID/cgroup`, or by its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    mount: PathBuf,
    version: CgroupVersion,
}

impl Hierarchy {
    /// The hierarchy that is mounted here.
    pub fn new(mount: PathBuf, version: CgroupVersion) -> Hierarchy {
        Hierarchy { mount, version }
    }

    /// Finds a hierarchy among mounts; the first, where it is mounted more than once.
    pub fn among(mounts: &[Mount], version: CgroupVersion) -> Option<Hierarchy> {
        let is_it = |mount: &&Mount| match version {
            CgroupVersion::V1(controller) => {
                mount.kind == "cgroup" && mount.options.iter().any(|(name, _)| name == controller)
            }
            CgroupVersion::V2 => mount.kind == "cgroup2",
        };
        let mount = mounts.iter().find(is_it)?;
        Some(Hierarchy::new(mount.mount_point.clone(), version))
    }

    /// The hierarchy that is mounted here: of version 2, or of version 1 with this controller.
    pub fn at(mount: PathBuf, controller: &'static str) -> Hierarchy {
        let version = match mount.join("cgroup.controllers").exists() {
            true => CgroupVersion::V2,
            false => CgroupVersion::V1(controller),
        };
        Hierarchy { mount, version }
    }

    /// Finds the hierarchy of version 2 where it is mounted on ordinary machines.
    pub fn unified() -> Option<Hierarchy> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let mount = mounts.into_iter().find(|mount| mount.join("cgroup.controllers").exists())?;
        Some(Hierarchy::new(mount, CgroupVersion::V2))
    }

    /// Where it is mounted.
    pub fn mount(&self) -> &Path {
        &self.mount
    }

    /// Its version.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// Returns the folder of a cgroup path.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// Returns the cgroup path of a folder.
    pub fn path_of(&self, folder: &Path) -> String {
        format!("/{}", folder.strip_prefix(&self.mount).unwrap_or(folder).display())
    }

    /// Returns the cgroup of a process ([`CgroupVersion::cgroup_of`]).
    pub fn cgroup_of(&self, pid: u32) -> Option<String> {
        self.version.cgroup_of(pid)
    }
}

/// Lists the cgroups in a cgroup, by their folders; none of one that is gone.
pub fn cgroups_in(group: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(group).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Lists a cgroup and all below it, by their folders, inner ones first.
pub fn cgroups_inner_first(group: &Path) -> Vec<PathBuf> {
    let mut all = vec![group.to_owned()];
    let mut next = 0;
    while let Some(group) = all.get(next) {
        let inner = cgroups_in(group);
        all.extend(inner);
        next += 1;
    }
    all.reverse();
    all
}

/// Lists the processes in a cgroup itself; none of one that is gone. One that has no number here is left out.
pub fn processes_in(group: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
}

/// Lists the processes in a cgroup and below it; such as have no number here are 0.
///
/// # Errors
/// When it is gone, or cannot be read.
pub fn processes_below(directory: &Path) -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let text = match std::fs::read_to_string(directory.join("cgroup.procs")) {
            // One whose threads are shared out among others: its processes are told above.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => String::new(),
            text => text?,
        };
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_the_hierarchy() {
        let cpu = |text| CgroupVersion::V1("cpu").path_from(text);
        let apart = "9:name=systemd:/\n2:cpuacct:/b\n1:cpu:/a/b:c\n0::/u\n";
        assert_eq!(cpu(apart).as_deref(), Some("/a/b:c"));
        assert_eq!(cpu("4:cpu,cpuacct:/\n0::/u\n").as_deref(), Some("/"));
        assert_eq!(cpu("1:cpu:/../x\n"), None, "out of sight");
        assert_eq!(cpu("1:cpu:/x (deleted)\n"), None);
        assert_eq!(cpu("0::/user.slice\n"), None, "version 2 only");
        let unified = |text| CgroupVersion::V2.path_from(text);
        assert_eq!(unified(apart).as_deref(), Some("/u"));
        assert_eq!(unified("0::/../x\n"), None, "out of sight");
        assert_eq!(unified("0::/x (deleted)\n"), None);
        assert_eq!(unified("1:cpu:/a\n3::/x\n"), None, "version 1 only");
    }

    #[test]
    fn a_hierarchy_is_found_by_its_controller() {
        let mounts = crate::mounts_of(
            "30 29 0:43 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             31 29 0:44 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
             32 29 0:45 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             33 29 0:46 / /other rw - cgroup2 cgroup2 rw\n",
        );
        let found = |version| Hierarchy::among(&mounts, version).map(|it| it.mount);
        let place = |place: &str| Some(PathBuf::from(place));
        assert_eq!(found(CgroupVersion::V1("cpu")), place("/sys/fs/cgroup/cpu"));
        assert_eq!(found(CgroupVersion::V1("freezer")), place("/sys/fs/cgroup/freezer"));
        assert_eq!(found(CgroupVersion::V1("memory")), None);
        assert_eq!(found(CgroupVersion::V2), place("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn paths_and_folders_name_the_same_cgroup() {
        let tree = Hierarchy::new("/mnt".into(), CgroupVersion::V2);
        for (path, folder) in [("/", "/mnt"), ("/a", "/mnt/a"), ("/a/b", "/mnt/a/b")] {
            assert_eq!(tree.folder(path), Path::new(folder));
            assert_eq!(tree.path_of(Path::new(folder)), path);
        }
    }

    #[test]
    fn cgroups_and_processes_are_listed() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path();
        assert_eq!(Hierarchy::at(top.to_owned(), "cpu").version(), CgroupVersion::V1("cpu"));
        let put = |file: &str, text: &str| {
            std::fs::write(top.join(file), text).expect("it is written");
        };
        put("cgroup.controllers", "cpu\n");
        assert_eq!(Hierarchy::at(top.to_owned(), "cpu").version(), CgroupVersion::V2);
        put("cgroup.procs", "7\n");
        std::fs::create_dir_all(top.join("below/inner")).expect("directories");
        put("below/cgroup.procs", "8\n0\n9\n");
        put("below/inner/cgroup.procs", "");
        assert_eq!(cgroups_in(top), [top.join("below")]);
        let all = [top.join("below/inner"), top.join("below"), top.to_owned()];
        assert_eq!(cgroups_inner_first(top), all);
        assert_eq!(processes_in(&top.join("below")), [8, 9]);
        assert_eq!(processes_in(&top.join("none")), [0; 0]);
        assert_eq!(processes_below(top).expect("it is there"), [7, 8, 0, 9]);
        assert!(processes_below(&top.join("none")).is_err());
    }
}
