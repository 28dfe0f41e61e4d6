//! Weights of cgroup v1 and nice values on real processes: shares, what is told, and that everything is given back.
#![allow(missing_docs)]

mod common;

use common::{ACTOR, TestProcess, eventually, funds::Funds, kill, named, state_of, within_seconds};
use enforce_weights::{CarrierName, Weights, WeightsOptions, WeightsRestorer, available};
use enforcer::{ClientState, Enforcer};
use ledger::{BASE, CurrencyId, ProcessIdentity};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use undo::scheduling::{nice_of, set_nice};
use undo::{LogEntry, Restored, Restorer};

/// A machine to test one carrier on.
struct Lab {
    carrier: CarrierName,
    name: String,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Lab {
    /// `None`, and a line that says so, where this machine cannot run the test.
    fn here(test: &str, carrier: CarrierName) -> Option<Lab> {
        static ONE: Mutex<()> = Mutex::new(());
        let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let works = available(Some(carrier)).and_then(|_| match carrier {
            CarrierName::Nice if !has_autogroups() => Err("sessions are no groups here".to_owned()),
            _ => Ok(()),
        });
        if let Err(why) = works {
            eprintln!("SKIP {test}: {why}");
            return None;
        }
        let name = format!("allot-test-{}", std::process::id());
        let folder = tempfile::tempdir().expect("a folder");
        Some(Lab { carrier, name, folder, _alone: alone })
    }

    fn record(&self) -> PathBuf {
        self.folder.path().join("weights")
    }

    fn enforcer(&self) -> Weights {
        Weights::start(WeightsOptions {
            carrier: self.carrier,
            name: self.name.clone(),
            program: ACTOR.into(),
            record: self.record(),
        })
        .expect("an enforcer")
    }

    /// The weight that carries a process's share: `cpu.shares` of its cgroup, or the nice value of its autogroup, negated.
    fn weight(&self, process: &TestProcess) -> i64 {
        match self.carrier {
            CarrierName::CgroupV1 => {
                let folder = mount().join(cgroup(process.pid()).trim_start_matches('/'));
                let text = std::fs::read_to_string(folder.join("cpu.shares")).unwrap_or_default();
                text.trim().parse().unwrap_or(0)
            }
            CarrierName::Nice => -autogroup_nice(process.pid()),
        }
    }

    /// Nothing of ours is there.
    #[track_caller]
    fn is_as_before(&self, processes: &[&TestProcess]) {
        for process in processes {
            assert_eq!(cgroup(process.pid()), cgroup(std::process::id()));
            assert_eq!((autogroup_nice(process.pid()), nice_of(process.pid()).ok()), (0, Some(0)));
            assert_ne!(state_of(process.pid()), Some('T'));
        }
        let Some(left) = std::fs::read_dir(mount()).ok() else { return };
        let beginning = format!("{}-", self.name);
        let ours = left
            .flatten()
            .filter(|it| it.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)));
        assert_eq!(ours.count(), 0, "no cgroup was left");
    }
}

const CARRIERS: [CarrierName; 2] = [CarrierName::CgroupV1, CarrierName::Nice];

fn has_autogroups() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled")
        .is_ok_and(|text| text.trim() == "1")
        && cgroup(std::process::id()) == "/"
}

fn mount() -> PathBuf {
    let mounts = observe::mounts().expect("/proc");
    let has_cpu = |mount: &observe::Mount| mount.options.iter().any(|(name, _)| name == "cpu");
    let found = mounts.into_iter().find(|mount| mount.kind == "cgroup" && has_cpu(mount));
    found.map_or_else(|| PathBuf::from("/nonexistent"), |mount| mount.mount_point)
}

/// The v1 cgroup of the CPU controller, `/` where there is none.
fn cgroup(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then(|| path.to_owned())
    });
    path.unwrap_or_else(|| "/".to_owned())
}

fn autogroup_nice(pid: u32) -> i64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/autogroup")).unwrap_or_default();
    line.trim().rsplit(' ').next().and_then(|nice| nice.parse().ok()).unwrap_or(0)
}

