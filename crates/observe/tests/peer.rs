//! The peers of real sockets, and the machine's facts against other readers.

mod common;

use allot_observe::{CgroupLayout, machine, peer_of};
use common::{Actor, is_root, skip, until};
use std::os::unix::net::{UnixListener, UnixStream};

/// A socket that the actor has connected to.
fn connected(actor: &mut Actor) -> UnixStream {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("bind");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    for place in [directory.path(), &path] {
        std::fs::set_permissions(place, Clone::clone(&open)).expect("anybody may connect");
    }
    assert_eq!(actor.tell(&format!("connect {}", path.display())), "ok");
    listener.accept().expect("accept").0
}

#[test]
fn a_peer_is_who_connected() {
    let mut actor = Actor::start();
    let socket = connected(&mut actor);
    let peer = peer_of(&socket).expect("a peer");
    assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
    assert_eq!(peer.gid, rustix::process::getegid().as_raw());
    let ours: Vec<u32> =
        rustix::process::getgroups().expect("groups").into_iter().map(|gid| gid.as_raw()).collect();
    assert_eq!(peer.groups, ours);
    assert_eq!(peer.process, Some(actor.handle().identity()));
}

#[test]
fn a_peer_keeps_the_ids_that_it_connected_with() {
    if !is_root() {
        return skip("a_peer_keeps_the_ids_that_it_connected_with", "only root may change its ids");
    }
    // More groups than fit the first buffer, and few.
    for groups in [0, 3, 500] {
        let mut actor = Actor::start();
        assert_eq!(actor.tell(&format!("setgroups {groups}")), "ok");
        assert_eq!(actor.tell("setgid 54321"), "ok");
        assert_eq!(actor.tell("setuid 65534"), "ok");
        let socket = connected(&mut actor);
        let peer = peer_of(&socket).expect("a peer");
        assert_eq!((peer.uid, peer.gid), (65534, 54321));
        let expected: Vec<u32> = (5000..5000 + groups).collect();
        assert_eq!(peer.groups, expected);
        assert_eq!(peer.process, Some(actor.handle().identity()));
    }
}

#[test]
fn a_peer_that_has_exited_is_no_process() {
    let mut actor = Actor::start();
    let socket = connected(&mut actor);
    let handle = actor.handle();
    actor.end_unreaped();
    until("it has exited", || !handle.is_alive());
    let unreaped = peer_of(&socket).expect("a peer");
    assert_eq!(unreaped.process, None);
    assert_eq!(unreaped.uid, rustix::process::geteuid().as_raw());
    actor.end();
    assert_eq!(peer_of(&socket).expect("a peer"), unreaped);
}

#[test]
fn what_is_no_connected_socket_has_no_peer() {
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert!(peer_of(&file).is_err());
    let unconnected = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    assert!(peer_of(&unconnected).is_err());
}

#[test]
fn the_machine_is_what_other_tools_say() {
    let run = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).output().expect(program);
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    let facts = machine();
    assert_eq!(facts.kernel_release, run("uname", &["-r"]));
    assert_eq!(facts.cpus_allowed.len().to_string(), run("nproc", &[]));
    assert_eq!(facts.cpus_online.to_string(), run("getconf", &["_NPROCESSORS_ONLN"]));
    assert_eq!(facts.clock_ticks_per_second.to_string(), run("getconf", &["CLK_TCK"]));
    let boot_id = run("cat", &["/proc/sys/kernel/random/boot_id"]);
    assert_eq!(facts.boot_id.as_deref(), Some(boot_id.as_str()));
    let pages: u64 = run("getconf", &["_PHYS_PAGES"]).parse().expect("a number");
    let page_bytes: u64 = run("getconf", &["PAGESIZE"]).parse().expect("a number");
    assert_eq!(facts.memory_total_bytes, Some(pages * page_bytes));
    let mounted = run("findmnt", &["-rn", "-t", "cgroup,cgroup2", "-o", "FSTYPE"]);
    let has = |kind: &str| mounted.lines().any(|line| line == kind);
    match &facts.cgroup {
        CgroupLayout::None => assert!(!has("cgroup") && !has("cgroup2")),
        CgroupLayout::V1 { controllers } => {
            assert!(has("cgroup") && !has("cgroup2") && !controllers.is_empty());
        }
        CgroupLayout::V2 { mount, controllers } => {
            assert!(!has("cgroup") && has("cgroup2"));
            let there = run("cat", &[&format!("{mount}/cgroup.controllers")]);
            assert_eq!(controllers.join(" "), there);
        }
        CgroupLayout::Hybrid { v1_controllers, .. } => {
            assert!(has("cgroup") && has("cgroup2") && !v1_controllers.is_empty());
        }
    }
    println!("{facts:#?}");
}
