//! Disks on a real kernel: run by tests/lab-disk.sh in the lab, or on any machine with null_blk whose
//! cgroup v2 tree nobody owns. One test at a time: each wants the CPUs.
#![allow(missing_docs)]

mod common;
#[path = "support/disk.rs"]
mod disk;

use ::disk::{
    CalibrateError, CalibrateOptions, CgroupWriteback, DiskFacts, FoundDisk, IoController, Model,
    NoDisk, Notes, Places, PrepareError, PreparedDisk, Speed, calibrate, calibration_depth,
    calibration_folder, look, prepare, read_usage, speed,
};
use common::TestProcess;
use disk::NullDisk;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request of 4 ms: an emulator's timers keep that, and not 1 ms.
const REQUEST: Duration = Duration::from_millis(4);
const REQUESTS_A_SECOND: u64 = 250;

/// Of such a disk, which does not care how long a request is.
const SPEED: Speed = Speed {
    read_latency_us: 4000,
    write_latency_us: 4000,
    model: Model {
        rbps: REQUESTS_A_SECOND << 20,
        rseqiops: REQUESTS_A_SECOND,
        rrandiops: REQUESTS_A_SECOND,
        wbps: REQUESTS_A_SECOND << 20,
        wseqiops: REQUESTS_A_SECOND,
        wrandiops: REQUESTS_A_SECOND,
    },
};

/// A machine to test on.
struct Lab {
    places: Places,
    mount: PathBuf,
    /// Controllers that the readers' cgroups need and that were off.
    enabled: Vec<&'static str>,
}

impl Lab {
    /// `None`, and a line that says so, where this machine cannot run the test.
    fn here(test: &str) -> Option<Lab> {
        match Lab::means() {
            Ok(mount) => {
                let controllers = mount.join("cgroup.subtree_control");
                let on = read(&controllers);
                let off = |name: &&str| !on.split(' ').any(|on| on == *name);
                let enabled: Vec<_> = ["io", "memory"].into_iter().filter(off).collect();
                enabled.iter().for_each(|name| write(&controllers, &format!("+{name}")));
                Some(Lab { places: Places::of_this_machine(), mount, enabled })
            }
            Err(why) => {
                eprintln!("SKIP {test}: {why}");
                None
            }
        }
    }

    fn means() -> Result<PathBuf, String> {
        use enforce_cgroup::{CgroupOwner, available};
        let root = available().map_err(|why| why.to_string())?;
        if root.owner != CgroupOwner::Nobody {
            return Err(root.to_string());
        }
        disk::available()?;
        for module in ["bfq", "mq-deadline"] {
            disk::run("modprobe", &[module])?;
        }
        match root.mount.join("io.cost.qos").exists() {
            true => Ok(root.mount),
            false => Err("this kernel has no iocost".to_owned()),
        }
    }

    fn prepare(&self, facts: &DiskFacts, controller: IoController) -> (PreparedDisk, FoundDisk) {
        let mut notes = Kept::default();
        let prepared =
            prepare(&self.places, facts, controller, &mut notes).expect("it is prepared");
        assert_eq!(prepared.drift(), [""; 0], "what was set is set");
        let [found] = <[String; 1]>::try_from(notes.0).expect("one note");
        (prepared, serde_json::from_str(&found).expect("a note is read again"))
    }

    /// All that there is to see of a disk: files of its queue, and its lines of iocost. One that the
    /// kernel never heard of says the same as one that is off.
    fn picture(&self, disk: &NullDisk) -> BTreeMap<String, String> {
        let mut picture = BTreeMap::new();
        let mut folders = vec![disk.queue()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(text) = std::fs::read_to_string(&path) {
                    picture.insert(path.display().to_string(), text);
                }
            }
        }
        let facts = look(&disk.name).expect("it is there");
        let off = format!("{} enable=0 ctrl=auto", facts.number);
        let auto = format!("{} ctrl=auto", facts.number);
        let (quality, model) = facts.cost;
        let is_off = quality.as_ref().is_none_or(|line| line.starts_with(&off));
        picture.insert("quality".to_owned(), if is_off { off } else { quality.expect("a line") });
        let is_auto = model.as_ref().is_none_or(|line| line.starts_with(&auto));
        picture.insert("model".to_owned(), if is_auto { auto } else { model.expect("a line") });
        picture
    }
}

/// Notes as lines, as a record keeps them.
#[derive(Default)]
struct Kept(Vec<String>);

