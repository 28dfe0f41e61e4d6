//! The rights that the front gives up before it serves: all but to read and write what it has been given.
//!
//! Each layer holds without the others, and without systemd: no capability and none to gain, no memory that another
//! process may read, limits, no file (Landlock), and a list of the system calls that are left.

use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use sandbox::{
    CapabilitySet, Files, Part, Restriction, RulesetError, SystemCalls, SystemCallsError,
    capabilities,
};
use std::io;

/// The most connections that are open at once.
const DESCRIPTORS_MAX: u64 = 16 << 10;
/// Memory: requests of 256 MiB, a window of 64 KiB for each of 4096 connections, and as much again.
const MEMORY_MAX_BYTES: u64 = 2 << 30;

/// The right that could not be given up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A call of the system failed.
    #[error("the system refused to {what}: {source}")]
    Os { what: &'static str, source: io::Error },
    /// Landlock failed; a kernel that lacks it is no failure.
    #[error("Landlock failed: {0}")]
    Landlock(#[from] RulesetError),
    /// System calls cannot be filtered.
    #[error("system calls cannot be filtered: {0}")]
    SystemCalls(#[from] SystemCallsError),
}

fn os<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SandboxError {
    move |error| SandboxError::Os { what, source: error.into() }
}

/// Gives everything up, for good. Answers how far the kernel keeps files away.
///
/// # Errors
/// When something could not be given up.
pub fn enter() -> Result<Restriction, SandboxError> {
    give_up_capabilities()?;
    // After the change of credentials, which would undo both.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(os("watch the parent"))?;
    sandbox::make_undumpable().map_err(os("hide the memory"))?;
    lower_limits()?;
    let files = Files::keep_none()?;
    SystemCalls::of(Part::Front).keep_only_in_this_thread()?;
    Ok(files)
}

/// Empties all sets of capabilities, and sees that no program gives any back.
fn give_up_capabilities() -> Result<(), SandboxError> {
    capabilities::keep(CapabilitySet::empty()).map_err(os("give up capabilities"))?;
    sandbox::forgo_new_privileges().map_err(os("refuse new privileges"))
}

fn lower_limits() -> Result<(), SandboxError> {
    let limits = [
        (Resource::Nofile, DESCRIPTORS_MAX),
        (Resource::As, MEMORY_MAX_BYTES),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 0),
        (Resource::Memlock, 0),
        (Resource::Msgqueue, 0),
    ];
    for (resource, most) in limits {
        let most = getrlimit(resource).maximum.map_or(most, |there| there.min(most));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(os("lower its limits"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    /// The errors of the calls that somebody who has taken the front over would like to make.
    fn forbidden_calls() -> Vec<(&'static str, i32)> {
        let path: &CStr = c"/proc/self/status";
        let own = i64::from(std::process::id());
        // SAFETY: of those that could do harm were they allowed each is harmless as it is called: a path that is there to be
        // read, signal 0, a traced process that is our own, a program with a null path.
        unsafe {
            let mut said = Vec::new();
            let text = path.as_ptr() as i64;
            let mut call = |name, number: libc::c_long, arguments: [i64; 4]| {
                let [a, b, c, d] = arguments;
                let address = text;
                let done = libc::syscall(number, a, b, c, d, address, 0_i64);
                let error = if done < 0 { *libc::__errno_location() } else { 0 };
                said.push((name, error));
            };
            call("openat", libc::SYS_openat, [libc::AT_FDCWD.into(), text, 0, 0]);
            call("openat2", libc::SYS_openat2, [libc::AT_FDCWD.into(), text, 0, 0]);
            call("socket", libc::SYS_socket, [libc::AF_UNIX.into(), 1, 0, 0]);
            call("connect", libc::SYS_connect, [0, 0, 0, 0]);
            call("sendto an address", libc::SYS_sendto, [0, 0, 0, 0]);
            call("sendmsg", libc::SYS_sendmsg, [0, 0, 0, 0]);
            call("kill", libc::SYS_kill, [own, 0, 0, 0]);
            call("tgkill", libc::SYS_tgkill, [own, own, 0, 0]);
            call("pidfd_open", libc::SYS_pidfd_open, [own, 0, 0, 0]);
            call("ptrace", libc::SYS_ptrace, [16, own, 0, 0]);
            call("process_vm_readv", libc::SYS_process_vm_readv, [own, 0, 0, 0]);
            call("execve", libc::SYS_execve, [0, 0, 0, 0]);
            call("clone", libc::SYS_clone, [0, 0, 0, 0]);
            call("clone3", libc::SYS_clone3, [0, 0, 0, 0]);
            call("setuid", libc::SYS_setuid, [0, 0, 0, 0]);
            call("unlinkat", libc::SYS_unlinkat, [libc::AT_FDCWD.into(), 0, 0, 0]);
            call("mount", libc::SYS_mount, [0, 0, 0, 0]);
            call("bpf", libc::SYS_bpf, [-1, 0, 0, 0]);
            call("io_uring_setup", libc::SYS_io_uring_setup, [0, 0, 0, 0]);
            call("fcntl F_SETOWN", libc::SYS_fcntl, [0, libc::F_SETOWN.into(), own, 0]);
            let (page, run) = (4096, i64::from(libc::PROT_READ | libc::PROT_EXEC));
            let private = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            call("mmap PROT_EXEC", libc::SYS_mmap, [0, page, run, private]);
            call("mprotect PROT_EXEC", libc::SYS_mprotect, [0, 0, run, 0]);
            said
        }
    }

    fn filter_system_calls() {
        SystemCalls::of(Part::Front).keep_only_in_this_thread().expect("filtered");
    }

    /// A filter and a set of capabilities are a thread's own: it takes them with it.
    fn in_a_thread<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(act).join().expect("it does not panic"))
    }

    #[test]
    fn what_the_front_has_no_use_for_is_refused() {
        let refused = in_a_thread(|| {
            give_up_capabilities().expect("given up");
            filter_system_calls();
            forbidden_calls()
        });
        assert!(refused.len() > 20);
        for (name, error) in refused {
            assert_eq!(error, libc::EPERM, "{name}");
        }
    }

    #[test]
    fn what_the_front_needs_it_can_still_do() {
        use std::io::{Read, Write};
        let (mut here, mut there) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let text = in_a_thread(move || {
            filter_system_calls();
            there.write_all(&vec![7; 1 << 16]).expect("written");
            let much = vec![1_u8; 64 << 20];
            let map: std::collections::HashMap<u8, usize> = [(much[0], much.len())].into();
            drop(there);
            let mut text = Vec::new();
            here.read_to_end(&mut text).expect("read");
            (text.len(), map[&1])
        });
        assert_eq!(text, (1 << 16, 64 << 20));
    }

    #[test]
    fn landlock_alone_keeps_files_away() {
        let (restriction, opened) = in_a_thread(|| {
            let restriction = Files::keep_none().expect("given up");
            (restriction, std::fs::File::open("/proc/self/status").map(drop))
        });
        if restriction == Restriction::No {
            eprintln!("SKIP landlock_alone_keeps_files_away: this kernel has no Landlock");
            return;
        }
        let error = opened.expect_err("no file");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn no_capability_is_left_nor_comes_back() {
        let status = in_a_thread(|| {
            give_up_capabilities().expect("given up");
            std::fs::read_to_string("/proc/thread-self/status").expect("a status")
        });
        for line in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            let set = status.lines().find_map(|it| it.strip_prefix(line)).expect("a set").trim();
            assert_eq!(u64::from_str_radix(set, 16), Ok(0), "{line}");
        }
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    }
}
