//! The walls of each part, tried from behind by a process that wants more.

use allot_sandbox::{CapabilitySet, Files, Part, Restriction, SystemCalls, User, capabilities};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A user of these tests.
const SOMEBODY: User = User { uid: 64_011, gid: 64_011 };

fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIP {test}: needs root, to give it up");
    }
    root
}

/// Does something in a process of its own, which may not come back from it; answers what went wrong.
fn in_child(work: impl FnOnce() -> Result<(), String>) {
    // SAFETY: the child goes on with this thread alone and ends without returning; no lock is held across the fork.
    match unsafe { fork() }.expect("a process") {
        ForkResult::Child => {
            let failed = work().map_err(|why| eprintln!("{why}")).is_err();
            // SAFETY: ends the process, and runs nothing that its parent has set up for its own end.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
        }
    }
}

fn must_be_refused<T>(what: &str, tried: io::Result<T>, numbers: &[i32]) -> Result<(), String> {
    match tried {
        Ok(_) => Err(format!("it can {what}")),
        Err(error) if error.raw_os_error().is_some_and(|it| numbers.contains(&it)) => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

fn call(number: libc::c_long, arguments: [u64; 4]) -> io::Result<()> {
    let [a, b, c, d] = arguments;
    // SAFETY: each call here is to be refused before it looks at its arguments, which are numbers or null.
    match unsafe { libc::syscall(number, a, b, c, d, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Tries what no part may do.
fn must_be_walled_off(victim: u64) -> Result<(), String> {
    const EPERM: &[i32] = &[libc::EPERM];
    for (what, number, arguments) in [
        ("trace a process", libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), victim, 0, 0]),
        ("write another's memory", libc::SYS_process_vm_writev, [victim, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0, 0, 0, 0]),
        ("load a program into the kernel", libc::SYS_bpf, [5, 0, 0, 0]),
        ("load a module", libc::SYS_init_module, [0, 0, 0, 0]),
        ("become root", libc::SYS_setresuid, [0, 0, 0, 0]),
        ("have users of its own", libc::SYS_unshare, [libc::CLONE_NEWUSER as u64, 0, 0, 0]),
        ("enter a namespace", libc::SYS_setns, [0, 0, 0, 0]),
        ("open by handle", libc::SYS_open_by_handle_at, [0, 0, 0, 0]),
        ("speak TCP", libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_STREAM as u64, 0, 0]),
        ("end all of its group", libc::SYS_kill, [0, libc::SIGTERM as u64, 0, 0]),
    ] {
        must_be_refused(what, call(number, arguments), EPERM)?;
    }
    let run = Command::new("/bin/true").status();
    must_be_refused("run a program", run, &[libc::EACCES])?;
    must_be_refused("read secrets", File::open("/etc/shadow"), &[libc::EACCES])?;
    let outside = File::options().append(true).open("/etc/passwd");
    must_be_refused("change files", outside, &[libc::EACCES])?;
    let sum = std::thread::spawn(|| 1 + 1).join();
    if sum.is_ok() { Ok(()) } else { Err("it has no threads".to_owned()) }
}

fn victim() -> Child {
    let mut command = Command::new("sleep");
    command.arg("60").uid(SOMEBODY.uid).gid(SOMEBODY.gid).spawn().expect("a process")
}

fn end(mut victim: Child) {
    assert!(matches!(victim.try_wait(), Ok(None)), "it was killed");
    victim.kill().expect("ours");
    victim.wait().expect("dead");
}

#[test]
fn a_keeper_can_change_its_own_state_and_nobody_elses() {
    if !is_root("a_keeper_can_change_its_own_state_and_nobody_elses") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    allot_sandbox::hand_over(dir.path(), SOMEBODY).expect("handed over");
    let victim = victim();
    let target = u64::from(victim.id());
    let pidfd = rustix::process::Pid::from_child(&victim);
    let pidfd =
        rustix::process::pidfd_open(pidfd, rustix::process::PidfdFlags::empty()).expect("it lives");
    in_child(|| {
        let said = |error: &dyn std::error::Error| error.to_string();
        SOMEBODY.become_for_good(CapabilitySet::empty()).map_err(|error| said(&error))?;
        let read = ["/etc", "/proc", "/usr", "/lib", "/lib64", "/bin"].map(PathBuf::from);
        let write = vec![dir.path().to_owned()];
        let run = Files::own_program();
        let files = Files { read: read.into(), write, run, signals_own_only: true };
        let restriction = files.keep_only().map_err(|error| said(&error))?;
        SystemCalls::of(Part::Keeper).keep_only().map_err(|error| said(&error))?;
        std::fs::write(dir.path().join("own"), "state").map_err(|error| said(&error))?;
        if restriction == Restriction::No {
            eprintln!("SKIP: this kernel has no landlock");
            return Ok(());
        }
        must_be_walled_off(target)?;
        let kill = call(libc::SYS_kill, [target, libc::SIGKILL as u64, 0, 0]);
        must_be_refused("kill who is of the same user", kill, &[libc::EPERM])?;
        let fd = pidfd.as_raw_fd() as u64;
        let stop = call(libc::SYS_pidfd_send_signal, [fd, libc::SIGSTOP as u64, 0, 0]);
        must_be_refused("stop who is of the same user", stop, &[libc::EPERM])?;
        let temporary = Path::new("/tmp").join(format!("allot-sandbox-{}", std::process::id()));
        must_be_refused("make files", File::create(temporary), &[libc::EACCES])
    });
    end(victim);
}

#[test]
fn an_enforcing_process_can_run_itself_and_signal_and_nothing_else() {
    if !is_root("an_enforcing_process_can_run_itself_and_signal_and_nothing_else") {
        return;
    }
    let mut victim = victim();
    let target = u64::from(victim.id());
    in_child(|| {
        let said = |error: &dyn std::error::Error| error.to_string();
        let read = ["/proc", "/usr/lib", "/lib", "/lib64"].map(PathBuf::from).into();
        let write = vec![PathBuf::from("/dev/null")];
        let files = Files { read, write, run: Files::own_program(), signals_own_only: false };
        let restriction = files.keep_only().map_err(|error| said(&error))?;
        let (end, ended) = std::sync::mpsc::channel::<()>();
        // One that has begun before, as an enforcer's.
        let thread = std::thread::spawn(move || {
            let _ = ended.recv();
            rustix::thread::capabilities(None).expect("its own").permitted
        });
        let kept = CapabilitySet::KILL | CapabilitySet::DAC_OVERRIDE;
        capabilities::keep_in_all_threads(kept).map_err(|error| said(&error))?;
        SystemCalls::of(Part::Enforcing).keep_only().map_err(|error| said(&error))?;
        drop(end);
        match thread.join() {
            Ok(held) if held == kept => {}
            held => return Err(format!("another thread has {held:?}")),
        }
        if restriction == Restriction::No {
            eprintln!("SKIP: this kernel has no landlock");
            return Ok(());
        }
        must_be_walled_off(target)?;
        let own = std::env::current_exe().map_err(|error| said(&error))?;
        let status = Command::new(own).arg("--list").stdout(std::process::Stdio::null()).status();
        match status {
            Ok(status) if status.success() => {}
            other => return Err(format!("it cannot run itself: {other:?}")),
        }
        let process = rustix::process::Pid::from_raw(target as i32).expect("a number");
        let pidfd = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty());
        let pidfd = pidfd.map_err(|error| said(&error))?;
        let signal = rustix::process::Signal::KILL;
        rustix::process::pidfd_send_signal(pidfd, signal).map_err(|error| said(&error))
    });
    assert!(!victim.wait().expect("a child").success(), "it was to be signalled");
}
