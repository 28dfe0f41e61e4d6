//! Sources of life events, watching real processes.

mod common;

use allot_observe::{
    LifeError, LifeEvent, LifeSource, ProcConnector, ProcessHandle, ProcessRef, Scanner, watch_best,
};
use common::{Actor, PATIENCE, is_root, skip, until};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// A connector, or a line that says why this test does not run.
fn connector(test: &str) -> Option<ProcConnector> {
    match ProcConnector::open() {
        Ok(connector) => Some(connector),
        Err(error @ LifeError::Unavailable { .. }) => {
            skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn scanner() -> Scanner {
    Scanner::new(Duration::from_millis(5)).expect("/proc")
}

/// A source and all that it told so far.
struct Diary<S> {
    source: S,
    events: Vec<LifeEvent>,
}

impl<S: LifeSource> Diary<S> {
    fn new(source: S) -> Self {
        Self { source, events: Vec::new() }
    }

    /// Reads on until such an event was told, and returns the first.
    fn until(&mut self, what: &str, is_it: impl Fn(&LifeEvent) -> bool) -> LifeEvent {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(event) = self.events.iter().find(|event| is_it(event)) {
                return event.clone();
            }
            assert!(Instant::now() < end, "{} never told: {what}", self.source.name());
            self.read();
        }
    }

    fn read(&mut self) {
        let events = self.source.next(Duration::from_millis(100)).expect("events");
        self.events.extend(events);
    }

    fn has(&self, is_it: impl Fn(&LifeEvent) -> bool) -> bool {
        self.events.iter().any(is_it)
    }
}

fn is_fork_of(pid: u32) -> impl Fn(&LifeEvent) -> bool {
    move |event| matches!(event, LifeEvent::Fork { child, .. } if child.pid == pid)
}

fn is_exec_of(pid: u32) -> impl Fn(&LifeEvent) -> bool {
    move |event| matches!(event, LifeEvent::Exec { process } if process.pid == pid)
}

fn is_exit_of(pid: u32) -> impl Fn(&LifeEvent) -> bool {
    move |event| matches!(event, LifeEvent::Exit { process } if process.pid == pid)
}

fn is_uid_of(pid: u32) -> impl Fn(&LifeEvent) -> bool {
    move |event| matches!(event, LifeEvent::UidChanged { process, .. } if process.pid == pid)
}

fn is_gid_of(pid: u32) -> impl Fn(&LifeEvent) -> bool {
    move |event| matches!(event, LifeEvent::GidChanged { process, .. } if process.pid == pid)
}

/// One life, told by a source. What is returned must not depend on the source.
fn a_life<S: LifeSource>(source: S) -> Vec<String> {
    let mut diary = Diary::new(source);
    let mut actor = Actor::start();
    let pid = actor.pid();
    let identity = actor.handle().identity();
    let me = ProcessHandle::open(std::process::id()).expect("we live").identity();
    let process = ProcessRef::from(identity);
    let mut story = Vec::new();

    let birth = diary.until("the birth", is_fork_of(pid));
    assert_eq!(birth, LifeEvent::Fork { parent: me.into(), child: process });
    story.push("born".to_owned());

    let child_pid = actor.tell_pid("fork");
    let child = ProcessHandle::open(child_pid).expect("it lives");
    let birth = diary.until("the child's birth", is_fork_of(child_pid));
    assert_eq!(birth, LifeEvent::Fork { parent: process, child: child.identity().into() });
    story.push("had a child".to_owned());
    let ends = Pid::from_raw(child_pid.cast_signed()).expect("a process");
    kill_process(ends, Signal::KILL).expect("kill");
    // It is a zombie now: nobody has reaped it.
    let death = diary.until("the child's death", is_exit_of(child_pid));
    assert_eq!(death, LifeEvent::Exit { process: child.identity().into() });
    story.push("lost it".to_owned());
    assert_eq!(actor.tell_pid("reap"), child_pid);

    // A scanner may have seen the actor before its first exec, and tells that one too.
    diary.read();
    diary.events.retain(|event| !is_exec_of(pid)(event));
    assert_eq!(actor.tell("exec"), "ready");
    assert_eq!(diary.until("exec", is_exec_of(pid)), LifeEvent::Exec { process });
    story.push("ran another program".to_owned());

    let pids = actor.tell("double-fork");
    let (_, orphan) = pids.split_once(' ').expect("two pids");
    let orphan: u32 = orphan.parse().expect("a pid");
    let identity_of_orphan = ProcessHandle::open(orphan).expect("it lives").identity();
    match diary.until("the orphan's birth", is_fork_of(orphan)) {
        LifeEvent::Fork { child, .. } => assert_eq!(child, identity_of_orphan.into()),
        other => panic!("{other:?}"),
    }
    story.push("left a grandchild".to_owned());

    if is_root() {
        assert_eq!(actor.tell("setgid 54321"), "ok");
        let change = diary.until("the gid", is_gid_of(pid));
        let expected = LifeEvent::GidChanged { process, real_gid: 54321, effective_gid: 54321 };
        assert_eq!(change, expected);
        assert_eq!(actor.tell("setuid 65534"), "ok");
        let change = diary.until("the uid", is_uid_of(pid));
        let expected = LifeEvent::UidChanged { process, real_uid: 65534, effective_uid: 65534 };
        assert_eq!(change, expected);
        story.push("changed its ids".to_owned());
    }

    assert!(!diary.has(is_exit_of(pid)));
    actor.end();
    assert_eq!(diary.until("the end", is_exit_of(pid)), LifeEvent::Exit { process });
    diary.until("the orphan's end", is_exit_of(orphan));
    for pid in [pid, child_pid, orphan] {
        let told = diary.events.iter().filter(|event| is_fork_of(pid)(event)).count();
        assert_eq!(told, 1, "births of {pid} in {:?}", diary.events);
        let told = diary.events.iter().filter(|event| is_exit_of(pid)(event)).count();
        assert_eq!(told, 1, "deaths of {pid} in {:?}", diary.events);
    }
    story.push("ended".to_owned());
    story
}

#[test]
fn the_connector_tells_a_life() {
    if let Some(connector) = connector("the_connector_tells_a_life") {
        a_life(connector);
    }
}

#[test]
fn the_scanner_tells_a_life() {
    a_life(scanner());
}

/// Both watch the same processes; what they tell of them must agree.
#[test]
fn connector_and_scanner_agree() {
    const NAME: &str = "connector_and_scanner_agree";
    let Some(connector) = connector(NAME) else { return };
    if !is_root() {
        return skip(NAME, "only root may change its ids");
    }
    let mut told = Diary::new(connector);
    let mut seen = Diary::new(scanner());
    let mut actors: Vec<Actor> = (0..4).map(|_| Actor::start()).collect();
    let pids: Vec<u32> = actors.iter().map(Actor::pid).collect();
    let mut everyone = pids.clone();
    for (index, actor) in actors.iter_mut().enumerate() {
        // Both read as it happens: a process that is gone before its birth is read stays unnamed.
        told.until("birth", is_fork_of(actor.pid()));
        seen.until("birth", is_fork_of(actor.pid()));
        for _ in 0..index {
            let child = actor.tell_pid("fork");
            told.until("birth of a child", is_fork_of(child));
            seen.until("birth of a child", is_fork_of(child));
            everyone.push(child);
        }
        actor.tell(&format!("setgid {}", 40_000 + index));
        seen.until("gid", is_gid_of(actor.pid()));
        actor.tell(&format!("setuid {}", 50_000 + index));
        seen.until("uid", is_uid_of(actor.pid()));
    }
    drop(actors);
    for pid in &everyone {
        told.until("exit", is_exit_of(*pid));
        seen.until("exit", is_exit_of(*pid));
    }
    // Execs are left out: the scanner may first see a process before or after its first.
    let of_ours = |events: &[LifeEvent]| {
        let mut ours: Vec<String> = events
            .iter()
            .filter(|event| {
                everyone.iter().any(|pid| {
                    is_fork_of(*pid)(event)
                        || is_exit_of(*pid)(event)
                        || is_uid_of(*pid)(event)
                        || is_gid_of(*pid)(event)
                })
            })
            .map(|event| format!("{event:?}"))
            .collect();
        ours.sort();
        ours
    };
    let (told, seen) = (of_ours(&told.events), of_ours(&seen.events));
    assert_eq!(told.len(), 2 * everyone.len() + 2 * pids.len(), "{told:#?}");
    assert_eq!(told, seen);
}

#[test]
fn the_connector_tells_who_an_orphan_came_from() {
    let Some(connector) = connector("the_connector_tells_who_an_orphan_came_from") else { return };
    let mut diary = Diary::new(connector);
    let mut actor = Actor::start();
    let process = ProcessRef::from(actor.handle().identity());
    for _ in 0..20 {
        let pids = actor.tell("double-fork");
        let (middle, orphan) = pids.split_once(' ').expect("two pids");
        let (middle, orphan): (u32, u32) =
            (middle.parse().expect("a pid"), orphan.parse().expect("a pid"));
        // The middle is gone: the chain of births still leads from the orphan to the actor.
        match diary.until("the orphan's birth", is_fork_of(orphan)) {
            LifeEvent::Fork { parent, child } => {
                assert_eq!(parent.pid, middle);
                let handle = ProcessHandle::open(orphan).expect("it lives");
                assert_eq!(child, handle.identity().into());
            }
            other => panic!("{other:?}"),
        }
        match diary.until("the middle's birth", is_fork_of(middle)) {
            LifeEvent::Fork { parent, .. } => assert_eq!(parent, process),
            other => panic!("{other:?}"),
        }
        diary.until("the middle's end", is_exit_of(middle));
    }
}

#[test]
fn short_lives_are_told_by_the_connector() {
    let Some(connector) = connector("short_lives_are_told_by_the_connector") else { return };
    let mut diary = Diary::new(connector);
    let mut actor = Actor::start();
    let pid = actor.pid();
    assert_eq!(actor.tell("storm 200"), "ok");
    actor.end();
    diary.until("the end", is_exit_of(pid));
    let children: Vec<ProcessRef> = diary
        .events
        .iter()
        .filter_map(|event| match event {
            LifeEvent::Fork { parent, child } if parent.pid == pid => Some(*child),
            _ => None,
        })
        .collect();
    assert_eq!(children.len(), 200);
    for child in children {
        assert_eq!(diary.events.iter().filter(|event| is_exit_of(child.pid)(event)).count(), 1);
    }
}

#[test]
fn threads_are_not_processes() {
    let Some(connector) = connector("threads_are_not_processes") else { return };
    let mut diary = Diary::new(connector);
    let mut actor = Actor::start();
    let pid = actor.pid();
    assert_eq!(actor.tell("threads 10"), "ok");
    let spinner = actor.tell_pid("spin");
    assert_eq!(actor.tell("unspin"), "ok");
    assert_eq!(actor.tell("main-exit"), "ok");
    let handle = actor.handle();
    until("the leader has exited", || {
        let facts = handle.facts().expect("facts");
        facts.leader_state == allot_observe::RunState::Dead
    });
    let later = actor.tell_pid("fork");
    diary.until("a birth after the leader's exit", is_fork_of(later));
    assert!(!diary.has(is_fork_of(spinner)) && !diary.has(is_exit_of(spinner)));
    assert!(!diary.has(is_exit_of(pid)), "told the exit of the leader as that of the process");
    actor.end();
    assert_eq!(
        diary.until("the end", is_exit_of(pid)),
        LifeEvent::Exit { process: handle.identity().into() }
    );
}

/// In the lab, where nobody else fills so small a buffer.
#[test]
#[ignore = "lab"]
fn an_overflow_is_told_and_survived() {
    const NAME: &str = "an_overflow_is_told_and_survived";
    if connector(NAME).is_none() {
        return;
    }
    let small = ProcConnector::with_receive_buffer(1).expect("a connector");
    let mut diary = Diary::new(small);
    let mut actor = Actor::start();
    assert_eq!(actor.tell("storm 500"), "ok");
    diary.until("the loss", |event| matches!(event, LifeEvent::Lost { .. }));
    diary.events.clear();
    let child = actor.tell_pid("fork");
    diary.until("a birth after the loss", is_fork_of(child));
    let pid = actor.pid();
    let identity = actor.handle().identity();
    actor.end();
    let end = diary.until("the end", is_exit_of(pid));
    // A second loss may have taken the name away, but never gives a wrong one.
    let LifeEvent::Exit { process } = end else { panic!("{end:?}") };
    assert!(process.identity.is_none_or(|told| told == identity), "{end:?}");
}

/// Makes the kernel count this many listeners more (or fewer) than there are, as any user can
/// since Linux 6.6: an unknown request is noted as one, and its end is then counted.
fn miscount_listeners(by: i32) {
    use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
    use rustix::net::{AddressFamily, SendFlags, SocketType};
    for _ in 0..by.unsigned_abs() {
        let socket =
            rustix::net::socket(AddressFamily::NETLINK, SocketType::DGRAM, Some(CONNECTOR))
                .expect("a socket");
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 1)).expect("bind");
        let requests: &[u32] = if by > 0 { &[1] } else { &[5, 2] };
        for request in requests {
            let words = [40, 3, 0, 0, 1, 1, 0, 0, 4, *request];
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
            rustix::net::send(&socket, &bytes, SendFlags::empty()).expect("send");
        }
    }
}