/// Runs on the first CPU only, in a session of its own.
fn alone_on_a_cpu(command: &mut Command) {
    let ours = rustix::thread::sched_getaffinity(None).expect("our CPUs");
    let first = (0..).find(|cpu| ours.is_set(*cpu)).expect("a CPU");
    let mut set = rustix::thread::CpuSet::new();
    set.set(first);
    // SAFETY: both calls are safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            rustix::thread::sched_setaffinity(None, &set)?;
            Ok(nix::unistd::setsid().map(drop)?)
        });
    }
}

fn hog(tag: &str) -> TestProcess {
    TestProcess::burning(tag, 1, alone_on_a_cpu)
}

fn used(enforcer: &mut Weights, ids: &[CurrencyId]) -> Vec<u64> {
    let sample = enforcer.sample().expect("it runs").cpu.expect("of the CPU");
    let of =
        |id: &CurrencyId| sample.clients.iter().find(|it| it.id == *id).map_or(0, |it| it.used_ns);
    ids.iter().map(of).collect()
}

/// Two users with a hog each on one CPU, 1:3; then one of them has two hogs.
///
/// One look, in which they use 3 s of CPU time by a clock that counts instructions. On one CPU the kernel's fair clock leaves
/// nobody behind by more than two slices (3 ms each): 0.2 %. Nice values change twice a second between two steps, of which one
/// half-second may be in excess: 25 % of 0.5 s of 3 s. So a share is within 0.05.
#[test]
#[ignore = "lab"]
fn users_get_their_shares_however_many_processes_they_have() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("users_get_their_shares", carrier) else { continue };
        let hogs = [hog("allot-w-a"), hog("allot-w-b"), hog("allot-w-c")];
        let mut funds = Funds::new();
        let (poor, rich) = (funds.currency("poor", 100), funds.currency("rich", 300));
        let first = funds.client(poor, 1, hogs[0].pid());
        let second = funds.client(rich, 1, hogs[1].pid());
        let mut enforcer = lab.enforcer();
        enforcer.apply(&funds.plan(1).into()).expect("a plan");
        within_seconds(120, "weights are set", || lab.weight(&hogs[1]) > lab.weight(&hogs[0]));
        assert_share_of_second(carrier, &mut enforcer, &[first, second]);
        // A second process of the poor one takes nothing from the rich one.
        let third = funds.client(poor, 1, hogs[2].pid());
        enforcer.apply(&funds.plan(2).into()).expect("a plan");
        within_seconds(120, "weights are set", || lab.weight(&hogs[1]) > lab.weight(&hogs[2]));
        assert_share_of_second(carrier, &mut enforcer, &[first, second, third]);
        drop(enforcer);
        lab.is_as_before(&hogs.iter().collect::<Vec<_>>());
    }
}

#[track_caller]
fn assert_share_of_second(carrier: CarrierName, enforcer: &mut Weights, ids: &[CurrencyId]) {
    let before = used(enforcer, ids);
    let mut after = before.clone();
    let total = |used: &[u64]| used.iter().sum::<u64>();
    within_seconds(120, "3 s of CPU time", || {
        after = used(enforcer, ids);
        total(&after) - total(&before) > 3_000_000_000
    });
    let share = (after[1] - before[1]) as f64 / (total(&after) - total(&before)) as f64;
    eprintln!("{carrier}: {share:.3}");
    assert!((share - 0.75).abs() < 0.05, "{carrier}: {share:.3} for 0.75");
}

