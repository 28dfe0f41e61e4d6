//! The specification of a workload process: its command line, one word of JSON.

use crate::workloads::database::Database;
use crate::workloads::disk::DiskWork;
use crate::workloads::interactive::InteractiveProgram;
use crate::workloads::locks::Lock;
use crate::workloads::memory::Access;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// The specification of a workload process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkloadSpec {
    /// The shared page.
    pub page: PathBuf,
    /// Number of workloads that share it.
    pub slots: usize,
    /// The slot of this one.
    pub slot: usize,
    /// Its name, shown by ps and top.
    pub name: String,
    /// The process that starts it; it ends with that one.
    pub parent: u32,
    /// CPUs on which it may run; none: all.
    pub cpus: Vec<u32>,
    /// The uid to run as, where that is not the caller.
    pub uid: Option<u32>,
    pub nice: i32,
    /// Its end, ns from the start.
    pub end_ns: u64,
    pub work: Work,
}

/// A workload's work. All but `build` and `script` go on until they are ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Does integer arithmetic by a schedule: (ns from the start, whether it burns from then on).
    Burn(Vec<(u64, bool)>),
    /// Wakes by the clock, computes, and notes its latency.
    Play {
        player: InteractiveProgram,
        /// The file of its [`Notes`](crate::workloads::notes::Notes).
        notes: PathBuf,
    },
    /// Runs a short program over and over; an iteration is one process.
    Spawn(Vec<String>),
    /// Reads a file line by line, over and over, without a process for it; an iteration is a pass.
    ReadLines(PathBuf),
    /// Writes a listing of a directory tree into a file; an iteration is one entry.
    List { tree: PathBuf, to: PathBuf },
    /// Streams over more memory than caches hold, and takes and returns memory in turn; an
    /// iteration is a pass.
    Memory,
    /// Reads a file over and over; an iteration is 1 MiB.
    Read {
        /// A file that the workload makes before the start.
        file: PathBuf,
        mib: u64,
    },
    /// Writes a file over and over, with an fsync after each pass; an iteration is 1 MiB.
    Write {
        /// A file that the workload makes.
        file: PathBuf,
        mib: u64,
    },
    /// Reads random pages of a file into random pages of a buffer (paper 1, 6.3); an iteration is
    /// one page.
    ReadAtRandom {
        /// A file that the workload makes before the start, unless it exists with that size. None
        /// of it is in memory at the start.
        file: PathBuf,
        mib: u64,
        buffer_mib: u64,
        by: Access,
    },
    /// Writes to random pages of anonymous memory; an iteration is one page.
    Allocate { mib: u64 },
    /// Compiles a file over and over; an iteration is one compilation.
    Compile { source: PathBuf, object: PathBuf },
    /// Runs `make` once in a directory, notes its duration, then sleeps.
    Build { dir: PathBuf, notes: PathBuf },
    /// Runs a shell script in a folder once, then sleeps.
    Script { script: String, folder: PathBuf },
    /// Loads a disk.
    Disk(DiskWork),
    /// Looks up random entries of an embedded database that maps its file (paper 1, 6.6); an
    /// iteration is one entry.
    LookUp(Database),
    /// Takes a lock, works while it holds it, and releases it; an iteration is one hold.
    Hold(Lock),
    /// Takes the same lock whenever it is held, and notes the time that this took.
    Wait {
        lock: Lock,
        /// The slot of its holder.
        holder: usize,
        notes: PathBuf,
    },
}

impl Work {
    /// Returns the word that ps shows.
    fn word(&self) -> &'static str {
        match self {
            Work::Burn(_) => "burn",
            Work::Play { .. } => "play",
            Work::Spawn(_) => "spawn",
            Work::ReadLines(_) => "read-lines",
            Work::List { .. } => "list",
            Work::Memory => "memory",
            Work::Read { .. } => "read",
            Work::Write { .. } => "write",
            Work::ReadAtRandom { .. } => "read-at-random",
            Work::Allocate { .. } => "allocate",
            Work::Compile { .. } => "compile",
            Work::Build { .. } => "build",
            Work::Script { .. } => "script",
            Work::Disk(work) => work.load.word(),
            Work::LookUp(_) => "look-up",
            Work::Hold(_) => "hold",
            Work::Wait { .. } => "wait",
        }
    }
}

impl WorkloadSpec {
    /// Writes it as the arguments after `workload`.
    pub fn to_args(&self) -> Vec<OsString> {
        let json = serde_json::to_string(self).expect("a specification is JSON");
        vec![self.work.word().into(), json.into()]
    }

    /// Reads the arguments after `workload`.
    pub fn parse(args: &[OsString]) -> Result<WorkloadSpec, String> {
        let [_, json] = args else {
            return Err("it takes a word and its specification".to_owned());
        };
        let json = json.to_str().ok_or("its specification is not text")?;
        let spec: WorkloadSpec =
            serde_json::from_str(json).map_err(|error| format!("its specification: {error}"))?;
        if spec.slot >= spec.slots {
            return Err(format!("slot {} of {}", spec.slot, spec.slots));
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(work: Work) -> WorkloadSpec {
        WorkloadSpec {
            page: "/tmp/p q".into(),
            slots: 3,
            slot: 2,
            name: "B3".into(),
            parent: 17,
            cpus: vec![0, 1],
            uid: Some(65533),
            nice: -5,
            end_ns: 30,
            work,
        }
    }

    #[test]
    fn orders_survive_the_command_line() {
        let path = PathBuf::from("/a b/\"c");
        for work in [
            Work::Burn(vec![(0, false), (15, true)]),
            Work::Play { player: InteractiveProgram::Audio, notes: path.clone() },
            Work::Spawn(vec!["/bin/cat".into(), "/proc/interrupts".into()]),
            Work::Wait { lock: Lock::PiFutex(7), holder: 0, notes: path.clone() },
            Work::ReadAtRandom { file: path, mib: 16, buffer_mib: 4, by: Access::Map },
        ] {
            let spec = spec(work);
            assert_eq!(WorkloadSpec::parse(&spec.to_args()), Ok(spec));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut wrong = spec(Work::Memory);
        wrong.slots = 2;
        let wrong = wrong.to_args();
        for args in [vec!["burn".into()], vec!["burn".into(), "{}".into()], wrong] {
            assert!(WorkloadSpec::parse(&args).is_err(), "{args:?}");
        }
    }
}
