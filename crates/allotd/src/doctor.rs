//! The report on this machine: what it offers, and what allot makes of it.

use crate::{persons, walls};
use enforcement::{Prospect, Surveyed, Wall};
use ledger::KindName;
use observe::MachineFacts;
use sandbox::Restriction;
use std::sync::{Mutex, PoisonError};
use wire::{Check, Doctor, DoctorResource, Status};

/// The findings of the start.
pub struct Findings {
    machine: MachineFacts,
    life: Result<String, String>,
    /// How each resource would be shared, the CPU first.
    resources: Vec<DoctorResource>,
    checks: Vec<Check>,
    /// The walls of the keeper and of the enforcing process.
    walls: Vec<Check>,
    /// The walls of the front that serves now.
    front_walls: Mutex<Vec<Check>>,
}

impl Findings {
    /// Adds the machine to what was found of its resources.
    pub fn of(surveyed: Surveyed) -> Findings {
        let life = observe::watch_best().map(|(_, why)| why).map_err(|error| error.to_string());
        let view = |it: Prospect| DoctorResource {
            resource: it.resource,
            enforcer: it.enforcer.unwrap_or_else(|| "none".to_owned()),
            why: it.why,
        };
        let resources = surveyed.resources.into_iter().map(view).collect();
        let view = |it: enforcer::Check| Check { name: it.name, ok: it.ok, says: it.says };
        let checks = surveyed.checks.into_iter().map(view).chain([subordinate_uids()]).collect();
        let (walls, front_walls) = (Vec::new(), Mutex::default());
        Findings { machine: observe::machine(), life, resources, checks, walls, front_walls }
    }

    /// Adds what the parts of allotd have given up.
    pub fn with_walls(mut self, walls: impl IntoIterator<Item = Wall>) -> Findings {
        self.walls.extend(walls.into_iter().map(check_of));
        self
    }

    /// Notes that a front has given up its rights and serves.
    pub fn front_serves(&self, files: Restriction) {
        let walls = walls::of_front(files).map(check_of);
        *self.front_walls.lock().unwrap_or_else(PoisonError::into_inner) = walls.into();
    }

    /// The machine in one line.
    pub fn machine_line(&self) -> String {
        let machine = &self.machine;
        let memory = machine.memory_total_bytes.unwrap_or(0) >> 20;
        format!(
            "{}, Linux {}, {} CPUs ({} allowed), {memory} MiB",
            machine.os_pretty_name.as_deref().unwrap_or("unknown system"),
            machine.kernel_release,
            machine.cpus_online,
            machine.cpus_allowed.len(),
        )
    }

    /// The whole report; with what a running allotd really does, where there is one.
    pub fn report(&self, status: Option<&Status>) -> Doctor {
        let mut real: Vec<DoctorResource> = Vec::new();
        if let Some(status) = status {
            real.push(DoctorResource {
                resource: KindName::CPU.to_string(),
                enforcer: status.cpu.name.clone(),
                why: status.cpu.why.clone(),
            });
            real.extend(status.others.iter().cloned());
        }
        let mut resources: Vec<DoctorResource> = self
            .resources
            .iter()
            .map(|found| {
                let real = real.iter().find(|real| real.resource == found.resource);
                real.unwrap_or(found).clone()
            })
            .collect();
        // Tickets of what is not there.
        let known: Vec<String> = resources.iter().map(|found| found.resource.clone()).collect();
        resources.extend(real.into_iter().filter(|real| !known.contains(&real.resource)));
        let mut checks = vec![Check {
            name: "life source".to_owned(),
            ok: self.life.is_ok(),
            says: self.life.clone().unwrap_or_else(|error| error),
        }];
        checks.extend(self.checks.iter().chain(&self.walls).cloned());
        let front_walls = self.front_walls.lock().unwrap_or_else(PoisonError::into_inner);
        checks.extend(front_walls.iter().cloned());
        checks.extend(status.map(drift_check));
        Doctor { machine: self.machine_line(), resources, checks }
    }
}

fn check_of(wall: Wall) -> Check {
    Check { name: wall.name, ok: wall.stands, says: wall.says }
}

/// Whether all subordinate uids are known to count as their owners.
fn subordinate_uids() -> Check {
    let unseen = persons::sources_not_read();
    let says = match unseen.is_empty() {
        true => "each counts as the user to whom /etc/subuid gives it".to_owned(),
        false => format!(
            "those from {} (subid: in /etc/nsswitch.conf) have limits of their own; put the ranges that `getsubids USER` \
             shows into /etc/subuid, and start allotd anew",
            unseen.join(", ")
        ),
    };
    Check { name: "subordinate uids".to_owned(), ok: unseen.is_empty(), says }
}

fn drift_check(status: &Status) -> Check {
    let drift = &status.cpu.drift;
    Check {
        name: "drift".to_owned(),
        ok: drift.is_empty(),
        says: match drift.is_empty() {
            true => "everything is as the plan has it".to_owned(),
            false => drift.join("; "),
        },
    }
}