#[test]
fn who_leaves_the_plan_has_back_what_it_had_and_the_rest_stays() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("who_leaves_the_plan", carrier) else { continue };
        let hogs = [hog("allot-w-a"), hog("allot-w-b")];
        let mut funds = Funds::new();
        let ids = [funds.client(BASE, 1, hogs[0].pid()), funds.client(BASE, 3, hogs[1].pid())];
        let mut enforcer = lab.enforcer();
        enforcer.apply(&funds.plan(1).into()).expect("a plan");
        eventually("weights are set", || lab.weight(&hogs[1]) > lab.weight(&hogs[0]));
        let status = enforcer.status().expect("it runs");
        assert!(
            status.guarded && status.clients.iter().all(|it| it.state != ClientState::Unmanaged)
        );
        assert_eq!(status.cpu.expect("of the CPU").algorithm, None, "the kernel's own");
        // The other stays. Its user moves to another house: it has the weight of its new client.
        funds.release(ids[0]);
        funds.release(ids[1]);
        let other = funds.currency("other", 7);
        let id = funds.client(other, 1, hogs[1].pid());
        enforcer.apply(&funds.plan(2).into()).expect("a plan");
        let status = enforcer.status().expect("it runs");
        assert_eq!(status.clients.iter().map(|it| it.id).collect::<Vec<_>>(), [id]);
        assert_eq!((cgroup(hogs[0].pid()), nice_of(hogs[0].pid()).ok()), ("/".to_owned(), Some(0)));
        if carrier == CarrierName::CgroupV1 {
            let its_own = format!("/{}-c{}", lab.name, id.0);
            eventually("it is in its new client's cgroup", || cgroup(hogs[1].pid()) == its_own);
        }
        enforcer.revert().expect("it runs");
        lab.is_as_before(&[&hogs[0], &hogs[1]]);
    }
}

#[test]
fn somebody_elses_changes_are_theirs_and_no_stranger_is_touched() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("somebody_elses_changes", carrier) else { continue };
        let hogs = [hog("allot-w-a"), hog("allot-w-b"), hog("allot-w-c")];
        let foreign = mount().join(format!("foreign-{}", lab.name));
        let mut funds = Funds::new();
        for (index, hog) in hogs[..2].iter().enumerate() {
            funds.client(BASE, 1 + 4 * index as u64, hog.pid());
        }
        let mut plan = funds.plan(1);
        // The number of the third, but of a process that is gone.
        let mut wrong = plan.clients[0].clone();
        let gone = ProcessIdentity { pid: hogs[2].pid(), start_time_ticks: 1 };
        (wrong.id, wrong.founder) = (CurrencyId(99), gone.into());
        plan.clients.push(wrong);
        let mut enforcer = lab.enforcer();
        enforcer.apply(&plan.into()).expect("a plan");
        eventually("weights are set", || lab.weight(&hogs[1]) > lab.weight(&hogs[0]));
        lab.is_untouched(&hogs[2]);
        match carrier {
            CarrierName::CgroupV1 => {
                // Into a cgroup with a limit: it stays there, now and afterwards.
                std::fs::create_dir(&foreign).expect("root may");
                std::fs::write(foreign.join("cpu.shares"), "512").expect("root may");
                let pid = hogs[0].pid().to_string();
                std::fs::write(foreign.join("cgroup.procs"), pid).expect("root may");
            }
            CarrierName::Nice => set_nice(hogs[0].pid(), 7).expect("root may"),
        }
        let mut told = Vec::new();
        eventually("the drift is told", || {
            told.extend(enforcer.status().expect("it runs").drift);
            told.iter().any(|drift| drift.process.is_some_and(|it| it.pid == hogs[0].pid()))
        });
        enforcer.revert().expect("it runs");
        let now = (cgroup(hogs[0].pid()), nice_of(hogs[0].pid()).expect("it lives"));
        let stays = match carrier {
            CarrierName::CgroupV1 => (format!("/foreign-{}", lab.name), 0),
            CarrierName::Nice => ("/".to_owned(), 7),
        };
        assert_eq!(now, stays, "{told:?}");
        drop(enforcer);
        lab.is_as_before(&[&hogs[1], &hogs[2]]);
        drop(hogs);
        if carrier == CarrierName::CgroupV1 {
            eventually("the cgroup is empty", || std::fs::remove_dir(&foreign).is_ok());
        }
    }
}

impl Lab {
    #[track_caller]
    fn is_untouched(&self, process: &TestProcess) {
        let now =
            (cgroup(process.pid()), autogroup_nice(process.pid()), nice_of(process.pid()).ok());
        assert_eq!(now, ("/".to_owned(), 0, Some(0)));
    }
}

