//! What this machine offers, and what allot makes of it.

use crate::cpu::with_causes;
use enforce::cgroup::{NoCgroup, available_for};
use enforce::disk::{self, DEFAULT_DISKS_FILE, KeptDisks, Places};
use enforce::scx::WhyNot;
use observe::{CgroupLayout, MachineFacts};
use std::path::Path;
use wire::{Check, Doctor, DoctorResource, Status};

/// What was found out at the start.
pub struct Findings {
    machine: MachineFacts,
    hold: (String, String),
    life: Result<String, String>,
    groups: (bool, String),
    sched_ext: Result<String, String>,
    cgroup: Result<String, String>,
    others: Vec<DoctorResource>,
    gaps: Vec<Check>,
}

impl Findings {
    /// Look at the machine. Tries things out on processes of its own.
    pub fn look() -> Findings {
        let (hold, why) = enforce::hold_available();
        let life = observe::watch_best().map(|(_, why)| why).map_err(|error| error.to_string());
        let machine = observe::machine();
        let (others, gaps) = others();
        Findings {
            others,
            gaps,
            machine,
            hold: (hold.to_string(), why),
            life,
            groups: enforce::scheduling_groups(),
            sched_ext: sched_ext(),
            cgroup: enforce::cgroup::available()
                .map(|root| root.to_string())
                .map_err(|error| format!("{}; {}", with_causes(&error), cgroup_advice(&error))),
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
            None => {
                let (enforcer, why) = match (&self.sched_ext, &self.cgroup) {
                    (Ok(says), _) => ("sched-ext", says.clone()),
                    (Err(no), Ok(says)) => ("cgroup", format!("{says}; not sched-ext: {no}")),
                    (Err(no), Err(nor)) => {
                        let waits = format!("losers wait in `{hold}`: {why}");
                        ("user-level", format!("{waits}; not sched-ext: {no}; not cgroup: {nor}"))
                    }
                };
                DoctorResource { resource: "cpu".to_owned(), enforcer: enforcer.to_owned(), why }
            }
        };
        let mut resources = vec![cpu];
        let others = status.map(|status| status.others.as_slice()).unwrap_or_default();
        resources.extend(self.others.iter().map(|found| {
            let real = others.iter().find(|real| real.resource == found.resource);
            real.unwrap_or(found).clone()
        }));
        // Tickets of what is not there.
        let known: Vec<String> = resources.iter().map(|found| found.resource.clone()).collect();
        resources.extend(others.iter().filter(|real| !known.contains(&real.resource)).cloned());
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
            check("sched_ext", &self.sched_ext),
            check("cgroup weights", &self.cgroup),
            self.cgroup_layout(),
            Check {
                name: "scheduling groups".to_owned(),
                ok: self.groups.0,
                says: self.groups.1.clone(),
            },
        ];
        checks.extend(self.gaps.iter().cloned());
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

    fn cgroup_layout(&self) -> Check {
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

fn check(name: &str, found: &Result<String, String>) -> Check {
    let (ok, says) = match found {
        Ok(says) => (true, says.clone()),
        Err(says) => (false, says.clone()),
    };
    Check { name: name.to_owned(), ok, says }
}

/// What the kernel's scheduler would be like, or why there is none and what to do.
fn sched_ext() -> Result<String, String> {
    let facts = enforce::scx::available().map_err(|why| {
        let advice = match &why {
            WhyNot::NoSchedExt { .. } => {
                "a kernel since 6.12 with CONFIG_SCHED_CLASS_EXT=y has it (Ubuntu 25.04; not Debian 13's own)"
            }
            WhyNot::NoBtf { .. } => "it takes a kernel with CONFIG_DEBUG_INFO_BTF=y",
            WhyNot::BrokenBtf { .. } => "any other build of the kernel will do",
            WhyNot::NotPrivileged => "start allotd as root, without --user",
            WhyNot::InContainer => "run allotd on the machine itself",
            WhyNot::Occupied { .. } => "stop it, and start allotd again",
        };
        format!("{why}; {advice}")
    })?;
    let lends = match facts.has_lock_tracepoints {
        true => "who waits for a lock of the kernel lends its tickets",
        false => "without the tracepoints of locks: who waits for one lends nothing",
    };
    Ok(format!("kernel {} can run allot's scheduler; {lends}", facts.release))
}

/// What memory, every disk and the network would be shared by, and what of it no share can hold.
fn others() -> (Vec<DoctorResource>, Vec<Check>) {
    let of = |resource: String, enforcer: &str, why: String| DoctorResource {
        resource,
        enforcer: enforcer.to_owned(),
        why,
    };
    let memory = match available_for("memory") {
        Ok(root) => of("memory".to_owned(), "cgroup", format!("{root}, once anybody has tickets")),
        Err(no) => of("memory".to_owned(), "none", format!("{no}; {}", cgroup_advice(&no))),
    };
    let (mut all, mut gaps) = (vec![memory], Vec::new());
    let io = available_for("io");
    let kept = KeptDisks::load(Path::new(DEFAULT_DISKS_FILE));
    if let Err(error) = &kept {
        gaps.push(Check { name: "disk speeds".to_owned(), ok: false, says: with_causes(error) });
    }
    let kept = kept.unwrap_or_default();
    for facts in
        disk::names(&Places::of_this_machine()).iter().filter_map(|name| disk::look(name).ok())
    {
        let speed = kept.get(&facts).map(|kept| &kept.speed);
        let report = disk::report(&facts, speed);
        let name = format!("disk:{}", facts.name);
        all.push(match (&io, &report.way) {
            (Err(no), _) => of(name.clone(), "none", format!("{no}; {}", cgroup_advice(no))),
            (Ok(_), Ok(way)) => {
                let line = format!("once anybody has tickets; {}", report.line);
                of(name.clone(), way.name(), line)
            }
            (Ok(_), Err(no)) => of(name.clone(), "none", no.to_string()),
        });
        for says in report.gaps {
            gaps.push(Check { name: name.clone(), ok: false, says });
        }
    }
    all.push(of("net:INTERFACE".to_owned(), "none", "this version shares no networks".to_owned()));
    (all, gaps)
}

fn cgroup_advice(why: &NoCgroup) -> &'static str {
    match why {
        NoCgroup::NoTree => "mount -t cgroup2 none /sys/fs/cgroup",
        NoCgroup::BoundToV1(_) => {
            "boot with systemd.unified_cgroup_hierarchy=1 or cgroup_no_v1=all"
        }
        NoCgroup::NoController(..) => "it takes a kernel that was built with it",
        NoCgroup::NotRoot => "start allotd as root, without --user",
        NoCgroup::ReadOnly(_) => "give the container a tree that it may write",
        NoCgroup::Occupied(_) => "move its processes into a cgroup below it first",
        NoCgroup::NoBus(_) => "start D-Bus, or see why `busctl status` fails",
        NoCgroup::Kernel(_) => "see the kernel's log",
    }
}
