//! The system calls of the front: to read and write open sockets, to wait, to have memory, to end.
//!
//! Nothing is sent with descriptors, so that none of them leaves.

use super::{Is, Rules, Width, condition, one_of};
use seccompiler::{BackendError, SeccompRule};

/// The calls that are left whatever their arguments.
const WHOLE: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_getsockopt,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

pub(super) fn rules() -> Result<Rules, BackendError> {
    let mut rules: Rules = WHOLE.iter().map(|call| (*call, Vec::new())).collect();
    // To nobody but the other end.
    let no_address = condition(4, Width::Qword, Is::Eq, 0)?;
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![no_address])?]);
    // No memory that can be run.
    let run = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let without = condition(2, Width::Dword, Is::MaskedEq(run), 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![without])?]);
    }
    // No owner of a descriptor to be sent signals.
    let read = [libc::F_GETFL, libc::F_GETFD].map(|command| one_of(1, command as u64));
    rules.insert(libc::SYS_fcntl, read.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}