impl Notes for Kept {
    fn note_disk(&mut self, found: &FoundDisk) -> io::Result<()> {
        self.0.push(serde_json::to_string(found)?);
        Ok(())
    }
}

struct Full;

impl Notes for Full {
    fn note_disk(&mut self, _: &FoundDisk) -> io::Result<()> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}

const CONTROLLERS: [IoController; 2] = [IoController::Bfq, IoController::Iocost(SPEED)];

/// A disk with a scheduler and settings of an administrator's.
fn with(scheduler: &str, settings: &[(&str, &str)]) -> NullDisk {
    let disk = NullDisk::new("allot0", REQUEST, 8);
    write(&disk.queue().join("scheduler"), scheduler);
    for (file, text) in settings {
        write(&disk.queue().join(file), text);
    }
    disk
}

#[test]
#[ignore = "lab"]
fn every_file_is_given_back_as_it_was_found() {
    let Some(lab) = Lab::here("every_file_is_given_back_as_it_was_found") else { return };
    for (scheduler, settings) in [
        ("none", &[][..]),
        ("mq-deadline", &[("nr_requests", "50"), ("iosched/read_expire", "123")]),
        ("bfq", &[("iosched/slice_idle_us", "3500"), ("nr_requests", "20")]),
        ("bfq", &[("nr_requests", "300"), ("iosched/low_latency", "0")]),
    ] {
        let disk = with(scheduler, settings);
        let before = lab.picture(&disk);
        for controller in CONTROLLERS {
            let facts = look(&disk.name).expect("it is there");
            let (prepared, found) = lab.prepare(&facts, controller);
            let queue = disk.queue();
            match controller {
                IoController::Bfq => {
                    assert!(read(&queue.join("scheduler")).contains("[bfq]"));
                    assert_eq!(read(&queue.join("iosched/low_latency")), "0");
                    assert_eq!(read(&queue.join("iosched/slice_idle")), "8");
                    let requests: u32 = read(&queue.join("nr_requests")).parse().expect("a number");
                    assert!(requests >= 128, "{requests}");
                }
                IoController::Iocost(_) => {
                    assert!(!read(&queue.join("scheduler")).contains("[bfq]"));
                    let facts = look(&disk.name).expect("it is there");
                    let quality = facts.cost.0.expect("a line");
                    assert!(quality.contains("enable=1 ctrl=user"), "{quality}");
                }
            }
            let is_as_wanted = scheduler == "bfq" && settings.contains(&("nr_requests", "300"));
            if !(controller == IoController::Bfq && is_as_wanted) {
                assert_ne!(lab.picture(&disk), before);
            }
            let given = prepared.give_back();
            assert_eq!((given.left, given.failed), (vec![], vec![]));
            assert_eq!(lab.picture(&disk), before, "{scheduler}, {}", controller.name());
            // As by who comes later: there is nothing left to do.
            assert_eq!(found.give_back(), Default::default());
        }
    }
}

#[test]
#[ignore = "lab"]
fn iocost_of_an_administrator_comes_back() {
    let Some(lab) = Lab::here("iocost_of_an_administrator_comes_back") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 8);
    let number = look(&disk.name).expect("it is there").number;
    for (quality, model) in [
        (
            "enable=1 ctrl=user rpct=90.50 rlat=7000 wpct=91.00 wlat=8000 min=50.00 max=150.00",
            "ctrl=user model=linear rbps=1000000 rseqiops=100 rrandiops=90 wbps=800000 \
             wseqiops=70 wrandiops=60",
        ),
        ("enable=1 ctrl=auto", "ctrl=auto"),
    ] {
        write(&lab.mount.join("io.cost.model"), &format!("{number} {model}"));
        write(&lab.mount.join("io.cost.qos"), &format!("{number} {quality}"));
        let before = lab.picture(&disk);
        for controller in CONTROLLERS {
            let facts = look(&disk.name).expect("it is there");
            let (prepared, _) = lab.prepare(&facts, controller);
            let now = facts_of(&disk).cost.0.expect("a line");
            assert_eq!(
                now.contains("enable=0"),
                controller == IoController::Bfq,
                "one at a time: {now}"
            );
            drop(prepared);
            assert_eq!(lab.picture(&disk), before, "{}", controller.name());
        }
    }
}

