//! What a disk is, and what the kernel offers for it. Nothing is guessed: what cannot be read is
//! `None`, and said to be unknown.
//!
//! 1. **What carries the requests** is looked at, whatever was named: a partition's disk; the one
//!    disk below a device mapper's, RAID's or multipath device. Where there are several below, each
//!    is to be named by itself: they have a queue each.
//! 2. A device carries requests of its own if it has hardware queues (`mq` in sysfs). Without, neither
//!    a scheduler nor iocost can work on it.
//! 3. **BFQ** is offered if `queue/scheduler` names it: it is built in, or its module is loaded.

use crate::filesystem::{FileSystem, Mount, mounts};
use crate::iocost::DeviceNumber;
use crate::place::{self, Places};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What a disk is, and what the kernel offers for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    /// Kernel name of what carries the requests, as in `sda`.
    pub name: String,
    /// How we came there from what was asked, in words; empty where that was it.
    pub steps: Vec<String>,
    /// Its number, by which cgroups know it.
    pub number: DeviceNumber,
    /// What it is known by beyond this boot: its world-wide name or serial number; its name and size
    /// where it tells neither.
    pub identity: String,
    /// Counts the devices of this boot, so that another one of the same name is not taken for it.
    pub sequence: Option<u64>,
    /// Its scheduler.
    pub scheduler: Option<Scheduler>,
    /// Requests that may wait in the scheduler, or on the device where there is none.
    pub nr_requests: Option<u32>,
    /// Requests that the device serves at a time, of its first hardware queue.
    pub hardware_depth: Option<u32>,
    /// Whether it has a head that moves.
    pub is_rotational: Option<bool>,
    /// Its size, in bytes.
    pub size_bytes: Option<u64>,
    /// Whether BFQ can be chosen.
    pub bfq: BfqOffer,
    /// Whether the kernel has iocost (`io.cost.qos` at the root of the cgroup tree).
    pub has_iocost: bool,
    /// Whether the root of the cgroup tree offers the controllers `io` and `memory`. Without memory's,
    /// buffered writes count for nobody's share.
    pub controllers: (bool, bool),
    /// What iocost says of this device now: the lines of `io.cost.qos` and `io.cost.model`.
    pub cost: (Option<String>, Option<String>),
    /// File systems on it, also on its partitions and on devices made of it. One that spans several
    /// disks is found on the one that it is mounted by.
    pub file_systems: Vec<FileSystem>,
}

/// Requests that a device takes at a time that is not shallow.
const DEEP: u32 = 8;

impl DiskFacts {
    /// Whether it takes only a few requests at a time, fewer than 8. Then who waits for iocost's sake and
    /// who waits for a free place on the device cannot be told apart, by the kernel neither.
    pub fn is_shallow(&self) -> bool {
        self.hardware_depth.is_some_and(|depth| depth < DEEP)
    }
}

/// A disk's scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The one that it has.
    pub current: String,
    /// All that the kernel offers now.
    pub offered: Vec<String>,
}

impl Scheduler {
    /// From `queue/scheduler`: `none [mq-deadline] bfq`.
    pub fn read(text: &str) -> Option<Scheduler> {
        let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        // A device without a choice shows its only one without brackets.
        let current =
            words.iter().find(|word| word.starts_with('[')).or(match words.as_slice() {
                [only] => Some(only),
                _ => None,
            })?;
        let current = bare(current);
        Some(Scheduler { current, offered: words.into_iter().map(bare).collect() })
    }
}

/// Whether BFQ can be chosen for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BfqOffer {
    /// It can.
    #[error("it is offered")]
    Offered,
    /// There is a module, which nobody has loaded.
    #[error("its module is not loaded (`modprobe bfq` does; allot loads no modules)")]
    NotLoaded,
    /// No module of that name was found.
    #[error("this kernel has no module bfq (CONFIG_IOSCHED_BFQ)")]
    NotThere,
    /// The device lets nobody choose.
    #[error("the device has no scheduler to choose")]
    NoScheduler,
}

