//! Cgroups where systemd owns them: run by tests/lab-cgroup.sh in the lab, under a systemd of its
//! own, or as root on any machine that it runs.
#![allow(missing_docs)]

mod common;
#[path = "support/disk.rs"]
mod disk;

use ::disk::look;
use common::{ACTOR, after_use, eventually, funds::Funds, kill, state_of, stop};
use disk::NullDisk;
use enforce_cgroup::{Cgroup, CgroupOptions, SETTINGS_RESTORED};
use enforce_cgroup::{CgroupOwner, DiskOptions, MemoryOptions, available};
use enforcer::{ClientState, Enforcer};
use ledger::{BASE, CurrencyId, Funding, Resource, TicketKind};
use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How far a share may be off, as a part of the CPU.
const OFF: f64 = 0.05;

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn here(test: &str) -> Option<Lab> {
        let why = match available() {
            Ok(root) if root.owner == CgroupOwner::Systemd => {
                let folder = tempfile::tempdir().expect("a folder");
                return Some(Lab { folder });
            }
            Ok(_) => "systemd does not own the cgroup tree".to_owned(),
            Err(why) => why.to_string(),
        };
        eprintln!("SKIP {test}: {why}");
        None
    }

    fn options(&self) -> CgroupOptions {
        let root = available().expect("as before");
        let record = self.folder.path().join("cgroups");
        CgroupOptions::new(root, ACTOR.into(), record)
    }

    fn enforcer(&self) -> Cgroup {
        Cgroup::start(self.options()).expect("an enforcer")
    }
}

/// A service that burns CPU 0. Stopped when dropped.
struct Unit {
    name: String,
    pid: u32,
}

impl Unit {
    fn start(name: &str, slice: &str) -> Unit {
        let name = format!("allot-test-{name}.service");
        let mut run = Command::new("systemd-run");
        run.args(["--quiet", "--collect", "--property=DefaultDependencies=no"]);
        run.arg(format!("--unit={name}")).arg(format!("--slice={slice}"));
        run.args(["taskset", "-c", "0", ACTOR, "burn", "1"]);
        assert!(run.status().expect("systemd-run").success());
        let mut pid = 0;
        eventually("the service runs", || {
            pid = show(&name, "MainPID").parse().unwrap_or(0);
            let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            pid != 0 && command.is_ok_and(|command| command.starts_with(ACTOR))
        });
        Unit { name, pid }
    }

    fn weight(&self) -> String {
        show(&self.name, "CPUWeight")
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = Command::new("systemctl").args(["stop", &self.name]).status();
    }
}

/// As an administrator does, for this boot.
fn set(unit: &str, property: &str) {
    let mut change = Command::new("systemctl");
    change.args(["set-property", "--runtime", unit, property]);
    assert!(change.status().expect("systemctl").success());
}

fn show(unit: &str, property: &str) -> String {
    let output = Command::new("systemctl").args(["show", "--value", "-p", property, unit]).output();
    String::from_utf8(output.expect("systemctl").stdout).expect("text").trim().to_owned()
}