#[test]
#[ignore = "lab"]
fn a_note_alone_is_enough() {
    let Some(lab) = Lab::here("a_note_alone_is_enough") else { return };
    for controller in CONTROLLERS {
        let disk = with("mq-deadline", &[("nr_requests", "50")]);
        let before = lab.picture(&disk);
        let facts = look(&disk.name).expect("it is there");
        let (prepared, found) = lab.prepare(&facts, controller);
        // As when we are killed.
        std::mem::forget(prepared);
        let given = found.give_back();
        assert!(
            given.restored > 0 && given.left.is_empty() && given.failed.is_empty(),
            "{given:?}"
        );
        assert_eq!(lab.picture(&disk), before, "{}", controller.name());
    }
}

#[test]
#[ignore = "lab"]
fn a_disk_that_vanishes_is_no_failure() {
    let Some(lab) = Lab::here("a_disk_that_vanishes_is_no_failure") else { return };
    for controller in CONTROLLERS {
        let disk = NullDisk::new("allot0", REQUEST, 1);
        let facts = look(&disk.name).expect("it is there");
        let (prepared, found) = lab.prepare(&facts, controller);
        disk.vanish();
        assert!(!prepared.is_there());
        assert_eq!(prepared.drift(), [""; 0]);
        assert!(matches!(look(&disk.name), Err(NoDisk::NotThere(_))));
        let gone = prepare(&lab.places, &facts, controller, &mut Kept::default());
        assert!(matches!(gone, Err(PrepareError::Gone(_))), "{gone:?}");
        // Another one of the same name and number is none of ours.
        let other = with("mq-deadline", &[("nr_requests", "50")]);
        let before = lab.picture(&other);
        assert_eq!(look(&other.name).expect("it is there").number, facts.number);
        assert_eq!(prepared.give_back(), Default::default());
        assert_eq!(found.give_back(), Default::default());
        assert_eq!(lab.picture(&other), before);
    }
}

/// Else BFQ injects others' requests into the turns of a reader that waits for the CPU. And turns on a deep
/// device end by what was served.
#[test]
#[ignore = "lab"]
fn one_request_at_a_time_is_strictly_in_turn() {
    let Some(lab) = Lab::here("one_request_at_a_time_is_strictly_in_turn") else { return };
    for (depth, strict, budget) in [(1, "1", "256"), (4, "0", "256"), (8, "0", "64")] {
        let disk = NullDisk::new("allot0", REQUEST, depth);
        let before = lab.picture(&disk);
        let (prepared, _) = lab.prepare(&facts_of(&disk), IoController::Bfq);
        assert_eq!(read(&disk.queue().join("iosched/strict_guarantees")), strict, "{depth}");
        assert_eq!(read(&disk.queue().join("iosched/max_budget")), budget, "{depth}");
        prepared.give_back();
        assert_eq!(lab.picture(&disk), before);
    }
}

#[test]
#[ignore = "lab"]
fn what_somebody_else_chose_stays() {
    let Some(lab) = Lab::here("what_somebody_else_chose_stays") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 8);
    let facts = look(&disk.name).expect("it is there");
    let (prepared, _) = lab.prepare(&facts, IoController::Bfq);
    write(&disk.queue().join("scheduler"), "mq-deadline");
    write(&disk.queue().join("nr_requests"), "77");
    assert_eq!(prepared.drift().len(), 1, "{:?}", prepared.drift());
    let given = prepared.give_back();
    assert_eq!((given.restored, given.left.len(), given.failed.len()), (0, 1, 0), "{given:?}");
    assert!(read(&disk.queue().join("scheduler")).contains("[mq-deadline]"));
    assert_eq!(read(&disk.queue().join("nr_requests")), "77");
    let (prepared, _) = lab.prepare(&facts_of(&disk), IoController::Iocost(SPEED));
    write(&lab.mount.join("io.cost.qos"), &format!("{} rpct=50 rlat=1234", facts.number));
    let given = prepared.give_back();
    assert_eq!((given.restored, given.left.len(), given.failed.len()), (1, 1, 0), "{given:?}");
    let quality = facts_of(&disk).cost.0.expect("a line");
    assert!(quality.contains("enable=1") && quality.contains("rlat=1234"), "{quality}");
}

fn facts_of(disk: &NullDisk) -> DiskFacts {
    look(&disk.name).expect("it is there")
}

