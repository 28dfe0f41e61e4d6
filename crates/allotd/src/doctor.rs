//! What this machine offers, and what allot makes of it.

use observe::{CgroupLayout, MachineFacts};
use wire::{Check, Doctor, DoctorResource, Status};

/// What was found out at the start.
pub struct Findings {
    machine: MachineFacts,
    hold: (String, String),
    life: Result<String, String>,
    groups: (bool, String),
}

impl Findings {
    /// Look at the machine. Tries things out on processes of its own.
    pub fn look() -> Findings {
        let (hold, why) = enforce::hold_available();
        let life = observe::watch_best().map(|(_, why)| why).map_err(|error| error.to_string());
        let machine = observe::machine();
        Findings {
            machine,
            hold: (hold.to_string(), why),
            life,
            groups: enforce::scheduling_groups(),
        }
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
        let (hold, why) = &self.hold;
        let cpu = match status {
            Some(status) => DoctorResource {
                resource: "cpu".to_owned(),
                enforcer: status.cpu.name.clone(),
                why: status.cpu.why.clone(),
            },
            None => DoctorResource {
                resource: "cpu".to_owned(),
                enforcer: "user-level".to_owned(),
                why: format!("losers wait in `{hold}`: {why}"),
            },
        };
        let none = |resource: &str| DoctorResource {
            resource: resource.to_owned(),
            enforcer: "none".to_owned(),
            why: "tickets are kept; this version enforces cpu only".to_owned(),
        };
        let resources = vec![cpu, none("memory"), none("disk:DEVICE"), none("net:INTERFACE")];
        let mut checks = vec![
            Check {
                name: "hold".to_owned(),
                ok: hold == "idle",
                says: format!("losers wait in `{hold}`: {why}"),
            },
            Check {
                name: "life source".to_owned(),
                ok: self.life.is_ok(),
                says: self.life.clone().unwrap_or_else(|error| error),
            },
            Check {
                name: "sched_ext".to_owned(),
                ok: self.machine.has_sched_ext,
                says: if self.machine.has_sched_ext {
                    "the kernel can load schedulers; this version does not use it yet".to_owned()
                } else {
                    "the kernel cannot load schedulers; the user-level lottery is used".to_owned()
                },
            },
            self.cgroup(),
            Check {
                name: "scheduling groups".to_owned(),
                ok: self.groups.0,
                says: self.groups.1.clone(),
            },
        ];
        if let Some(status) = status {
            let drift = &status.cpu.drift;
            checks.push(Check {
                name: "drift".to_owned(),
                ok: drift.is_empty(),
                says: if drift.is_empty() {
                    "everything is as the plan has it".to_owned()
                } else {
                    drift.join("; ")
                },
            });
        }
        Doctor { machine: self.machine_line(), resources, checks }
    }

    fn cgroup(&self) -> Check {
        let (ok, says) = match &self.machine.cgroup {
            CgroupLayout::None => (false, "no cgroup tree is mounted".to_owned()),
            CgroupLayout::V2 { mount, controllers } => {
                (true, format!("version 2 at {mount} with {}", controllers.join(", ")))
            }
            CgroupLayout::V1 { controllers } => {
                (false, format!("version 1 only, with {}", controllers.join(", ")))
            }
            CgroupLayout::Hybrid { mount, v1_controllers, .. } => (
                false,
                format!("version 2 at {mount}, but {} are version 1's", v1_controllers.join(", ")),
            ),
        };
        Check { name: "cgroup".to_owned(), ok, says }
    }
}