fn place_of(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

const UNSET: &str = "[not set]";

#[test]
#[ignore = "lab"]
fn units_get_what_their_clients_are_worth() {
    let Some(lab) = Lab::here("units_get_what_their_clients_are_worth") else { return };
    let units = [
        Unit::start("a", "user-61001.slice"),
        Unit::start("b", "user-61001.slice"),
        Unit::start("c", "user-61002.slice"),
    ];
    let places: Vec<String> = units.iter().map(|unit| place_of(unit.pid)).collect();
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    let (two, one) = (funds.currency("two", 200), funds.currency("one", 100));
    let a = funds.client(two, 3, units[0].pid);
    let b = funds.client(two, 1, units[1].pid);
    let c = funds.client(one, 7, units[2].pid);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    eventually("all compete", || {
        let clients = enforcer.sample().expect("it runs").cpu.expect("of the CPU").clients;
        let competes = |state| matches!(state, ClientState::Running | ClientState::Waiting);
        clients.len() == 3 && clients.iter().all(|client| competes(client.state))
    });
    // Units are changed at most once a second each.
    let before = after_use(&mut enforcer, 2_500_000_000);
    let after = after_use(&mut enforcer, 2_000_000_000);
    let used = |id: CurrencyId| {
        let of = |sample: &enforcer::CpuSample| {
            sample.clients.iter().find(|client| client.id == id).map_or(0, |c| c.used_ns)
        };
        (of(&after) - of(&before)) as f64
    };
    let all = used(a) + used(b) + used(c);
    for (id, due) in [(a, 0.5), (b, 1.0 / 6.0), (c, 1.0 / 3.0)] {
        let got = used(id) / all;
        eprintln!("{id}: {got:.4} of {due:.4}");
        assert!((got - due).abs() < OFF, "{id} got {got:.4}, and {due:.4} was its due");
    }
    // Nobody was moved, and systemd knows what was done.
    for (unit, place) in units.iter().zip(&places) {
        assert_eq!(place_of(unit.pid), *place);
        assert_ne!(unit.weight(), UNSET);
    }
    let weight = |slice: &str| show(slice, "CPUWeight").parse::<f64>().expect("a number");
    let ratio = weight("user-61001.slice") / weight("user-61002.slice");
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");

    // What an administrator changes meanwhile is put right, and told.
    set(&units[0].name, "CPUWeight=77");
    let drift = enforcer.status().expect("it runs").drift;
    assert!(drift.iter().any(|drift| drift.what.contains("was 77")), "{drift:?}");
    assert_ne!(units[0].weight(), "77");

    drop(enforcer);
    for unit in &units {
        assert_eq!(unit.weight(), UNSET);
    }
    for slice in ["user-61001.slice", "user-61002.slice", "user.slice"] {
        assert_eq!(show(slice, "CPUWeight"), UNSET);
    }
}

#[test]
#[ignore = "lab"]
fn clients_of_one_unit_are_told_that_they_share_it() {
    let Some(lab) = Lab::here("clients_of_one_unit_are_told_that_they_share_it") else { return };
    let unit = Unit::start("d", "user-61003.slice");
    let other = common::TestProcess::start("in-unit", &["doze", "1", "50"]);
    // systemd's own doing would be to start both there.
    let folder = format!("/sys/fs/cgroup{}", place_of(unit.pid).trim().trim_start_matches("0::"));
    std::fs::write(format!("{folder}/cgroup.procs"), other.pid().to_string()).expect("moved");
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    funds.client(BASE, 1, unit.pid);
    funds.client(BASE, 1, other.pid());
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let clients = enforcer.status().expect("it runs").clients;
    for client in &clients {
        let note = client.note.as_deref().unwrap_or_default();
        assert!(note.contains("allot-test-d.service with 1 other client"), "{note}");
    }
    assert_eq!(clients.len(), 2);
}

#[test]
#[ignore = "lab"]
fn who_has_nothing_weighs_the_least() {
    let Some(lab) = Lab::here("who_has_nothing_weighs_the_least") else { return };
    let units = [Unit::start("g", "user-61005.slice"), Unit::start("h", "user-61005.slice")];
    let mut enforcer = lab.enforcer();
    let mut funds = Funds::new();
    funds.client(BASE, 1, units[0].pid);
    let poor = funds.client(BASE, 1, units[1].pid);
    funds.freeze(poor, true);
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let clients = enforcer.status().expect("it runs").clients;
    let note = clients.iter().find(|client| client.id == poor).and_then(|it| it.note.clone());
    assert!(note.is_some_and(|note| note.contains("not frozen")));
    eventually("it weighs 1", || units[1].weight() == "1");
    eventually("the other has the rest", || units[0].weight() == "200");
    enforcer.revert().expect("it runs");
    assert!(units.iter().all(|unit| unit.weight() == UNSET));
}

#[test]
#[ignore = "lab"]
fn killed_it_leaves_units_as_they_were() {
    let Some(lab) = Lab::here("killed_it_leaves_units_as_they_were") else { return };
    let units = [Unit::start("e", "user-61004.slice"), Unit::start("f", "user-61004.slice")];
    set(&units[1].name, "CPUWeight=222");
    for with_guardian in [false, true] {
        let record = lab.folder.path().join("cgroups");
        let mut command = Command::new(ACTOR);
        command.arg("enforce-cgroup").arg("allot").arg(&record);
        command.args(units.iter().map(|unit| unit.pid.to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        std::io::BufReader::new(out).read_line(&mut line).expect("it answers");
        let guardian: u32 = line.trim().parse().expect("the guardian's pid");
        eventually("both have weights", || {
            units[0].weight() != UNSET && units[1].weight() != "222"
        });
        if with_guardian {
            stop(child.id());
            kill(guardian);
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        if with_guardian {
            assert_ne!(units[0].weight(), UNSET);
            let enforcer = lab.enforcer();
            let leftovers = enforcer.leftovers();
            assert!(leftovers.number_of(SETTINGS_RESTORED) >= 2, "{leftovers:?}");
        }
        eventually("both are as they were", || {
            units[0].weight() == UNSET && units[1].weight() == "222"
        });
        eventually("the guardian leaves", || matches!(state_of(guardian), None | Some('Z' | 'X')));
    }
}

#[test]
#[ignore = "lab"]
fn weights_on_a_disk_are_set_and_set_back() {
    const TEST: &str = "weights_on_a_disk_are_set_and_set_back";
    let Some(lab) = Lab::here(TEST) else { return };
    let bfq = || disk::run("modprobe", &["bfq"]);
    if let Err(why) = disk::available().and_then(|()| bfq()) {
        eprintln!("SKIP {TEST}: {why}");
        return;
    }
    let disk = NullDisk::new("allot0", Duration::from_millis(4), 1);
    let number = look(&disk.name).expect("it is there").number;
    // What udev makes where there is one; systemd asks for it.
    let link = std::path::PathBuf::from(format!("/dev/block/{number}"));
    std::fs::create_dir_all("/dev/block").expect("a folder");
    if !link.exists() {
        std::os::unix::fs::symlink(disk.device(), &link).expect("a link");
    }
    let units = [Unit::start("i", "user-61006.slice"), Unit::start("j", "user-61006.slice")];
    let weights = |unit: &Unit| show(&unit.name, "IODeviceWeight");
    set(&units[1].name, &format!("IODeviceWeight={} 44", link.display()));
    let before = units.each_ref().map(weights);
    assert!(before[0].is_empty() && before[1].ends_with(" 44"), "{before:?}");
    let options =
        CgroupOptions { shares_cpu: false, disks: Some(DiskOptions::default()), ..lab.options() };
    let mut enforcer = Cgroup::start(options).expect("an enforcer");
    let mut funds = Funds::new();
    for (unit, amount) in units.iter().zip([300, 100]) {
        let client = funds.client(BASE, 1, unit.pid);
        let resource = Resource::disk("allot0");
        funds.fund_of(client, BASE, Funding { resource, kind: TicketKind::Soft, amount });
    }
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let weight = |unit: &Unit| -> f64 {
        let said = weights(unit);
        said.rsplit_once(' ').and_then(|(_, weight)| weight.parse().ok()).unwrap_or(0.0)
    };
    eventually("each unit weighs what its client is worth", || {
        let ratio = weight(&units[0]) / weight(&units[1]);
        (2.8..=3.2).contains(&ratio)
    });
    // And the kernel was told.
    let place = place_of(units[0].pid);
    let group = format!("/sys/fs/cgroup{}", place.trim().trim_start_matches("0::"));
    let file = format!("{group}/io.bfq.weight");
    eventually("the kernel has it", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.lines().any(|line| line.starts_with(&format!("{number} ")))
    });
    drop(enforcer);
    assert_eq!(units.each_ref().map(weights), before);
    let scheduler = std::fs::read_to_string(disk.queue().join("scheduler")).expect("it has one");
    assert!(scheduler.contains("[none]"), "{scheduler}");
    // Ours or udev's: it goes with the disk.
    let _ = std::fs::remove_file(link);
}

#[test]
#[ignore = "lab"]
fn shares_of_memory_are_set_and_set_back() {
    let Some(lab) = Lab::here("shares_of_memory_are_set_and_set_back") else { return };
    let units = [Unit::start("k", "user-61007.slice"), Unit::start("l", "user-61007.slice")];
    set(&units[1].name, "MemoryLow=1048576");
    let shares = |unit: &Unit| [show(&unit.name, "MemoryMin"), show(&unit.name, "MemoryLow")];
    let before = units.each_ref().map(shares);
    assert_eq!(before, [["0", "0"], ["0", "1048576"]]);
    let options = CgroupOptions {
        shares_cpu: false,
        memory: Some(MemoryOptions::default()),
        ..lab.options()
    };
    let mut enforcer = Cgroup::start(options).expect("an enforcer");
    let mut funds = Funds::new();
    funds.memory(100_000);
    for (unit, amount) in units.iter().zip([4000, 2000]) {
        let client = funds.client(BASE, 1, unit.pid);
        let (resource, kind) = (Resource::MEMORY, TicketKind::Hard);
        funds.fund_of(client, BASE, Funding { resource, kind, amount });
    }
    enforcer.apply(&funds.plan(1).into()).expect("a plan");
    let of = |kib: u64| [(kib * 1024).to_string(), (kib * 1024).to_string()];
    eventually("each unit keeps what its client is sure of", || {
        units.each_ref().map(shares) == [of(4000), of(2000)]
    });
    drop(enforcer);
    assert_eq!(units.each_ref().map(shares), before);
    for slice in ["user-61007.slice", "user.slice"] {
        assert_eq!(show(slice, "MemoryMin"), "0", "{slice}");
    }
}
