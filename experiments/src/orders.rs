//! What a workload process is told: its command line, as one word of JSON.

use crate::disk_loads::DiskWork;
use crate::look_ups::Database;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;

/// What a workload is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// The shared page.
    pub page: PathBuf,
    /// How many workloads share it.
    pub slots: usize,
    /// Which of them this is.
    pub slot: usize,
    /// Its name, shown by ps and top.
    pub name: String,
    /// Who started it; it ends with that one.
    pub parent: u32,
    /// Where it may run.
    pub cpus: Vec<u32>,
    /// Whom to run as.
    pub uid: Option<u32>,
    /// Its nice value.
    pub nice: i32,
    /// Its end, ns from the start.
    pub end_ns: u64,
    /// Its work.
    pub work: Work,
}

/// A workload's work. All but `build` go on until they are ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Integer arithmetic by a schedule: (ns from the start, whether it burns from then on).
    Burn(Vec<(u64, bool)>),
    /// Wakes by the clock, computes, and notes how late it was.
    Play {
        /// Which simulation.
        player: Player,
        /// Where it notes: [`crate::page::Notes`].
        notes: PathBuf,
    },
    /// Runs a short program over and over; an iteration is one process.
    Spawn(Vec<String>),
    /// Reads a file line by line, over and over, without a process for it; an iteration is a pass.
    ReadLines(PathBuf),
    /// Writes a listing of a directory tree into a file; an iteration is one entry.
    List {
        /// The tree.
        tree: PathBuf,
        /// The file.
        to: PathBuf,
    },
    /// Streams over more memory than caches hold, and takes and gives back memory in turn; an
    /// iteration is a pass.
    Memory,
    /// Reads a file of so many MiB over and over; an iteration is 1 MiB.
    Read {
        /// Made by the workload before the start.
        file: PathBuf,
        /// Its size.
        mib: u64,
    },
    /// Writes such a file over and over, with an fsync after each pass; an iteration is 1 MiB.
    Write {
        /// Made by the workload.
        file: PathBuf,
        /// Its size.
        mib: u64,
    },
    /// Reads random 4 KiB of a file into random 4 KiB of a buffer (paper 1, 6.3); an iteration is one.
    ReadAtRandom {
        /// Made by the workload before the start, if it is not there with that size; not in memory at the start.
        file: PathBuf,
        /// Its size.
        mib: u64,
        /// The buffer's.
        buffer_mib: u64,
        /// How.
        by: Access,
    },
    /// Writes to random pages of so much anonymous memory; an iteration is one.
    Allocate {
        /// How much.
        mib: u64,
    },
    /// Compiles a file over and over; an iteration is one compilation.
    Compile {
        /// The source.
        source: PathBuf,
        /// What becomes of it.
        object: PathBuf,
    },
    /// Runs `make` once in a directory, notes how long it took, then sleeps.
    Build {
        /// The directory.
        dir: PathBuf,
        /// Where it notes.
        notes: PathBuf,
    },
    /// Loads a disk.
    Disk(DiskWork),
    /// Looks up random entries of an embedded database that maps its file (paper 1, 6.6); an
    /// iteration is one.
    LookUp(Database),
    /// Takes a lock, works while it holds it, and lets it go; an iteration is one hold.
    Hold(Lock),
    /// Takes the same lock whenever it is held, and notes how long that took.
    Wait {
        /// The lock.
        lock: Lock,
        /// The slot of who holds it.
        holder: usize,
        /// Where it notes.
        notes: PathBuf,
    },
}

/// The interactive programs of paper 3, section 5.4, as Interbench simulates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Player {
    /// A window that is dragged: from 0 to 100 % of the CPU and back to 0.
    X,
    /// 60 pictures a second, 40 % of the CPU.
    Video,
    /// 60 pictures a second, 80 % of the CPU.
    Gaming,
    /// Every 50 ms, 5 % of the CPU.
    Audio,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Access {
    /// By read(2): its pages are in the kernel's cache alone.
    Read,
    /// By mmap(2): its pages are the process's.
    Map,
}

/// A lock that is held for long. Files are passed on as open descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Lock {
    /// The position of an open file that several share (a `mutex`), held while the kernel reads.
    Position(RawFd),
    /// A file's inode lock (an `rwsem`), held while the kernel writes.
    Inode(RawFd),
    /// A futex that passes on priorities, in the shared page; held for so many ns of CPU time.
    PiFutex(u64),
}

impl Work {
    /// The word that ps shows.
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
            Work::Disk(work) => work.load.word(),
            Work::LookUp(_) => "look-up",
            Work::Hold(_) => "hold",
            Work::Wait { .. } => "wait",
        }
    }
}

impl Orders {
    /// As a command line, after `workload`.
    pub fn to_args(&self) -> Vec<OsString> {
        let json = serde_json::to_string(self).expect("orders are JSON");
        vec![self.work.word().into(), json.into()]
    }

    /// From a command line.
    pub fn parse(args: &[OsString]) -> Result<Orders, String> {
        let [_, json] = args else {
            return Err("it takes a word and its orders".to_owned());
        };
        let json = json.to_str().ok_or("its orders are not text")?;
        let orders: Orders =
            serde_json::from_str(json).map_err(|error| format!("its orders: {error}"))?;
        if orders.slot >= orders.slots {
            return Err(format!("slot {} of {}", orders.slot, orders.slots));
        }
        Ok(orders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(work: Work) -> Orders {
        Orders {
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
            Work::Play { player: Player::Audio, notes: path.clone() },
            Work::Spawn(vec!["/bin/cat".into(), "/proc/interrupts".into()]),
            Work::Wait { lock: Lock::PiFutex(7), holder: 0, notes: path.clone() },
            Work::ReadAtRandom { file: path, mib: 16, buffer_mib: 4, by: Access::Map },
        ] {
            let orders = orders(work);
            assert_eq!(Orders::parse(&orders.to_args()), Ok(orders));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut wrong = orders(Work::Memory);
        wrong.slots = 2;
        let wrong = wrong.to_args();
        for args in [vec!["burn".into()], vec!["burn".into(), "{}".into()], wrong] {
            assert!(Orders::parse(&args).is_err(), "{args:?}");
        }
    }
}