/// Why a disk cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum NoDisk {
    /// The name is no kernel name of a device.
    #[error("`{0}` is no block device's name; `lsblk` lists them")]
    NoName(String),
    /// There is none, or it went away.
    #[error("there is no block device `{0}`; `lsblk` lists them")]
    NotThere(String),
    /// It is made of several.
    #[error("{name} is made of {}: name each of them by itself", parts.join(", "))]
    Several {
        /// What was asked.
        name: String,
        /// What it is made of.
        parts: Vec<String>,
    },
    /// Its driver has no queue that can be scheduled.
    #[error("{0} has no request queue of its own, so neither a scheduler nor iocost works on it")]
    NoQueue(String),
    /// The kernel hides it, as it does the paths of a multipath NVMe device.
    #[error("the kernel hides {0} (a path of a multipath device), so cgroups cannot name it")]
    Hidden(String),
    /// The kernel shows something else than expected.
    #[error("{path}: {why}")]
    Kernel {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// The kernel names of all that have requests of their own and are not empty, in order.
pub fn names(places: &Places) -> Vec<String> {
    let entries = std::fs::read_dir(places.sys.join("class/block")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let carries = |name: &String| {
        let facts = look_in(places, name);
        facts.is_ok_and(|it| it.steps.is_empty() && it.size_bytes.is_some_and(|size| size > 0))
    };
    let mut names: Vec<String> = names.filter(carries).collect();
    names.sort_unstable();
    names
}

/// What carries the requests of a device of this machine, by its kernel name (`sda`, `/dev/sda`).
///
/// # Errors
/// When there is no such device, or nothing to be enforced on.
pub fn look(name: &str) -> Result<DiskFacts, NoDisk> {
    look_in(&Places::of_this_machine(), name)
}

/// The same elsewhere.
///
/// # Errors
/// As [`look`].
pub fn look_in(places: &Places, name: &str) -> Result<DiskFacts, NoDisk> {
    let asked = name.strip_prefix("/dev/").unwrap_or(name);
    // sysfs writes a `/` of a name as `!`.
    let asked = asked.replace('/', "!");
    if asked.is_empty() || asked.starts_with('.') || asked.len() > 255 {
        return Err(NoDisk::NoName(name.to_owned()));
    }
    let mut steps = Vec::new();
    let name = carrier(places, &asked, &mut steps)?;
    let folder = places.sys.join("class/block").join(&name);
    let queue = folder.join("queue");
    let number = read_device_number(&folder, &name)?;
    let scheduler = place::read(&queue.join("scheduler")).ok();
    let scheduler = scheduler.and_then(|text| Scheduler::read(&text));
    let bfq = bfq_offer(places, scheduler.as_ref());
    let cost_line = |file: &str| {
        let text = place::read(&places.cgroup_file(file)?).ok()?;
        super::iocost::line_of(&text, number).map(str::to_owned)
    };
    let controllers = places.cgroup_file("cgroup.controllers").and_then(|f| place::read(&f).ok());
    let offers = |wanted: &str| {
        controllers.as_ref().is_some_and(|all| all.split(' ').any(|name| name == wanted))
    };
    // In units of 512 bytes, whatever the device's own are.
    let size_bytes = place::read_number::<u64>(&folder.join("size")).map(|size| size << 9);
    Ok(DiskFacts {
        steps,
        number,
        identity: identity(&folder, &name, size_bytes),
        sequence: place::read_number(&folder.join("diskseq")),
        scheduler,
        nr_requests: place::read_number(&queue.join("nr_requests")),
        hardware_depth: place::read_number(&folder.join("mq/0/nr_tags")),
        is_rotational: place::read_number::<u8>(&queue.join("rotational")).map(|is| is != 0),
        size_bytes,
        bfq,
        has_iocost: places.cgroup_file("io.cost.qos").is_some_and(|file| file.exists()),
        controllers: (offers("io"), offers("memory")),
        cost: (cost_line("io.cost.qos"), cost_line("io.cost.model")),
        file_systems: file_systems(places, &name),
        name,
    })
}

/// Rule 1 and 2.
fn carrier(places: &Places, asked: &str, steps: &mut Vec<String>) -> Result<String, NoDisk> {
    const DEEPEST: usize = 32;
    let class = places.sys.join("class/block");
    let mut name = asked.to_owned();
    for _ in 0..DEEPEST {
        let folder = class.join(&name);
        if !folder.exists() {
            return Err(NoDisk::NotThere(name));
        }
        if folder.join("partition").exists() {
            let disk = std::fs::canonicalize(&folder).ok();
            let disk = disk.as_deref().and_then(Path::parent).and_then(Path::file_name);
            let Some(disk) = disk.and_then(|name| name.to_str()) else {
                return Err(NoDisk::NotThere(name));
            };
            steps.push(format!("{name} is a partition of {disk}"));
            name = disk.to_owned();
            continue;
        }
        if place::read_number::<u8>(&folder.join("hidden")).is_some_and(|is| is != 0) {
            return Err(NoDisk::Hidden(name));
        }
        // Device mapper on requests (multipath) has both: below it is where requests are queued.
        let below = entries(&folder.join("slaves"));
        let below = if below.is_empty() { entries(&folder.join("multipath")) } else { below };
        match below.as_slice() {
            [] if folder.join("mq").exists() => return Ok(name),
            [] => return Err(NoDisk::NoQueue(name)),
            [one] => {
                steps.push(format!("{name} stands on {one}"));
                name = one.clone();
            }
            _ => return Err(NoDisk::Several { name, parts: below }),
        }
    }
    Err(NoDisk::NoQueue(asked.to_owned()))
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

fn read_device_number(folder: &Path, name: &str) -> Result<DeviceNumber, NoDisk> {
    let path = folder.join("dev");
    let text = place::read(&path).map_err(|error| match place::is_gone(&error) {
        true => NoDisk::NotThere(name.to_owned()),
        false => NoDisk::Kernel { path: path.clone(), why: error.to_string() },
    })?;
    text.parse()
        .map_err(|why: super::iocost::NoDeviceNumber| NoDisk::Kernel { path, why: why.to_string() })
}

/// Drivers show it in different places.
fn identity(folder: &Path, name: &str, size_bytes: Option<u64>) -> String {
    let files = ["wwid", "device/wwid", "serial", "device/serial"];
    let said = files.iter().find_map(|file| {
        let text = place::read(&folder.join(file)).ok()?;
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!text.is_empty()).then(|| format!("{} {text}", file.trim_start_matches("device/")))
    });
    said.unwrap_or_else(|| match size_bytes {
        Some(bytes) => format!("name {name} of {bytes} bytes"),
        None => format!("name {name}"),
    })
}

/// Rule 3.
fn bfq_offer(places: &Places, scheduler: Option<&Scheduler>) -> BfqOffer {
    let Some(scheduler) = scheduler else { return BfqOffer::NoScheduler };
    if scheduler.offered.iter().any(|name| name == "bfq") {
        return BfqOffer::Offered;
    }
    let lists_it = |file: &str| {
        std::fs::read_to_string(places.modules.join(file))
            .is_ok_and(|text| text.lines().any(|line| line.contains("/bfq.ko")))
    };
    if lists_it("modules.dep") { BfqOffer::NotLoaded } else { BfqOffer::NotThere }
}

/// Those whose device, or whose source, leads to this disk.
fn file_systems(places: &Places, disk: &str) -> Vec<FileSystem> {
    let text = std::fs::read_to_string(&places.mounts).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for mount in mounts(&text) {
        let Some(name) = device_of_mount(places, &mount) else { continue };
        let is_on_it = match carrier(places, &name, &mut Vec::new()) {
            Ok(carrier) => carrier == disk,
            Err(NoDisk::Several { parts, .. }) => parts
                .iter()
                .any(|part| carrier(places, part, &mut Vec::new()).is_ok_and(|it| it == disk)),
            Err(_) => false,
        };
        // The same file system is often mounted at many places.
        if is_on_it && seen.insert((name, mount.file_system.kind.clone())) {
            found.push(mount.file_system);
        }
    }
    found
}

/// What carries a mounted file system; `None` where that is nothing of its own, or several.
pub(crate) fn carrier_of_mount(places: &Places, mount: &Mount) -> Option<String> {
    carrier(places, &device_of_mount(places, mount)?, &mut Vec::new()).ok()
}

/// The kernel name of what was mounted.
fn device_of_mount(places: &Places, mount: &Mount) -> Option<String> {
    let by_number = std::fs::canonicalize(places.sys.join("dev/block").join(&mount.number)).ok();
    by_number
        .as_deref()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str().map(str::to_owned))
        .or_else(|| device_of_source(&mount.file_system.source))
}

/// Of file systems that have no device number (btrfs): the kernel name of what was mounted, which may
/// be a link (/dev/mapper/…, /dev/disk/by-uuid/…).
fn device_of_source(source: &str) -> Option<String> {
    let device =
        std::fs::canonicalize(Path::new(source).strip_prefix("/dev").ok().map(|_| source)?);
    let name = device.ok()?.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    Some(name)
}

#[cfg(test)]
#[path = "look_tests.rs"]
mod tests;
