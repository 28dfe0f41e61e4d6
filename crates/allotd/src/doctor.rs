//! What this machine offers, and what allot makes of it.

use crate::registrations::{resource_kinds, why_not_shared};
use enforcer::{Registration, ResourceStatus, Settings, Survey};
use ledger::{KindName, ResourceKind};
use observe::MachineFacts;
use wire::{Check, Doctor, DoctorResource, Status};

/// What was found out at the start.
pub struct Findings {
    machine: MachineFacts,
    life: Result<String, String>,
    /// How each resource would be shared, the CPU first.
    resources: Vec<DoctorResource>,
    checks: Vec<Check>,
}

impl Findings {
    /// Looks at the machine. Tries things out on processes of its own.
    pub fn look(enforcers: &[Registration], settings: &Settings) -> Findings {
        let life = observe::watch_best().map(|(_, why)| why).map_err(|error| error.to_string());
        let surveys: Vec<Survey> = enforcers.iter().map(|it| (it.survey)(settings)).collect();
        let surveyed = surveys.iter().flat_map(|survey| &survey.resources);
        let surveyed: Vec<&ResourceStatus> = surveyed.collect();
        let mut resources = Vec::new();
        for kind in resource_kinds(enforcers).all() {
            let found = surveyed.iter().filter(|it| it.resource.kind() == kind.name);
            let before = resources.len();
            resources.extend(found.map(|it| resource_view(it)));
            if resources.len() == before {
                resources.push(best_of_kind(enforcers, settings, kind));
            }
        }
        let checks = surveys.into_iter().flat_map(|survey| survey.checks);
        let view = |it: enforcer::Check| Check { name: it.name, ok: it.ok, says: it.says };
        let checks = checks.map(view).collect();
        Findings { machine: observe::machine(), life, resources, checks }
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
        checks.extend(self.checks.iter().cloned());
        checks.extend(status.map(drift_check));
        Doctor { machine: self.machine_line(), resources, checks }
    }
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

fn resource_view(found: &ResourceStatus) -> DoctorResource {
    DoctorResource {
        resource: found.resource.to_string(),
        enforcer: found.by.clone().unwrap_or_else(|| "none".to_owned()),
        why: found.why.clone(),
    }
}

/// The first enforcer that could serve a kind here, and why not those before it.
fn best_of_kind(
    enforcers: &[Registration],
    settings: &Settings,
    kind: &ResourceKind,
) -> DoctorResource {
    let mut refused = String::new();
    for candidate in enforcers.iter().filter(|it| it.serves(kind.name)) {
        match (candidate.available)(settings, kind.name) {
            Ok(says) => {
                let (resource, enforcer) = (kind.usage(), candidate.name.to_owned());
                return DoctorResource { resource, enforcer, why: format!("{says}{refused}") };
            }
            Err(why) => refused.push_str(&format!("; not {}: {why}", candidate.name)),
        }
    }
    let why = match refused.strip_prefix("; ") {
        Some(refused) => refused.to_owned(),
        None => why_not_shared(kind.name),
    };
    DoctorResource { resource: kind.usage(), enforcer: "none".to_owned(), why }
}