#[test]
#[ignore = "lab"]
fn without_a_note_nothing_is_changed() {
    let Some(lab) = Lab::here("without_a_note_nothing_is_changed") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 8);
    let before = lab.picture(&disk);
    for controller in CONTROLLERS {
        let refused = prepare(&lab.places, &facts_of(&disk), controller, &mut Full);
        assert!(matches!(refused, Err(PrepareError::Note { .. })), "{refused:?}");
        assert_eq!(lab.picture(&disk), before);
    }
    // Half-way: the model is taken, the quality is not.
    let bad = Speed { model: Model { rbps: u64::MAX, ..SPEED.model }, ..SPEED };
    let mut places = lab.places.clone();
    places.cgroups = Some(PathBuf::from("/nowhere"));
    let refused =
        prepare(&places, &facts_of(&disk), IoController::Iocost(bad), &mut Kept::default());
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(lab.picture(&disk), before);
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in &self.enabled {
            let _ = std::fs::write(self.mount.join("cgroup.subtree_control"), format!("-{name}"));
        }
    }
}

/// A cgroup with a weight on a disk, and who reads in it.
struct Reader<'a> {
    group: PathBuf,
    controller: &'a IoController,
    facts: &'a DiskFacts,
    _process: Option<TestProcess>,
}

impl<'a> Reader<'a> {
    fn new(
        lab: &Lab,
        facts: &'a DiskFacts,
        controller: &'a IoController,
        name: &str,
    ) -> Reader<'a> {
        let group = lab.mount.join(format!("allot-test-disk-{name}"));
        std::fs::create_dir(&group).expect("a cgroup");
        Reader { group, controller, facts, _process: None }
    }

    fn weigh(&self, weight: u32) {
        let order = self.controller.weigh(self.facts.number, weight);
        write(&self.group.join(order.file), &order.text);
        let text = read(&self.group.join(order.file));
        assert_eq!(self.controller.weight_in(self.facts.number, &text), Some(weight), "{text}");
    }

    fn reads(mut self, name: &str, depth: u32) -> Self {
        let path = format!("/dev/{}", self.facts.name);
        let procs = self.group.join("cgroup.procs");
        let depth = depth.to_string();
        let arguments = ["read-disk", &path, "268435456", &depth];
        self._process = Some(TestProcess::start_with(name, &arguments, |command| {
            // SAFETY: one open, write and close each, which are safe between fork and exec.
            unsafe { command.pre_exec(move || std::fs::write(&procs, "0")) };
        }));
        self
    }

    fn requests(&self) -> u64 {
        let usage = read_usage(&self.group).expect("it is there");
        usage.get(&self.facts.number).map_or(0, |usage| usage.reads)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self._process = None;
        let order = self.controller.unweigh(self.facts.number);
        let _ = std::fs::write(self.group.join(order.file), &order.text);
        let begun = std::time::Instant::now();
        while std::fs::remove_dir(&self.group).is_err() && begun.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Requests in a turn of BFQ: its `timeout_sync` is 125 ms.
const TURN: f64 = 125.0 / 4.0;

/// Two readers of 4:1 get that. They may have been at work on the disk as it was found.
///
/// Counted for 12 s, a fifth of which is some 590 requests. The count may begin and end in any turn, so one
/// more or less says nothing; besides, 2 % are the machine's.
fn assert_four_to_one(
    lab: &Lab,
    disk: &NullDisk,
    controller: IoController,
    reader_depth: u32,
    since: Option<Duration>,
) {
    let facts = facts_of(disk);
    let reader = |name| Reader::new(lab, &facts, &controller, name).reads(name, reader_depth);
    let before = since.map(|since| {
        let readers = ["four", "one"].map(reader);
        std::thread::sleep(since);
        readers
    });
    let (_prepared, _) = lab.prepare(&facts, controller);
    let readers = before.unwrap_or_else(|| ["four", "one"].map(reader));
    readers[0].weigh(400);
    readers[1].weigh(100);
    // A turn that began before BFQ was told not to favour anybody lasts up to 30 of its turns, and the
    // other makes up for it then.
    std::thread::sleep(Duration::from_secs(if since.is_some() { 8 } else { 2 }));
    let before = readers.each_ref().map(Reader::requests);
    std::thread::sleep(Duration::from_secs(12));
    let [four, one] = readers.each_ref().map(Reader::requests);
    let served = [(four - before[0]) as f64, (one - before[1]) as f64];
    eprintln!("{}: {served:?}, {:.2}:1", controller.name(), served[0] / served[1]);
    let fifth = (served[0] + served[1]) / 5.0;
    assert!((served[1] - fifth).abs() <= TURN + 0.02 * fifth, "{served:?}: {fifth} for the lesser");
}

#[test]
#[ignore = "lab"]
fn bfq_serves_by_weight() {
    let Some(lab) = Lab::here("bfq_serves_by_weight") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    assert_four_to_one(&lab, &disk, IoController::Bfq, 4, None);
}

/// BFQ as distributions set it up keeps of each process what it thought of it, which would bend shares
/// for as long as the process lives: allot chooses it anew.
#[test]
#[ignore = "lab"]
fn bfq_that_was_found_serves_by_weight_who_was_there_before() {
    let Some(lab) = Lab::here("bfq_that_was_found_serves_by_weight_who_was_there_before") else {
        return;
    };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let queue = disk.queue();
    write(&queue.join("scheduler"), "bfq");
    assert_eq!(read(&queue.join("iosched/low_latency")), "1", "as the kernel sets it");
    let before = lab.picture(&disk);
    assert_four_to_one(&lab, &disk, IoController::Bfq, 2, Some(Duration::from_secs(4)));
    assert_eq!(lab.picture(&disk), before);
}

#[test]
#[ignore = "lab"]
fn iocost_serves_a_measured_disk_by_weight() {
    let Some(lab) = Lab::here("iocost_serves_a_measured_disk_by_weight") else { return };
    let disk = NullDisk::new("allot0", REQUEST, 1);
    let speed = {
        let mounted = disk.mounted();
        let facts = facts_of(&disk);
        let folder = calibration_folder(&facts).expect("it is mounted");
        assert_eq!(folder, mounted.folder.path());
        let options = CalibrateOptions {
            folder,
            file_bytes: 32 << 20,
            each: Duration::from_millis(1500),
            depth: calibration_depth(&facts),
        };
        let runs = calibrate(&lab.places, &facts, &options, &mut |_| {}).expect("measured");
        let speed = speed(&runs).expect("every load was");
        eprintln!("measured {speed:?}");
        let left: Vec<_> = std::fs::read_dir(mounted.folder.path()).expect("a folder").collect();
        assert_eq!(left.len(), 1, "lost+found alone: {left:?}");
        // Not where somebody holds it back, nor where it is not.
        let (prepared, _) = lab.prepare(&facts, IoController::Iocost(speed));
        let held = calibrate(&lab.places, &facts_of(&disk), &options, &mut |_| {});
        assert!(matches!(held, Err(CalibrateError::HeldBack { .. })), "{held:?}");
        drop(prepared);
        let elsewhere = CalibrateOptions { folder: std::env::temp_dir(), ..options };
        let elsewhere = calibrate(&lab.places, &facts, &elsewhere, &mut |_| {});
        assert!(matches!(elsewhere, Err(CalibrateError::Elsewhere { .. })), "{elsewhere:?}");
        speed
    };
    // An emulator's timers are late, never early; 0.6 is for a machine that is busy besides.
    let ideal = REQUESTS_A_SECOND as f64;
    for (name, value) in [
        ("read in order", speed.model.rseqiops),
        ("read anywhere", speed.model.rrandiops),
        ("written in order", speed.model.wseqiops),
        ("written anywhere", speed.model.wrandiops),
    ] {
        let part = value as f64 / ideal;
        assert!((0.6..=1.05).contains(&part), "{name}: {value} a second");
    }
    for latency_us in [speed.read_latency_us, speed.write_latency_us] {
        assert!((3_900..=7_000).contains(&latency_us), "{latency_us}");
    }
    assert_four_to_one(&lab, &disk, IoController::Iocost(speed), 4, None);
}

#[test]
#[ignore = "lab"]
fn buffered_writes_count_for_who_wrote() {
    let Some(lab) = Lab::here("buffered_writes_count_for_who_wrote") else { return };
    let disk = NullDisk::new("allot0", Duration::from_micros(50), 8);
    let mounted = disk.mounted();
    let place = mounted.folder.path().display();
    let facts = facts_of(&disk);
    let [ext4] = facts.file_systems.as_slice() else { panic!("{:?}", facts.file_systems) };
    assert_eq!((ext4.kind.as_str(), ext4.writeback), ("ext4", CgroupWriteback::ByCgroup));
    let (_prepared, _) = lab.prepare(&facts, IoController::Bfq);
    let writer = Reader::new(&lab, &facts, &IoController::Bfq, "writer");
    writer.weigh(100);
    let file = format!("{place}/file");
    let script = format!(
        "echo 0 >{}/cgroup.procs; head -c 8388608 /dev/zero >{file}; sync {file}",
        writer.group.display()
    );
    disk::run("sh", &["-c", &script]).expect("it writes");
    let written = read_usage(&writer.group).expect("it is there")[&facts.number].written_bytes;
    drop(writer);
    drop(mounted);
    assert!(written >= 8 << 20, "{written} bytes");
}
