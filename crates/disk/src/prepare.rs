//! Brings a disk to serve cgroups in the ratio of their weights. See docs/disk.md for what each
//! setting is for, and what was measured without it.
//!
//! BFQ (Valente & Checconi 2010, and the kernel's own):
//! 1. The scheduler first: choosing one sets the defaults of all the others.
//! 2. `low_latency` 0: else whoever begins is served before all others for seconds, whatever its weight.
//!    Where it was on, BFQ is chosen anew, for it keeps of each process what it thought of it (4:1 stayed
//!    2.5:1); so too where `nr_requests` could not be given back else. What was set besides is set again.
//! 3. `slice_idle` 8 ms: a queue whose next request comes soon keeps its turn. With 0, a reader that
//!    waits for each request loses its turn at each, and all get the same.
//! 4. `strict_guarantees` 0 on a device that takes several requests at a time: with 1, one queue at a time has requests on
//!    it, and it idles. 1 on one that takes one: else BFQ injects others' requests into the turn of a reader that has
//!    to wait for the CPU, ever more of them, until it has no more than everybody (17 % where 28 % were its share).
//! 5. `nr_requests` [`LEAST_REQUESTS`] at least, after the scheduler: a device of depth 1 gives 2, and
//!    requests queue first come, first served before BFQ sees them.
//!
//!    `max_budget` [`BUDGET_WITH_HEAD`], [`BUDGET_SHALLOW`] or [`BUDGET_DEEP`], and not 0: BFQ's own estimate of what a
//!    device serves in a turn goes astray where readers wait for each request (4:1 became 1.1:1 to 3.9:1). A device
//!    with a head keeps the kernel's first estimate, so that it seeks no more often than before. On a deep one a turn
//!    has to end by what was served: where some end by time, 4:1 became 6.8:1 with many processes in cgroups of
//!    their own. On a shallow one all of them may end by time.
//! 6. No iocost beside it, which would hold back by weights of its own.
//!
//! Iocost (Heo et al., *IOCost*, ASPLOS 2022):
//! 7. The model first, a little below what was measured ([`SPEED_THOUSANDTHS`]): if requests wait on the
//!    device and not in iocost, the device decides who is served.
//! 8. The rate never rises above the model's ([`GREATEST_RATE`]), for the same reason, and falls to
//!    [`LEAST_RATE`] where the device turns out slower than measured. On a shallow device it falls below
//!    that in any case: the kernel takes the wait for a free place on it for such slowness.
//! 9. Latencies that count as too long are those of [`REQUESTS`] requests one after the other, and
//!    [`LATENCIES`] of one alone: iocost's period is twice that, and in a period that is too short for
//!    a few requests of each, nobody has a share; in one of a second, shares hold over many seconds.
//!    Within the range of the kernel's own tables (`autop` in block/blk-iocost.c).
//! 10. No BFQ below it: two that idle for different reasons.

use crate::found::{
    FoundCost, FoundDisk, FoundQueue, FoundSetting, GivenBack, NONE, NR_REQUESTS, Notes,
    are_too_few_to_write,
};
use crate::io_controller::IoController;
use crate::iocost;
use crate::look::{DiskFacts, Scheduler};
use crate::needs::{LOW_LATENCY, SLICE_IDLE_MS, Wanted, cost_lines, wanted};
use crate::place::{Places, is_gone, read, write};
use std::io;
use std::path::{Path, PathBuf};

/// A disk that serves by weights until it is given back. Dropping it gives it back.
#[derive(Debug)]
pub struct PreparedDisk {
    controller: IoController,
    /// What the queue's settings have to be.
    wanted: Vec<(&'static str, Wanted)>,
    found: FoundDisk,
    given_back: bool,
}

/// Why a disk could not be prepared. Whatever was changed by then was given back.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// It could not be noted how it was, so it was left so.
    #[error("it cannot be kept how {name} was found, so it stays so")]
    Note {
        /// The disk.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It is there no more.
    #[error("{0} is gone")]
    Gone(String),
    /// The kernel did not take a setting.
    #[error("{}: the kernel does not take `{text}`", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        text: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("{} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The controller needs what this disk, or this machine, does not have.
    #[error("{name} has no {what}")]
    Missing {
        /// The disk.
        name: String,
        /// What it lacks.
        what: &'static str,
    },
}

/// Makes a disk serve by weights. What is found is noted before anything is changed.
///
/// # Errors
/// When it cannot be noted, the disk is gone, or the kernel does not take a setting; then the disk is
/// as it was found.
pub fn prepare(
    places: &Places,
    facts: &DiskFacts,
    controller: IoController,
    notes: &mut dyn Notes,
) -> Result<PreparedDisk, PrepareError> {
    let found = find(places, facts, &controller)?;
    if !found.is_there() {
        return Err(PrepareError::Gone(facts.name.clone()));
    }
    let note = |source| PrepareError::Note { name: facts.name.clone(), source };
    notes.note_disk(&found).map_err(note)?;
    // From here on dropping it gives everything back.
    let wanted = wanted(&controller, facts);
    let prepared = PreparedDisk { controller, wanted, found, given_back: false };
    prepared.set()?;
    Ok(prepared)
}

impl PreparedDisk {
    /// What enforces its weights.
    pub fn controller(&self) -> &IoController {
        &self.controller
    }

