//! The fuzz target `proc`: what the kernel and processes write about processes, as bytes that may be anything.

use crate::connector::EventClock;
use crate::connector_wire::KernelEvent;
use crate::proc_dir::{ids_of, thread_group_of};
use crate::stat::{Stat, state_and_thread_count};
use crate::{CgroupVersion, Hierarchy, account, cgroup, machine, mountinfo, surroundings};

/// Every parser of messages and files reads the same bytes.
pub fn proc(bytes: &[u8]) {
    if let Some(event) = KernelEvent::decode(bytes) {
        let _ = EventClock::now().ticks(event.timestamp_ns);
    }
    lines_of_processes(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        files(text);
    }
}

fn lines_of_processes(bytes: &[u8]) {
    if let Some(stat) = Stat::parse(bytes) {
        // What is read often and what is read at length are one line.
        assert_eq!(state_and_thread_count(bytes), Some((stat.state, stat.thread_count)));
        assert!(stat.comm.len() < bytes.len());
        let _ = stat.is_kernel_thread();
    }
    let _ = (ids_of(bytes), thread_group_of(bytes), account::schedule_times(bytes));
}

fn files(text: &str) {
    for version in [CgroupVersion::V1("cpu"), CgroupVersion::V2] {
        let path = version.path_from(text);
        assert!(path.is_none_or(|path| !path.starts_with("/..")), "out of sight");
    }
    let _ = surroundings::path_in_use(text);
    let mounts = mountinfo::mounts_of(text);
    assert!(mounts.len() <= text.lines().count());
    for version in [CgroupVersion::V1("cpu"), CgroupVersion::V2] {
        let _ = Hierarchy::among(&mounts, version);
    }
    let _ = (cgroup::read_of(text), cgroup::stalled_ns(text), cgroup::number_of(text, "anon"));
    let _ = (machine::memory_total_bytes(text), machine::pretty_name(text));
    let _ = machine::count_of_ranges(text);
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_proc_does_no_harm() {
    replay::replay("proc", 4_000, proc);
}
