//! A disk as it was found: the note that outlives us, and how it is given back.
//!
//! 1. A note is whole, written **before** the first change, and tells beside each thing what we
//!    meant to make of it. So a note says the same wherever we were interrupted, giving back
//!    included, and giving back twice does no harm.
//! 2. **Iocost goes first** (quality, then model), so that nothing is throttled by a model that is
//!    half gone. **Then the scheduler, then its settings**: choosing a scheduler sets the kernel's
//!    defaults for them and for `nr_requests`. A setting that is as it was found is not written,
//!    since the kernel does not take back every number that it shows: `nr_requests` below
//!    [`LEAST_WRITTEN_REQUESTS`] comes back with a scheduler that is chosen anew.
//! 3. **What somebody else changed meanwhile stays theirs**, and is said: a scheduler that is neither
//!    ours nor the one found (then its settings stay too); a setting of a scheduler that we left in
//!    place, or a line of iocost's, that is not what we made it. One that is chosen anew is not left
//!    in place, and on the way there the disk has none.
//! 4. **A device that is gone** took its settings along: nothing to do. Another one by the same name
//!    is none of ours; the kernel numbers them (`diskseq`).

use crate::iocost::{self, DeviceNumber};
use crate::look::Scheduler;
use crate::place::{is_gone, read, read_number, write};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What the kernel makes of a smaller `nr_requests` (`BLKDEV_MIN_RQ`), though it gives devices that take
/// one request fewer.
const LEAST_WRITTEN_REQUESTS: u32 = 4;

/// Whether the kernel shows so many `nr_requests` and does not take as few when they are written.
pub(crate) fn are_too_few_to_write(text: &str) -> bool {
    text.parse().is_ok_and(|requests: u32| requests < LEAST_WRITTEN_REQUESTS)
}

/// Keeps notes where they outlive us.
pub trait Notes {
    /// Notes how a disk is before it is changed for the first time.
    ///
    /// # Errors
    /// When it cannot be kept. Then nothing is changed.
    fn note_disk(&mut self, found: &FoundDisk) -> io::Result<()>;
}

/// A disk as it was found, and what we make of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundDisk {
    /// Its kernel name.
    pub name: String,
    /// Its number.
    pub number: DeviceNumber,
    /// Which device of that name it is, where the kernel tells.
    pub(crate) sequence: Option<u64>,
    /// Its folder in sysfs.
    pub(crate) folder: PathBuf,
    /// Where the scheduler or its settings change.
    pub(crate) queue: Option<FoundQueue>,
    /// Where iocost is set.
    pub(crate) cost: Option<FoundCost>,
}

/// A queue as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundQueue {
    /// The scheduler that there was.
    pub scheduler: String,
    /// The one that we choose, which may be the same.
    pub ours: String,
    /// It is the same, and chosen again, by way of none.
    #[serde(default)]
    pub chosen_anew: bool,
    /// Its settings and the queue's, in the order in which they are given back.
    pub settings: Vec<FoundSetting>,
}

/// A setting as it was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundSetting {
    /// The file, below the queue's folder.
    pub file: String,
    /// What it said.
    pub text: String,
    /// What we write there; `None` where only the change of schedulers changes it.
    pub ours: Option<String>,
}

/// Iocost's lines as they were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundCost {
    /// Where the cgroup tree is mounted.
    pub mount: PathBuf,
    /// Of `io.cost.qos`.
    pub quality: Option<String>,
    /// What we write there.
    pub our_quality: String,
    /// Of `io.cost.model`.
    pub model: Option<String>,
    /// What we write there; `None` where it stays.
    pub our_model: Option<String>,
}

/// What came of giving a disk back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenBack {
    /// Files that were brought back.
    pub restored: usize,
    /// What is somebody else's by now and was left, in words.
    pub left: Vec<String>,
    /// What could not be brought back, in words.
    pub failed: Vec<String>,
}

impl GivenBack {
    /// Counts a write. A device that vanished meanwhile is no failure (rule 4).
    fn wrote(&mut self, what: &str, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => self.restored += 1,
            Err(error) if is_gone(&error) => {}
            Err(error) => self.failed.push(format!("{what} stays changed: {error}")),
        }
    }
}

impl FoundDisk {
    /// Where iocost's quality and model are kept.
    pub(crate) fn cost_files(cost: &FoundCost) -> [PathBuf; 2] {
        ["io.cost.qos", "io.cost.model"].map(|file| cost.mount.join(file))
    }

