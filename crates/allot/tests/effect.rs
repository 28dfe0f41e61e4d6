//! A command that cannot take effect says so, and one about something that is not there is refused.

mod common;

use common::Daemon;
use nix::libc;
use std::process::Command;

/// A private allotd shares the CPU alone: everything else is kept, and that is said.
#[test]
fn what_has_no_effect_says_so_and_why() {
    let Some(daemon) = Daemon::start_with("what_has_no_effect_says_so_and_why", &[]) else {
        return;
    };
    daemon.says(&["currency", "create", "a"]);
    daemon.says(&["currency", "create", "b"]);
    let disk = std::fs::read_dir("/sys/class/block").ok().and_then(|mut list| list.next());
    let disk = disk.map(|it| it.expect("an entry").file_name().into_string().expect("a name"));
    let mut asked = vec![
        (vec!["fund", "a", "--from", "base", "--memory", "5"], "memory"),
        (vec!["fund", "a", "--from", "base", "--net", "lo=5"], "networks"),
    ];
    let of_disk = disk.map(|name| (format!("{name}=5"), format!("disk:{name}=1"), name));
    if let Some((shares, gift, name)) = &of_disk {
        asked.push((vec!["fund", "a", "--from", "base", "--disk", shares], "CPU only"));
        let lent = ["lend", "--from", "a", "--to", "#2", "--give", gift];
        asked.push((lent.to_vec(), "CPU only"));
        asked.push((vec!["limit", "a", "--disk", name, "--read", "10M"], "CPU only"));
    }
    for (arguments, why) in asked {
        let done = daemon.run(&arguments);
        let says = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {says}");
        assert!(
            says.contains("has no effect now: ") && says.contains(why),
            "{arguments:?}: {says}"
        );
        let json = daemon.json(&arguments)["results"][0]["notes"].to_string();
        assert!(json.contains("has no effect now"), "{arguments:?}: {json}");
    }
    for quiet in [
        ["fund", "a", "--from", "base", "--cpu", "5"],
        ["fund", "a", "--from", "base", "--net", "lo=0"],
    ] {
        let done = daemon.run(&quiet);
        assert!(done.status.success() && done.stderr.is_empty(), "{quiet:?}");
    }
}

#[test]
fn what_is_not_there_is_refused_and_changes_nothing() {
    let test = "what_is_not_there_is_refused_and_changes_nothing";
    let Some(daemon) = Daemon::start_with(test, &[]) else { return };
    daemon.says(&["currency", "create", "a"]);
    let before = daemon.json(&["tree"]);
    for missing in [
        &["fund", "a", "--from", "base", "--net", "nosuch0=5"][..],
        &["fund", "a", "--from", "base", "--cpu", "5", "--disk", "nosuchdisk=5"],
        &["limit", "a", "--disk", "nosuchdisk", "--read", "10M"],
        &["exchange", "offer", "--for", "a", "--give", "cpu=5", "--want", "disk:nosuchdisk=5"],
        &["exchange", "offer", "--for", "a", "--give", "net:nosuch0=5", "--want", "cpu=5"],
        &["lend", "--from", "a", "--to", "#0", "--give", "net:nosuch0=5"],
    ] {
        daemon.refuses(missing, "unknown");
    }
    assert_eq!(daemon.json(&["tree"]), before);
    for resource in ["mem", "disk:nosuchdisk", "cpu:0"] {
        let done = daemon.run(&["tree", "--resource", resource]);
        let says = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{resource}: {says}");
        assert!(says.contains("names no resource here; there are cpu, memory"), "{says}");
    }
    for resource in ["cpu", "memory", "net:eth0"] {
        daemon.says(&["tree", "--resource", resource]);
    }
}

/// A process that goes before all others whatever its tickets are, adopted: that is said at once.
#[test]
fn a_process_that_cannot_be_held_is_said_so_when_it_is_adopted() {
    let test = "a_process_that_cannot_be_held_is_said_so_when_it_is_adopted";
    let Some(daemon) = Daemon::start_with(test, &["--enforcer", "user-level"]) else { return };
    let mut first = Command::new("sleep").arg("1000").spawn().expect("sleep can be started");
    let mut plain = Command::new("sleep").arg("1000").spawn().expect("sleep can be started");
    let param = libc::sched_param { sched_priority: 1 };
    let pid = first.id().cast_signed();
    // SAFETY: the parameters are read and live.
    if unsafe { libc::sched_setscheduler(pid, libc::SCHED_FIFO, &raw const param) } == 0 {
        let done = daemon.run(&["adopt", &first.id().to_string()]);
        let says = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{says}");
        assert!(says.contains("does not get its share: its policy is SCHED_FIFO"), "{says}");
    } else {
        eprintln!("SKIP {test}: no right to SCHED_FIFO");
    }
    let done = daemon.run(&["adopt", &plain.id().to_string()]);
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    for child in [&mut first, &mut plain] {
        child.kill().expect("it is ours");
        child.wait().expect("it has ended");
    }
}
