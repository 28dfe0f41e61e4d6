//! What was changed on cgroups that are not ours: the record that outlives us.
//!
//! A file of lines, each written with one call **before** the change that it is about. A half
//! line at the end is a change that was not made. Our own cgroups are no part of it: they say
//! themselves where their processes were found.

use super::systemd::Manager;
use super::{CgroupOwner, CgroupRoot, tree};
use crate::disk::{DeviceNumber, FoundDisk};
use crate::registry;
use ledger::ProcessIdentity;
use observe::ProcessHandle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    /// Marks the file.
    allot_cgroups: u32,
    boot: [u64; 2],
    mount: PathBuf,
    /// Our own cgroups, below the mount.
    ours: Vec<String>,
    systemd: bool,
}

const VERSION: u32 = 2;

/// Something as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Found {
    /// The `cpu.weight` of a cgroup.
    Weight {
        /// Its path, from `/`.
        cgroup: String,
        /// What it was.
        weight: u32,
    },
    /// A setting of a unit of systemd.
    Unit {
        /// Its name.
        unit: String,
        /// Which, as systemd calls it.
        property: String,
        /// What it was; the greatest number for none.
        value: u64,
    },
    /// The weights of a unit of systemd on single devices.
    UnitDisks {
        /// Its name.
        unit: String,
        /// Devices, as they were named, with their weights.
        weights: Vec<(String, u64)>,
    },
    /// A disk's scheduler and settings.
    Disk(Box<FoundDisk>),
    /// The disk of this name was given back since: what was found of it before is of no use.
    DiskGivenBack {
        /// Its name.
        name: String,
    },
    /// What a file of the kernel said.
    Setting {
        /// Which.
        path: PathBuf,
        /// What to write so that it is as it was.
        text: String,
    },
    /// What a cgroup was limited to on a disk.
    Limit {
        /// Its `io.max`.
        path: PathBuf,
        /// The disk.
        number: DeviceNumber,
        /// What to write so that it is as it was.
        text: String,
    },
    /// That was given back since: what was found before is of no use.
    LimitGivenBack {
        /// The `io.max`.
        path: PathBuf,
        /// The disk.
        number: DeviceNumber,
    },
    /// A process that was not found where the others of its cgroup were.
    Process {
        /// Which.
        process: ProcessIdentity,
        /// Where it was, from `/`.
        cgroup: String,
    },
    /// The children of a cgroup were without a controller.
    NoController {
        /// Its path, from `/`.
        cgroup: String,
        /// Which.
        controller: String,
    },
}

/// What was given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupsRestored {
    /// Processes moved to where they were found.
    pub processes: usize,
    /// Cgroups of ours that were removed.
    pub removed: usize,
    /// Weights of cgroups and units that are not ours.
    pub weights: usize,
    /// What could not be given back, in words.
    pub failed: Vec<String>,
}

/// The file.
#[derive(Debug)]
pub(super) struct Record {
    file: File,
    header: Header,
    /// Cgroups and units that are in it.
    known: BTreeSet<String>,
}

impl Record {
    /// A new record in this file, which must not be in use and is emptied.
    pub fn create(path: &Path, root: &CgroupRoot, ours: &[String]) -> io::Result<Record> {
        let mut file = registry::open(path)?;
        registry::lock(&file)?;
        let header = Header {
            allot_cgroups: VERSION,
            boot: registry::boot_id()?,
            mount: root.mount.clone(),
            ours: ours.to_vec(),
            systemd: root.owner == CgroupOwner::Systemd,
        };
        file.set_len(0)?;
        file.rewind()?;
        put_line(&mut file, &header)?;
        Ok(Record { file, header, known: BTreeSet::new() })
    }

    /// The file, for the guardian to inherit, with its lock.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Whether something was noted, by its key.
    pub fn knows(&self, key: &str) -> bool {
        self.known.contains(key)
    }

    /// Notes how something is before it is changed for the first time.
    pub fn note(&mut self, found: &Found) -> io::Result<()> {
        if !self.known.contains(&found.key()) {
            self.append(found)?;
        }
        Ok(())
    }

    fn append(&mut self, found: &Found) -> io::Result<()> {
        self.file.seek(SeekFrom::End(0))?;
        put_line(&mut self.file, found)?;
        self.known.insert(found.key());
        Ok(())
    }

    /// Gives back everything, and forgets it if that went well.
    pub fn restore(&mut self) -> CgroupsRestored {
        let restored = restore_from(&mut self.file);
        if restored.failed.is_empty() {
            self.known.clear();
            let emptied = self.file.set_len(0).and_then(|()| self.file.rewind());
            if let Err(error) = emptied.and_then(|()| put_line(&mut self.file, &self.header)) {
                tracing::warn!(%error, "the record of cgroups cannot be emptied");
            }
        }
        restored
    }
}