    /// As it was found.
    pub fn found(&self) -> &FoundDisk {
        &self.found
    }

    /// Whether it is there; a device that came back by the same name is another one.
    pub fn is_there(&self) -> bool {
        self.found.is_there()
    }

    /// What is not as it was set, in words: somebody changed it. Empty for a disk that is gone.
    pub fn drift(&self) -> Vec<String> {
        let mut drift = Vec::new();
        if !self.is_there() {
            return drift;
        }
        let mut differs = |file: &Path, is: &str, ours: &str| {
            drift.push(format!("{} says `{is}`, not `{ours}`", file.display()));
        };
        if let Some(queue) = &self.found.queue {
            let folder = self.found.folder.join("queue");
            let file = folder.join("scheduler");
            let scheduler = read(&file).ok().and_then(|text| Scheduler::read(&text));
            match scheduler.map(|scheduler| scheduler.current) {
                Some(current) if current == queue.ours => {
                    for &(name, least) in &self.wanted {
                        let file = folder.join(name);
                        let is = read(&file).unwrap_or_default();
                        if !least.allows(&is) {
                            differs(&file, &is, &least.text());
                        }
                    }
                }
                current => differs(&file, current.as_deref().unwrap_or("?"), &queue.ours),
            }
        }
        if let Some(cost) = &self.found.cost {
            let ours = [Some(&cost.our_quality), cost.our_model.as_ref()];
            for (file, ours) in FoundDisk::cost_files(cost).iter().zip(ours) {
                let Some(ours) = ours else { continue };
                let text = read(file).unwrap_or_default();
                let line = iocost::line_of(&text, self.found.number).unwrap_or("nothing");
                if line == "nothing" || !iocost::says(line, ours) {
                    differs(file, line, ours);
                }
            }
        }
        drift
    }

    /// Gives everything back, at once and not when it is dropped. Weights of cgroups on the device
    /// are theirs who wrote them, and should be taken back before.
    pub fn give_back(mut self) -> GivenBack {
        self.given_back = true;
        self.found.give_back()
    }

    /// All rules.
    fn set(&self) -> Result<(), PrepareError> {
        if let Some(queue) = &self.found.queue {
            let folder = self.found.folder.join("queue");
            if queue.chosen_anew {
                self.put(&folder.join("scheduler"), NONE)?;
            }
            if queue.chosen_anew || queue.ours != queue.scheduler {
                self.put(&folder.join("scheduler"), &queue.ours)?;
            }
            for setting in queue.settings.iter().filter(|_| queue.chosen_anew) {
                let path = folder.join(&setting.file);
                if read(&path).is_ok_and(|is| is != setting.text) {
                    self.put(&path, &setting.text)?;
                }
            }
            for &(name, value) in &self.wanted {
                let path = folder.join(name);
                let is = read(&path).map_err(|source| self.unreadable(&path, source))?;
                if !value.allows(&is) {
                    self.put(&path, &value.text())?;
                }
            }
        }
        if let Some(cost) = &self.found.cost {
            let [quality, model] = FoundDisk::cost_files(cost);
            if let Some(our_model) = &cost.our_model {
                self.put(&model, our_model)?;
            }
            self.put(&quality, &cost.our_quality)?;
        }
        Ok(())
    }

    fn put(&self, path: &Path, text: &str) -> Result<(), PrepareError> {
        write(path, text).map_err(|source| match is_gone(&source) && !self.is_there() {
            true => PrepareError::Gone(self.found.name.clone()),
            false => PrepareError::Refused { path: path.to_owned(), text: text.to_owned(), source },
        })
    }

