//! Giving back, on files that say what sysfs would. What the kernel itself makes of a write (a
//! scheduler's defaults) is tested on a real one: tests/disk.rs.

use super::*;

struct Disk {
    folder: tempfile::TempDir,
    found: FoundDisk,
}

const NUMBER: DeviceNumber = DeviceNumber { major: 8, minor: 0 };
const OUR_QUALITY: &str = "8:0 enable=1 ctrl=user rpct=95.00";
const OUR_MODEL: &str = "8:0 ctrl=user model=linear rbps=9";

impl Disk {
    /// With BFQ instead of `scheduler`, and iocost on.
    fn new(scheduler: &str) -> Disk {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = scheduler == "bfq";
        let setting = |file: &str, text: &str, ours: &str| FoundSetting {
            file: file.to_owned(),
            text: text.to_owned(),
            ours: kept.then(|| ours.to_owned()),
        };
        let found = FoundDisk {
            name: "sda".to_owned(),
            number: NUMBER,
            sequence: Some(9),
            folder: folder.path().to_owned(),
            queue: Some(FoundQueue {
                scheduler: scheduler.to_owned(),
                ours: "bfq".to_owned(),
                chosen_anew: false,
                settings: vec![
                    setting("nr_requests", "17", "128"),
                    setting("iosched/low_latency", "1", "0"),
                ],
            }),
            cost: Some(FoundCost {
                mount: folder.path().to_owned(),
                quality: None,
                our_quality: OUR_QUALITY.to_owned(),
                model: Some("8:0 ctrl=auto model=linear rbps=5".to_owned()),
                our_model: Some(OUR_MODEL.to_owned()),
            }),
        };
        let disk = Disk { folder, found };
        disk.put("dev", "8:0");
        disk.put("diskseq", "9");
        disk.put("queue/scheduler", "none [bfq] mq-deadline");
        disk.put("queue/nr_requests", "128");
        disk.put("queue/iosched/low_latency", "0");
        disk.put("io.cost.qos", &format!("8:16 enable=1\n{OUR_QUALITY}\n"));
        disk.put("io.cost.model", &format!("{OUR_MODEL} rseqiops=3\n"));
        disk
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.folder.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    fn says(&self, file: &str) -> String {
        read(&self.folder.path().join(file)).expect("a file")
    }

    /// A note is a line of a file: it comes back as it was.
    fn give_back(&self) -> GivenBack {
        let line = serde_json::to_string(&self.found).expect("a note is JSON");
        let found: FoundDisk = serde_json::from_str(&line).expect("and is read again");
        assert_eq!(found, self.found);
        let given = found.give_back();
        assert_eq!(given.failed, [""; 0]);
        given
    }
}

/// A file begins with this, as after a write to a file that is not the kernel's.
fn begins(text: &str, start: &str) -> bool {
    text.starts_with(start)
}

#[test]
fn all_is_given_back_in_order() {
    let disk = Disk::new("mq-deadline");
    let given = disk.give_back();
    assert_eq!((given.restored, given.left.len()), (5, 0), "{given:?}");
    assert!(begins(&disk.says("io.cost.qos"), "8:0 enable=0 ctrl=auto"));
    assert!(begins(&disk.says("io.cost.model"), "8:0 ctrl=auto"));
    assert!(begins(&disk.says("queue/scheduler"), "mq-deadline"));
    assert!(begins(&disk.says("queue/nr_requests"), "17"));
    assert!(begins(&disk.says("queue/iosched/low_latency"), "1"));
}

#[test]
fn after_an_interruption_the_rest_is_given_back() {
    // The scheduler is back, with the kernel's defaults; its settings are not.
    let disk = Disk::new("mq-deadline");
    disk.put("queue/scheduler", "none bfq [mq-deadline]");
    disk.put("queue/nr_requests", "256");
    disk.put("io.cost.qos", "8:0 enable=0 ctrl=auto rpct=0.00\n");
    disk.put("io.cost.model", "8:0 ctrl=auto model=linear rbps=5\n");
    let given = disk.give_back();
    assert_eq!((given.restored, given.left.len()), (2, 0), "{given:?}");
    assert_eq!(disk.says("queue/scheduler"), "none bfq [mq-deadline]");
    assert!(begins(&disk.says("queue/nr_requests"), "17"));
}

#[test]
fn before_the_first_change_nothing_is_written() {
    let disk = Disk::new("mq-deadline");
    disk.put("queue/scheduler", "none bfq [mq-deadline]");
    disk.put("queue/nr_requests", "17");
    disk.put("queue/iosched/low_latency", "1");
    disk.put("io.cost.qos", "");
    disk.put("io.cost.model", "8:0 ctrl=auto model=linear rbps=5\n");
    assert_eq!(disk.give_back(), GivenBack::default());
}

#[test]
fn somebody_elses_scheduler_stays_and_so_do_its_settings() {
    let disk = Disk::new("none");
    disk.put("queue/scheduler", "none bfq [mq-deadline]");
    let given = disk.give_back();
    assert_eq!(given.left.len(), 1, "{given:?}");
    assert!(given.left[0].contains("mq-deadline by now"), "{given:?}");
    assert_eq!(disk.says("queue/scheduler"), "none bfq [mq-deadline]");
    assert_eq!(disk.says("queue/nr_requests"), "128");
    assert!(begins(&disk.says("io.cost.qos"), "8:0 enable=0"), "iocost is another matter");
}

#[test]
fn somebody_elses_settings_stay() {
    let disk = Disk::new("bfq");
    disk.put("queue/nr_requests", "64");
    disk.put("io.cost.qos", "8:0 enable=1 ctrl=user rpct=50.00\n");
    disk.put("io.cost.model", "8:0 ctrl=user model=linear rbps=1000\n");
    let given = disk.give_back();
    assert_eq!((given.restored, given.left.len()), (1, 3), "{given:?}");
    assert_eq!(disk.says("queue/nr_requests"), "64");
    assert!(begins(&disk.says("queue/iosched/low_latency"), "1"));
    assert!(disk.says("io.cost.qos").contains("rpct=50.00"));
}

/// BFQ that is chosen anew: wherever we are interrupted, also while there is none, all comes back.
#[test]
fn a_scheduler_that_is_chosen_anew_comes_back_with_its_settings() {
    let mut disk = Disk::new("bfq");
    disk.found.cost = None;
    let queue = disk.found.queue.as_mut().expect("a queue");
    queue.chosen_anew = true;
    queue.settings.iter_mut().for_each(|setting| setting.ours = None);
    queue.settings[0].text = "2".to_owned();
    // What we made it, then on the way there or back, then chosen with the kernel's defaults.
    for (scheduler, requests) in [("none [bfq]", "128"), ("[none] bfq", "1"), ("none [bfq]", "2")] {
        disk.put("queue/scheduler", scheduler);
        disk.put("queue/nr_requests", requests);
        disk.put("queue/iosched/low_latency", "0");
        let given = disk.give_back();
        assert_eq!(given.left, [""; 0]);
        // A write to a file that is no kernel's leaves what was longer.
        let chosen = disk.says("queue/scheduler");
        assert!(begins(&chosen, "bfq") || chosen == "none [bfq]", "{chosen}");
        assert!(begins(&disk.says("queue/nr_requests"), "2"));
        assert_eq!(disk.says("queue/iosched/low_latency"), "1");
    }
    disk.put("queue/scheduler", "none bfq [mq-deadline]");
    assert_eq!(disk.give_back().left.len(), 1, "somebody else's stays");
}

#[test]
fn a_device_that_is_gone_is_no_failure() {
    let disk = Disk::new("none");
    std::fs::remove_file(disk.folder.path().join("dev")).expect("it was there");
    assert_eq!(disk.give_back(), GivenBack::default());
    // It goes between the look and the write.
    let disk = Disk::new("none");
    std::fs::remove_dir_all(disk.folder.path().join("queue")).expect("it was there");
    assert_eq!(disk.give_back().restored, 2);
}

#[test]
fn another_device_of_the_same_name_is_none_of_ours() {
    let disk = Disk::new("none");
    disk.put("diskseq", "10");
    assert_eq!(disk.give_back(), GivenBack::default());
    assert_eq!(disk.says("queue/nr_requests"), "128");
}

#[test]
fn what_the_kernel_refuses_is_said() {
    let disk = Disk::new("none");
    // A folder cannot be written.
    let file = disk.folder.path().join("queue/nr_requests");
    std::fs::remove_file(&file).expect("it was there");
    let mut given = GivenBack::default();
    given.wrote("nr_requests of sda", write(disk.folder.path(), "17"));
    assert!(given.failed[0].starts_with("nr_requests of sda stays changed: "), "{given:?}");
}