impl crate::disk::Notes for Record {
    fn note_disk(&mut self, found: &FoundDisk) -> io::Result<()> {
        // Each time that it is prepared it is found anew: it was given back in between.
        self.append(&Found::Disk(Box::new(found.clone())))
    }
}

impl Record {
    /// Notes that a disk is as it was found, and is somebody else's to change from now on.
    pub fn note_given_back(&mut self, name: &str) -> io::Result<()> {
        self.append(&Found::DiskGivenBack { name: name.to_owned() })
    }

    /// Notes that a limit is as it was found; what is found when it is set again is noted anew.
    pub fn note_limit_given_back(&mut self, path: &Path, number: DeviceNumber) -> io::Result<()> {
        let path = path.to_owned();
        self.append(&Found::LimitGivenBack { path: path.clone(), number })?;
        self.known.remove(&Found::limit_key(&path, number));
        Ok(())
    }
}

impl Found {
    fn key(&self) -> String {
        match self {
            Found::Weight { cgroup, .. } => Found::weight_key(cgroup),
            Found::Unit { unit, property, .. } => Found::unit_key(unit, property),
            Found::UnitDisks { unit, .. } => Found::unit_disks_key(unit),
            Found::Disk(disk) => format!("disk {}", disk.name),
            Found::DiskGivenBack { name } => format!("given back {name}"),
            Found::Setting { path, .. } => Found::setting_key(path),
            Found::Limit { path, number, .. } => Found::limit_key(path, *number),
            Found::LimitGivenBack { path, number } => {
                format!("given back {}", Found::limit_key(path, *number))
            }
            Found::NoController { cgroup, controller } => {
                format!("controller {controller} {cgroup}")
            }
            Found::Process { process, .. } => format!("process {process}"),
        }
    }

    pub fn weight_key(cgroup: &str) -> String {
        format!("weight {cgroup}")
    }

    pub fn unit_key(unit: &str, property: &str) -> String {
        format!("unit {unit} {property}")
    }

    pub fn unit_disks_key(unit: &str) -> String {
        format!("unit disks {unit}")
    }

    fn limit_key(path: &Path, number: DeviceNumber) -> String {
        format!("limit {number} {}", path.display())
    }

    pub fn setting_key(path: &Path) -> String {
        format!("setting {}", path.display())
    }
}

fn put_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    file.write_all(text.as_bytes())
}

/// Whether an open file is a record of ours.
pub(crate) fn is_record(file: &mut File) -> bool {
    header_and_lines(file).is_ok_and(|found| found.is_some())
}

fn header_and_lines(file: &mut File) -> io::Result<Option<(Header, Vec<Found>)>> {
    const MOST_BYTES: u64 = 64 << 20;
    let mut bytes = Vec::new();
    file.rewind()?;
    Read::by_ref(file).take(MOST_BYTES).read_to_end(&mut bytes)?;
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let header = lines.next().and_then(|line| serde_json::from_slice::<Header>(line).ok());
    let Some(header) = header.filter(|header| header.allot_cgroups == VERSION) else {
        return Ok(None);
    };
    Ok(Some((header, lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())))
}

/// Restores what a record in a file tells, where an allotd and its guardian are both gone, and
/// removes the file. Nothing to do where there is no such file.
///
/// # Errors
/// When the file cannot be read, or an allotd still uses it.
pub fn restore_cgroup_leftovers(path: &Path) -> io::Result<CgroupsRestored> {
    if !path.exists() {
        return Ok(CgroupsRestored::default());
    }
    let mut file = registry::open(path)?;
    registry::lock(&file)?;
    let restored = restore_from(&mut file);
    if restored.failed.is_empty() {
        std::fs::remove_file(path)?;
    }
    Ok(restored)
}