/// Whose a process is, the kernel is asked before each change: a plan may be late.
#[test]
fn a_process_that_became_anothers_has_back_what_it_had() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("a_process_that_became_anothers", carrier) else { continue };
        let hogs = [hog("allot-w-a"), hog("allot-w-b")];
        let mut funds = Funds::new();
        let ids = [funds.client(BASE, 1, hogs[0].pid()), funds.client(BASE, 5, hogs[1].pid())];
        let us = nix::unistd::getuid().as_raw();
        let mut plan = funds.plan(1);
        plan.clients.iter_mut().for_each(|client| client.owners = vec![us]);
        let mut enforcer = lab.enforcer();
        enforcer.apply(&plan.clone().into()).expect("a plan");
        eventually("weights are set", || lab.weight(&hogs[1]) > lab.weight(&hogs[0]));
        plan.generation = 2;
        plan.clients[1].owners = vec![us + 1];
        enforcer.apply(&plan.into()).expect("a plan");
        let status = enforcer.status().expect("it runs");
        let client = status.clients.into_iter().find(|it| it.id == ids[1]).expect("of the plan");
        assert_eq!(client.state, ClientState::Unmanaged);
        assert!(client.note.is_some_and(|note| note.contains("another user")));
        lab.is_untouched(&hogs[1]);
    }
}

/// Nobody is given back anything by number alone, nor what is no more as we have set it.
#[test]
fn the_restorer_touches_no_stranger_and_nothing_that_was_changed_since() {
    let process = TestProcess::start("allot-w-other", &["doze", "1", "50"]);
    let process = observe::ProcessHandle::open(process.pid()).expect("it lives").identity();
    let restore = |process: ProcessIdentity, own: i32, given: i32| {
        let was = serde_json::json!({ "nice": {
            "process": process, "session": u32::MAX, "own": own, "others": [], "given": given, "at_ticks": 0,
        } });
        let entry = LogEntry { undo: "weights".to_owned(), key: "nice".to_owned(), was };
        let mut restored = Restored::default();
        WeightsRestorer.restore(&[entry], &mut restored);
        assert!(restored.failed.is_empty() && restored.left.is_empty(), "{restored:?}");
        nice_of(process.pid).expect("it lives")
    };
    let stranger = ProcessIdentity { start_time_ticks: process.start_time_ticks - 1, ..process };
    assert_eq!(restore(stranger, 5, 0), 0, "another process had its number");
    assert_eq!(restore(process, 5, 3), 0, "it has not what it was given");
    assert_eq!(restore(process, 5, 0), 5, "it has");
}

#[test]
fn the_frozen_stand_and_guests_get_what_is_left() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("the_frozen_stand", carrier) else { continue };
        let hogs = [hog("allot-w-host"), hog("allot-w-guest"), hog("allot-w-ice")];
        let mut funds = Funds::new();
        let ids = hogs.each_ref().map(|hog| funds.client(BASE, 100, hog.pid()));
        funds.guest(ids[1]);
        funds.freeze(ids[2], true);
        let plan = |funds: &Funds, generation| {
            let mut plan = funds.plan(generation);
            plan.clients[1].class = ledger::Class::Guest;
            plan
        };
        let mut enforcer = lab.enforcer();
        enforcer.apply(&plan(&funds, 1).into()).expect("a plan");
        eventually("it stands", || state_of(hogs[2].pid()) == Some('T'));
        eventually("the guest has less than the host", || match carrier {
            CarrierName::CgroupV1 => cgroup(hogs[1].pid()) == format!("/{}-guests", lab.name),
            CarrierName::Nice => autogroup_nice(hogs[1].pid()) == 19,
        });
        let (before, mut after) = (used(&mut enforcer, &ids), vec![0; 3]);
        within_seconds(120, "1 s of CPU time", || {
            after = used(&mut enforcer, &ids);
            after[0] - before[0] > 1_000_000_000
        });
        // A host at nice 0 beside a guest at nice 19 has 1024 parts of 1039; a slice at each end of a second beside that.
        let guest = (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64;
        assert!(guest < 0.1, "{carrier}: the guest got {guest:.3} of what its host did");
        kill_with(hogs[2].pid(), nix::sys::signal::Signal::SIGCONT);
        eventually("it is stopped again, and that is told", || {
            let drift = enforcer.status().expect("it runs").drift;
            drift.iter().any(|drift| drift.what.contains("stopped again"))
        });
        funds.freeze(ids[2], false);
        enforcer.apply(&plan(&funds, 2).into()).expect("a plan");
        eventually("it goes on", || state_of(hogs[2].pid()) != Some('T'));
        drop(enforcer);
        lab.is_as_before(&hogs.iter().collect::<Vec<_>>());
    }
}

