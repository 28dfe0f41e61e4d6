//! Disks that this machine does not have, as sysfs would show them.

use super::*;
use crate::filesystem::CgroupWriteback;
use crate::{IoController, Model, NoIoController, Speed};
use std::os::unix::fs::symlink;

/// A machine with an sda of two partitions; dm-0 on sda2, dm-1 on both sda and sdb, and md0 on dm-1's
/// like; zram0, which has no queue.
struct Machine {
    folder: tempfile::TempDir,
    places: Places,
}

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places {
            sys: folder.path().join("sys"),
            cgroups: Some(folder.path().join("cgroups")),
            mounts: folder.path().join("mountinfo"),
            modules: folder.path().join("modules"),
        };
        let machine = Machine { folder, places };
        machine.put("cgroups/cgroup.controllers", "cpu io memory");
        for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("zram0", "252:0")] {
            machine.device(name, name, number);
        }
        for (name, number) in [("sda1", "8:1"), ("sda2", "8:2")] {
            machine.device(name, &format!("sda/{name}"), number);
            machine.put(&format!("sys/devices/sda/{name}/partition"), "1");
        }
        for name in ["sda", "sdb"] {
            machine.put(&format!("sys/devices/{name}/queue/scheduler"), "[none] mq-deadline\n");
            machine.put(&format!("sys/devices/{name}/queue/nr_requests"), "64\n");
            machine.put(&format!("sys/devices/{name}/mq/0/nr_tags"), "32\n");
        }
        machine.put("sys/devices/sda/queue/rotational", "1\n");
        machine.put("sys/devices/sda/size", "2048\n");
        machine.put("sys/devices/sda/diskseq", "9\n");
        for (name, number, below) in [
            ("dm-0", "253:0", &["sda2"][..]),
            ("dm-1", "253:1", &["sda", "sdb"]),
            ("dm-2", "253:2", &["dm-0"]),
        ] {
            machine.device(name, name, number);
            for part in below {
                machine.put(&format!("sys/devices/{name}/slaves/{part}/dev"), "");
            }
        }
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn device(&self, name: &str, place: &str, number: &str) {
        self.put(&format!("sys/devices/{place}/dev"), &format!("{number}\n"));
        let device = self.places.sys.join("devices").join(place);
        for (folder, link) in [("class/block", name), ("dev/block", number)] {
            let folder = self.places.sys.join(folder);
            std::fs::create_dir_all(&folder).expect("a folder");
            symlink(&device, folder.join(link)).expect("a link");
        }
    }

    fn look(&self, name: &str) -> Result<DiskFacts, NoDisk> {
        look_in(&self.places, name)
    }
}

const MODEL: Model =
    Model { rbps: 1, rseqiops: 1, rrandiops: 1, wbps: 1, wseqiops: 1, wrandiops: 1 };
const SPEED: Speed = Speed { read_latency_us: 1, write_latency_us: 1, model: MODEL };

#[test]
fn a_disk_is_itself() {
    let facts = Machine::new().look("/dev/sda").expect("there is one");
    assert_eq!(facts.name, "sda");
    assert_eq!(facts.number.to_string(), "8:0");
    assert_eq!(facts.steps, [""; 0]);
    assert_eq!(facts.sequence, Some(9));
    assert_eq!((facts.nr_requests, facts.hardware_depth), (Some(64), Some(32)));
    assert_eq!((facts.is_rotational, facts.size_bytes), (Some(true), Some(1 << 20)));
    assert_eq!(facts.controllers, (true, true));
    assert_eq!(facts.identity, "name sda of 1048576 bytes");
    let scheduler = facts.scheduler.expect("it has one");
    assert_eq!(scheduler.current, "none");
    assert_eq!(scheduler.offered, ["none", "mq-deadline"]);
}

#[test]
fn what_carries_requests_is_found() {
    let machine = Machine::new();
    assert_eq!(machine.look("sda1").expect("one").steps, ["sda1 is a partition of sda"]);
    let facts = machine.look("dm-2").expect("one");
    assert_eq!(facts.name, "sda");
    assert_eq!(
        facts.steps,
        ["dm-2 stands on dm-0", "dm-0 stands on sda2", "sda2 is a partition of sda"]
    );
    let several = machine.look("dm-1").expect_err("two disks");
    assert_eq!(several.to_string(), "dm-1 is made of sda, sdb: name each of them by itself");
    machine.device("nvme0n1", "nvme0n1", "259:0");
    machine.put("sys/devices/nvme0n1/multipath/nvme0c0n1/dev", "");
    machine.device("nvme0c0n1", "nvme0c0n1", "0:0");
    machine.put("sys/devices/nvme0c0n1/hidden", "1\n");
    assert!(matches!(machine.look("nvme0n1"), Err(NoDisk::Hidden(name)) if name == "nvme0c0n1"));
    assert!(matches!(machine.look("zram0"), Err(NoDisk::NoQueue(name)) if name == "zram0"));
}

