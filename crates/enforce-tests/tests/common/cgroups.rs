//! A cgroup v2 tree that nobody owns, for tests that change it. One test at a time.

use super::{ACTOR, TestProcess, kill, stop};
use enforce_cgroup::{Cgroup, CgroupOptions};
use enforce_cgroup::{CgroupOwner, available};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A machine to test on, and what was there before.
pub struct Lab {
    pub mount: PathBuf,
    pub name: String,
    pub before: Vec<PathBuf>,
    controllers: String,
    pub folder: tempfile::TempDir,
}

impl Lab {
    /// `None`, and a line that says so, where this machine cannot run the test.
    pub fn here(test: &str) -> Option<Lab> {
        let root = match available() {
            Ok(root) if root.owner == CgroupOwner::Nobody => root,
            Ok(root) => {
                eprintln!("SKIP {test}: {root}");
                return None;
            }
            Err(why) => {
                eprintln!("SKIP {test}: {why}");
                return None;
            }
        };
        let name = format!("allot-test-{}", std::process::id());
        Some(Lab {
            before: groups(&root.mount),
            controllers: read(&root.mount, "cgroup.subtree_control"),
            mount: root.mount,
            name,
            folder: tempfile::tempdir().expect("a folder"),
        })
    }

    pub fn record(&self) -> PathBuf {
        self.folder.path().join("cgroups")
    }

    pub fn enforcer(&self) -> Cgroup {
        Cgroup::start(self.options()).expect("an enforcer")
    }

    /// In cgroups of the test's own.
    pub fn options(&self) -> CgroupOptions {
        let root = available().expect("as before");
        let mut options = CgroupOptions::new(root, ACTOR.into(), self.record());
        options.name.clone_from(&self.name);
        options.period_ns = 20_000_000;
        options
    }

    pub fn top(&self) -> PathBuf {
        self.mount.join(&self.name)
    }

    /// Nothing of ours is there, and nobody is where they were not.
    #[track_caller]
    pub fn is_as_before(&self) {
        assert_eq!(groups(&self.mount), self.before, "no cgroup was left");
        assert_eq!(read(&self.mount, "cgroup.subtree_control"), self.controllers);
    }
}

pub fn read(group: &Path, file: &str) -> String {
    std::fs::read_to_string(group.join(file)).unwrap_or_default().trim_end().to_owned()
}

pub fn write(group: &Path, file: &str, text: &str) {
    std::fs::write(group.join(file), text)
        .unwrap_or_else(|error| panic!("{}/{file}: {error}", group.display()));
}

/// All cgroups below one, in order.
pub fn groups(group: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(groups(&entry.path()));
            all.push(entry.path());
        }
    }
    all.sort();
    all
}

pub fn place_of(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("0::"));
    line.unwrap_or_default().to_owned()
}

/// A process that enforces, and its guardian.
pub struct Enforcing {
    pub child: Child,
    pub guardian: u32,
}

impl Enforcing {
    pub fn start(lab: &Lab, processes: &[&TestProcess]) -> Enforcing {
        Enforcing::start_with(lab, processes, |_| {})
    }

    /// The same, after changes to how it is started.
    pub fn start_with(
        lab: &Lab,
        processes: &[&TestProcess],
        prepare: impl FnOnce(&mut Command),
    ) -> Enforcing {
        let mut command = Command::new(ACTOR);
        command.arg("enforce-cgroup").arg(&lab.name).arg(lab.record());
        command.args(processes.iter().map(|process| process.pid().to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        prepare(&mut command);
        let mut child = command.spawn().expect("the actor runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufReader::new(out).read_line(&mut line).expect("it answers");
        Enforcing { child, guardian: line.trim().parse().expect("the guardian's pid") }
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Its guardian first, whose death it does not notice.
    #[track_caller]
    pub fn kill_with_guardian(&mut self) {
        stop(self.child.id());
        kill(self.guardian);
        self.kill();
    }
}