fn kill_with(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
    nix::sys::signal::kill(pid, signal).expect("it lives");
}

/// An enforcer in a process of its own, to be killed.
struct Enforcing {
    child: Child,
    answers: BufReader<ChildStdout>,
    guardian_pid: u32,
}

impl Enforcing {
    fn start(lab: &Lab, processes: &[&TestProcess]) -> Enforcing {
        let mut command = Command::new(ACTOR);
        command.args(["enforce-weights", &lab.carrier.to_string(), &lab.name]).arg(lab.record());
        command.args(processes.iter().map(|process| process.pid().to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: prctl is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
            });
        }
        let mut child = command.spawn().expect("the actor runs");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut enforcing = Enforcing { child, answers, guardian_pid: 0 };
        let line = enforcing.read_line().expect("it answers");
        enforcing.guardian_pid = line.trim().parse().expect("the guardian's pid");
        enforcing
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(line)
    }

    /// Waits until something is so; if that never comes, with what the enforcer says of itself.
    #[track_caller]
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "not within 30 s: {what}\n{}", self.says());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The enforcer's status and sample, in words.
    fn says(&mut self) -> String {
        let asked = self.child.stdin.as_mut().expect("piped").write_all(b"\n");
        match asked.and_then(|()| self.read_line()) {
            Ok(line) => line,
            Err(error) => format!("{error}: {:?}", self.child.try_wait()),
        }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Enforcing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two of a session, so that nice values are given too; and one that forks children, which inherit what it has.
fn crowd(tag: &str) -> [TestProcess; 3] {
    let start = |what: &[&str]| TestProcess::start_with(tag, what, |_| {});
    [start(&["burn", "1"]), start(&["fork"]), start(&["burn", "3"])]
}

#[track_caller]
fn nobody_is_changed(tag: &str) {
    let ours = cgroup(std::process::id());
    for pid in named(tag) {
        // It may end at any moment.
        let (now, nice) = (cgroup(pid), nice_of(pid));
        let lives = Path::new(&format!("/proc/{pid}")).exists();
        assert!(!lives || (now == ours && nice.is_ok_and(|nice| nice == 0)), "{pid} is in {now}");
    }
    assert!(!named(tag).is_empty(), "there was somebody to look at");
}

fn is_any_changed(tag: &str) -> bool {
    let ours = cgroup(std::process::id());
    named(tag)
        .into_iter()
        .any(|pid| cgroup(pid) != ours || nice_of(pid).is_ok_and(|nice| nice != 0))
}

#[test]
fn a_killed_enforcer_leaves_nothing_changed() {
    for carrier in CARRIERS {
        let Some(lab) = Lab::here("a_killed_enforcer_leaves_nothing_changed", carrier) else {
            continue;
        };
        // Its children are found by this name on the whole machine, where the same test may run twice.
        let tag = &format!("allot-w-{}", std::process::id());
        let processes = crowd(tag);
        let all: Vec<&TestProcess> = processes.iter().collect();
        for round in 0..6 {
            let mut enforcing = Enforcing::start(&lab, &all);
            enforcing.wait_until("somebody is changed", || is_any_changed(tag));
            if round % 3 == 2 {
                // Both: what is on record is given back at the next start.
                kill(enforcing.guardian_pid);
                enforcing.kill();
                eventually("they are gone", || {
                    matches!(state_of(enforcing.guardian_pid), None | Some('Z'))
                });
                let restorers: &[&dyn Restorer] = &[&WeightsRestorer];
                let restored = undo::restore_leftovers(&lab.record(), restorers).expect("readable");
                assert!(restored.failed.is_empty(), "{restored:?}");
                assert!(!lab.record().exists(), "nothing is left to restore");
            } else {
                enforcing.kill();
                eventually("the guardian has done its work", || {
                    matches!(state_of(enforcing.guardian_pid), None | Some('Z' | 'X'))
                });
            }
            nobody_is_changed(tag);
        }
        lab.is_as_before(&all);
    }
}