#[test]
fn what_is_not_there_is_said() {
    let machine = Machine::new();
    assert!(matches!(machine.look("sdc"), Err(NoDisk::NotThere(name)) if name == "sdc"));
    for wrong in ["", ".", "..", "../../etc", "/dev/"] {
        assert!(matches!(machine.look(wrong), Err(NoDisk::NoName(_))), "{wrong}");
    }
    // Gone between two looks.
    std::fs::remove_file(machine.places.sys.join("devices/sda/dev")).expect("it was there");
    assert!(matches!(machine.look("sda"), Err(NoDisk::NotThere(_))));
    machine.put("sys/devices/sda/dev", "nonsense");
    let error = machine.look("sda").expect_err("no number").to_string();
    assert!(error.contains("sda/dev") && error.contains("nonsense"), "{error}");
}

#[test]
fn a_disk_is_known_by_what_it_says_of_itself() {
    let machine = Machine::new();
    machine.put("sys/devices/sda/device/serial", " \n");
    machine.put("sys/devices/sdb/device/serial", "  AB  12\n");
    let identity = |name| machine.look(name).expect("one").identity;
    assert_eq!(identity("sda"), "name sda of 1048576 bytes");
    assert_eq!(identity("sdb"), "serial AB 12");
    machine.put("sys/devices/sdb/device/wwid", "naa.5000c500\n");
    assert_eq!(identity("sdb"), "wwid naa.5000c500");
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let mut machine = Machine::new();
    machine.places.cgroups = None;
    let facts = machine.look("sdb").expect("one");
    assert_eq!((facts.sequence, facts.is_rotational, facts.size_bytes), (None, None, None));
    assert_eq!(facts.controllers, (false, false));
    assert!(!facts.has_iocost);
    assert_eq!(facts.cost, (None, None));
}

#[test]
fn a_way_is_chosen_or_refused_with_reasons() {
    let machine = Machine::new();
    let choose = |speed| IoController::choose(&machine.look("sda").expect("one"), speed);
    let why =
        |refused: Result<IoController, NoIoController>| refused.expect_err("no way").to_string();
    let says = why(choose(None));
    assert!(says.contains("allot calibrate sda") && says.contains("no module bfq"), "{says}");
    machine.put("modules/modules.dep", "kernel/block/bfq.ko.xz:\n");
    let says = why(choose(Some(&SPEED)));
    assert!(says.contains("io.cost.qos") && says.contains("modprobe bfq"), "{says}");
    machine.put("cgroups/io.cost.qos", "8:0 enable=0 ctrl=auto\n");
    assert_eq!(choose(Some(&SPEED)), Ok(IoController::Iocost(SPEED)));
    let says = why(choose(Some(&Speed { model: Model { rbps: 0, ..MODEL }, ..SPEED })));
    assert!(says.contains("speed is none"), "{says}");
    machine.put("sys/devices/sda/queue/scheduler", "none [bfq]\n");
    assert_eq!(choose(None), Ok(IoController::Bfq));
    machine.put("sys/devices/sda/mq/0/nr_tags", "7\n");
    assert_eq!(choose(Some(&SPEED)), Ok(IoController::Bfq), "a shallow device");
    machine.put("sys/devices/sda/queue/scheduler", "[none]\n");
    assert_eq!(choose(Some(&SPEED)), Ok(IoController::Iocost(SPEED)), "rather than nothing");
    machine.put("sys/devices/sda/queue/scheduler", "none [bfq]\n");
    machine.put("sys/devices/sda/mq/0/nr_tags", "8\n");
    assert_eq!(choose(Some(&SPEED)), Ok(IoController::Iocost(SPEED)));
    let facts = machine.look("sda").expect("one");
    assert_eq!(facts.cost.0.as_deref(), Some("8:0 enable=0 ctrl=auto"));
}

#[test]
fn file_systems_on_a_disk_are_found() {
    let machine = Machine::new();
    machine.put(
        "mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
         2 1 8:1 /x /x rw - ext4 /dev/sda1 rw\n\
         3 1 253:2 / /home rw - vfat /dev/mapper/home rw\n\
         4 1 253:1 / /both rw - xfs /dev/mapper/both rw\n\
         5 1 8:16 / /other rw - ext4 /dev/sdb rw\n\
         6 1 0:20 / /proc rw - proc proc rw\n",
    );
    let facts = machine.look("sda").expect("one");
    let seen: Vec<_> = facts
        .file_systems
        .iter()
        .map(|it| (it.mount_point.to_str().expect("text"), it.writeback))
        .collect();
    assert_eq!(
        seen,
        [
            ("/", CgroupWriteback::ByCgroup),
            ("/home", CgroupWriteback::Unknown),
            ("/both", CgroupWriteback::ByCgroup)
        ]
    );
}

#[test]
fn schedulers_are_read() {
    let read = |text| Scheduler::read(text).map(|it| (it.current, it.offered.len()));
    assert_eq!(read("none [bfq] kyber\n"), Some(("bfq".to_owned(), 3)));
    assert_eq!(read("none\n"), Some(("none".to_owned(), 1)));
    assert_eq!(read(""), None);
    assert_eq!(read("a b"), None);
}