    /// Whether the device that was noted is still there.
    pub fn is_there(&self) -> bool {
        let is_number = read_number(&self.folder.join("dev")) == Some(self.number);
        is_number && read_number(&self.folder.join("diskseq")) == self.sequence
    }

    /// Gives everything back (rules 2 to 4). Fails for no device that is gone.
    pub fn give_back(&self) -> GivenBack {
        let mut given = GivenBack::default();
        if !self.is_there() {
            return given;
        }
        if let Some(cost) = &self.cost {
            self.give_back_cost(cost, &mut given);
        }
        if let Some(queue) = &self.queue {
            self.give_back_queue(queue, &mut given);
        }
        given
    }

    fn give_back_cost(&self, cost: &FoundCost, given: &mut GivenBack) {
        let [quality_file, model_file] = Self::cost_files(cost);
        let quality = iocost::quality_to_write(cost.quality.as_deref(), self.number);
        let model = iocost::model_to_write(cost.model.as_deref(), self.number);
        self.give_back_line(&quality_file, &cost.our_quality, &quality, given);
        if let Some(our_model) = &cost.our_model {
            self.give_back_line(&model_file, our_model, &model, given);
        }
    }

    fn give_back_line(&self, file: &Path, ours: &str, found: &str, given: &mut GivenBack) {
        let what = || format!("{} of {}", file_name(file), self.name);
        let text = match read(file) {
            Ok(text) => text,
            Err(error) => {
                given.wrote(&what(), Err(error));
                return;
            }
        };
        // No line: the kernel never heard of our change.
        let Some(line) = iocost::line_of(&text, self.number) else { return };
        if iocost::says(line, found) {
            return;
        }
        if !iocost::says(line, ours) {
            given.left.push(format!("{} is somebody else's by now: {line}", what()));
            return;
        }
        given.wrote(&what(), write(file, found));
    }

    fn give_back_queue(&self, queue: &FoundQueue, given: &mut GivenBack) {
        let folder = self.folder.join("queue");
        let file = folder.join("scheduler");
        let current = match read(&file) {
            Ok(text) => Scheduler::read(&text).map(|scheduler| scheduler.current),
            Err(error) => {
                given.wrote(&format!("the scheduler of {}", self.name), Err(error));
                return;
            }
        };
        let Some(current) = current else {
            given.failed.push(format!("the scheduler of {} cannot be read", self.name));
            return;
        };
        let on_the_way = queue.chosen_anew && current == NONE;
        if current != queue.ours && current != queue.scheduler && !on_the_way {
            given.left.push(format!(
                "the scheduler of {} is {current} by now, which is neither ours nor the one found \
                 ({}): it stays, and its settings",
                self.name, queue.scheduler
            ));
            return;
        }
        let lacks_requests = || {
            let path = folder.join(NR_REQUESTS);
            let found = queue.settings.iter().find(|setting| setting.file == NR_REQUESTS);
            found.is_some_and(|it| {
                are_too_few_to_write(&it.text) && read(&path).is_ok_and(|is| is != it.text)
            })
        };
        let mut choices = Vec::new();
        if current != queue.scheduler {
            choices.push(queue.scheduler.as_str());
        } else if queue.chosen_anew && lacks_requests() {
            choices.extend([NONE, &queue.scheduler]);
        }
        for choice in choices {
            let what = format!("the scheduler of {}", self.name);
            let written = write(&file, choice);
            let is_failed = written.is_err();
            given.wrote(&what, written);
            if is_failed {
                return;
            }
        }
        let keeps_scheduler = queue.ours == queue.scheduler && !queue.chosen_anew;
        for setting in &queue.settings {
            let path = folder.join(&setting.file);
            let what = format!("{} of {}", setting.file, self.name);
            let is = match read(&path) {
                Ok(is) => is,
                // A scheduler of another version of its module may have other settings.
                Err(_) => continue,
            };
            if is == setting.text {
                continue;
            }
            if keeps_scheduler && setting.ours.as_ref() != Some(&is) {
                given.left.push(format!("{what} is somebody else's by now: {is}"));
                continue;
            }
            given.wrote(&what, write(&path, &setting.text));
        }
    }
}

/// No scheduler.
pub(crate) const NONE: &str = "none";
/// How many requests a queue takes.
pub(crate) const NR_REQUESTS: &str = "nr_requests";

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "found_tests.rs"]
mod tests;