    fn unreadable(&self, path: &Path, source: io::Error) -> PrepareError {
        match is_gone(&source) && !self.is_there() {
            true => PrepareError::Gone(self.found.name.clone()),
            false => PrepareError::Unreadable { path: path.to_owned(), source },
        }
    }
}

impl Drop for PreparedDisk {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        let given = self.found.give_back();
        for why in given.left.iter().chain(&given.failed) {
            tracing::warn!("{why}");
        }
    }
}

/// Reads what is to be noted.
fn find(
    places: &Places,
    facts: &DiskFacts,
    controller: &IoController,
) -> Result<FoundDisk, PrepareError> {
    let missing = |what| PrepareError::Missing { name: facts.name.clone(), what };
    let folder = places.sys.join("class/block").join(&facts.name);
    let scheduler = facts.scheduler.as_ref().ok_or_else(|| missing("scheduler to choose"));
    let wanted = wanted(controller, facts);
    let (queue, cost) = match controller {
        IoController::Bfq => {
            let is_on = |line: &&String| iocost::says(line, "enable=1");
            // Rule 6.
            let cost = match (&places.cgroups, facts.cost.0.as_ref().filter(is_on)) {
                (Some(mount), Some(line)) => Some(FoundCost {
                    mount: mount.clone(),
                    quality: Some(line.clone()),
                    our_quality: format!("{} enable=0", facts.number),
                    model: facts.cost.1.clone(),
                    our_model: None,
                }),
                _ => None,
            };
            (Some(find_queue(&folder, &scheduler?.current, "bfq", &wanted)), cost)
        }
        IoController::Iocost(speed) => {
            // Rule 10. Without a scheduler there is none to replace.
            let replaces = scheduler.is_ok_and(|scheduler| scheduler.current == "bfq");
            let queue = replaces.then(|| find_queue(&folder, "bfq", NONE, &wanted));
            let mount = places.cgroups.clone().ok_or_else(|| missing("cgroup v2 tree"))?;
            let (quality, model) = cost_lines(speed, facts);
            let found = FoundCost {
                mount,
                quality: facts.cost.0.clone(),
                our_quality: quality,
                model: facts.cost.1.clone(),
                our_model: Some(model),
            };
            (queue, Some(found))
        }
    };
    Ok(FoundDisk {
        name: facts.name.clone(),
        number: facts.number,
        sequence: facts.sequence,
        folder,
        queue,
        cost,
    })
}

fn find_queue(
    folder: &Path,
    scheduler: &str,
    ours: &str,
    wanted: &[(&'static str, Wanted)],
) -> FoundQueue {
    let folder = folder.join("queue");
    let entries = std::fs::read_dir(folder.join("iosched")).into_iter().flatten().flatten();
    let mut of_scheduler: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .map(|name| format!("iosched/{name}"))
        .collect();
    of_scheduler.sort_unstable();
    let is = |file: &str| read(&folder.join(file)).ok();
    let chosen_anew = scheduler == ours
        && (is(LOW_LATENCY).is_some_and(|is| is != "0")
            || is(NR_REQUESTS).is_some_and(|is| are_too_few_to_write(&is)));
    let stays = scheduler == ours && !chosen_anew;
    let mut files: Vec<String> = Vec::new();
    if stays {
        files.extend(wanted.iter().map(|(file, _)| (*file).to_owned()));
        of_scheduler.retain(|file| file != SLICE_IDLE_MS && !files.contains(file));
    } else {
        // All that goes with the scheduler. The queue's own first: they are few and matter most.
        files.extend([NR_REQUESTS, "async_depth", "wbt_lat_usec"].map(str::to_owned));
    }
    files.extend(of_scheduler);
    let settings = files
        .into_iter()
        .filter_map(|file| {
            // What cannot be read (wbt where it is off) cannot be given back.
            let text = read(&folder.join(&file)).ok()?;
            let wanted = wanted.iter().find(|(name, _)| *name == file);
            let ours = stays.then(|| match wanted {
                Some((_, value)) if !value.allows(&text) => value.text(),
                _ => text.clone(),
            });
            Some(FoundSetting { file, text, ours })
        })
        .collect();
    FoundQueue { scheduler: scheduler.to_owned(), ours: ours.to_owned(), chosen_anew, settings }
}