/// For the time of this test no program on the machine hears of processes, and if it is broken off none does until the next
/// boot: it is for a machine of its own.
#[test]
#[ignore = "lab"]
fn a_connector_made_deaf_says_so_and_hears_again() {
    const NAME: &str = "a_connector_made_deaf_says_so_and_hears_again";
    let Some(connector) = connector(NAME) else { return };
    if !connector.is_filtered() {
        return skip(NAME, "before Linux 6.6 the kernel cannot be made deaf like this");
    }
    let mut diary = Diary::new(connector);
    // Listeners of other programs count too, so go down until nothing is heard.
    let mut fewer = 0;
    let deaf = loop {
        miscount_listeners(-1);
        fewer += 1;
        let actor = Actor::start();
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end && !diary.has(is_fork_of(actor.pid())) {
            diary.read();
        }
        if !diary.has(is_fork_of(actor.pid())) {
            break true;
        }
        if fewer == 50 {
            break false;
        }
    };
    let told = deaf.then(|| {
        diary.until("the loss", |event| matches!(event, LifeEvent::Lost { .. }));
        let actor = Actor::start();
        diary.until("a birth after that", is_fork_of(actor.pid()))
    });
    miscount_listeners(fewer);
    assert!(told.is_some(), "the kernel could not be made deaf");
}

#[test]
fn nothing_happens_within_no_time() {
    let mut scanner = Scanner::new(Duration::from_secs(3600)).expect("/proc");
    let _child = Actor::start();
    assert_eq!(scanner.next(Duration::from_millis(1)).expect("events"), []);
    assert!(scanner.poll_fd().is_none());
}

#[test]
fn the_best_source_says_why() {
    let (mut source, why) = watch_best().expect("a source");
    assert_eq!(source.poll_fd().is_some(), source.name() == "connector");
    assert!(why.contains("connector"), "{why}");
    eprintln!("{}: {why}", source.name());
    let actor = Actor::start();
    let pid = actor.pid();
    let end = Instant::now() + PATIENCE;
    while !source.next(Duration::from_millis(100)).expect("events").iter().any(is_fork_of(pid)) {
        assert!(Instant::now() < end, "never told a birth");
    }
}