/// Gives back what an open record tells. One of another boot is of no use any more.
pub(crate) fn restore_from(file: &mut File) -> CgroupsRestored {
    let mut restored = CgroupsRestored::default();
    let (header, lines) = match header_and_lines(file) {
        Ok(Some(found)) => found,
        Ok(None) => return restored,
        Err(error) => {
            restored.failed.push(format!("the record of cgroups cannot be read: {error}"));
            return restored;
        }
    };
    if registry::boot_id().is_ok_and(|boot| boot != header.boot) {
        return restored;
    }
    for line in &lines {
        let Found::Process { process, cgroup } = line else { continue };
        if let Ok(handle) = ProcessHandle::open_identity(*process)
            && tree::cgroup_of(process.pid).is_some_and(|path| is_ours(&header, &path))
            && tree::move_back(&handle, &header.mount, cgroup).is_ok()
        {
            restored.processes += 1;
        }
    }
    for name in &header.ours {
        match tree::dissolve(&header.mount, &header.mount.join(name)) {
            Ok((processes, removed)) => {
                restored.processes += processes;
                restored.removed += removed;
            }
            Err(why) => restored.failed.push(why),
        }
    }
    let of_units = |line: &Found| matches!(line, Found::Unit { .. } | Found::UnitDisks { .. });
    let asks_systemd = lines.iter().any(of_units);
    let systemd = if asks_systemd && header.systemd {
        Manager::connect().map_err(|error| restored.failed.push(format!("systemd: {error}"))).ok()
    } else {
        None
    };
    let mut given_back: BTreeSet<&String> = BTreeSet::new();
    let mut unlimited: BTreeSet<(&PathBuf, DeviceNumber)> = BTreeSet::new();
    // The first that was noted is as it was found; controllers go last.
    for line in lines.iter().rev() {
        let done = match line {
            Found::Weight { cgroup, weight } => {
                let group = tree::folder(&header.mount, cgroup);
                match tree::write(&group, "cpu.weight", &weight.to_string()) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(format!("the weight of {cgroup} stays changed: {error}"))
                    }
                    done => Ok(usize::from(done.is_ok())),
                }
            }
            Found::Unit { unit, property, value } => match &systemd {
                Some(manager) => match manager.set(unit, property, *value) {
                    Ok(()) => Ok(1),
                    Err(error) if error.is_gone() => Ok(0),
                    Err(error) => Err(format!("{property} of {unit} stays changed: {error}")),
                },
                None => Ok(0),
            },
            Found::UnitDisks { unit, weights } => match &systemd {
                Some(manager) => match manager.restore_disk_weights(unit, weights) {
                    Ok(()) => Ok(1),
                    Err(error) if error.is_gone() => Ok(0),
                    Err(error) => Err(format!("weights of {unit} stay changed: {error}")),
                },
                None => Ok(0),
            },
            Found::DiskGivenBack { name } => {
                given_back.insert(name);
                Ok(0)
            }
            Found::Disk(disk) if given_back.remove(&disk.name) => Ok(0),
            Found::Disk(disk) => {
                let given = disk.give_back();
                for what in given.left {
                    tracing::warn!("{what}");
                }
                restored.failed.extend(given.failed);
                Ok(given.restored)
            }
            Found::LimitGivenBack { path, number } => {
                unlimited.insert((path, *number));
                Ok(0)
            }
            Found::Limit { path, number, .. } if unlimited.remove(&(path, *number)) => Ok(0),
            Found::Limit { path, text, .. } | Found::Setting { path, text } => {
                match write_setting(path, text) {
                    Err(error) if !is_gone(&error) => {
                        Err(format!("{} stays changed: {error}", path.display()))
                    }
                    done => Ok(usize::from(done.is_ok())),
                }
            }
            Found::Process { .. } => Ok(0),
            Found::NoController { cgroup, controller } => {
                take_controller(&tree::folder(&header.mount, cgroup), controller);
                Ok(0)
            }
        };
        match done {
            Ok(count) => restored.weights += count,
            Err(why) => restored.failed.push(why),
        }
    }
    restored
}

fn is_ours(header: &Header, path: &str) -> bool {
    let top = path.trim_start_matches('/').split('/').next();
    header.ours.iter().any(|name| Some(name.as_str()) == top)
}

fn write_setting(path: &Path, text: &str) -> io::Result<()> {
    // Never created: what is not there is gone.
    File::options().write(true).open(path)?.write_all(text.as_bytes())
}

/// A device or a cgroup that has vanished takes what was set with it.
fn is_gone(error: &io::Error) -> bool {
    // The last: weights of a scheduler that the device has no more.
    let gone = [libc::ENOENT, libc::ENODEV, libc::ENXIO, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| gone.contains(&code))
}

/// Turns a controller off for a cgroup's children again, unless somebody else has begun to use it
/// meanwhile.
fn take_controller(group: &Path, controller: &str) {
    let in_use = tree::children(group).iter().any(|child| {
        tree::controls_children(child, controller) || !tree::is_as_made(child, &[controller])
    });
    if !in_use {
        // Best effort: that it stays on changes nobody's share.
        let _ = tree::write(group, "cgroup.subtree_control", &format!("-{controller}"));
    }
}
