//! The system calls that a process can still make, by seccomp(2): a list of those, all others fail with EPERM.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

mod front;

/// A part of allotd, by the system calls that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The keeper. It starts and ends the front, which gives up more by itself.
    Keeper,
    /// The front. It has sockets that are open, and one thread.
    Front,
    /// The enforcing process and its guardians.
    Enforcing,
    /// The process that loads a scheduler into the kernel. It makes no other process and no thread.
    Loader,
}

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum SystemCallsError {
    /// The list cannot be made a filter, on this architecture for one.
    #[error("no filter can be made")]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel refused it.
    #[error("the kernel takes no filter")]
    Install(#[from] seccompiler::Error),
}

/// The list of a part.
pub struct SystemCalls(Part);

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

impl SystemCalls {
    /// The list of a part.
    pub fn of(part: Part) -> SystemCalls {
        SystemCalls(part)
    }

    /// Gives up all other system calls, for all threads. Also gives up new privileges.
    ///
    /// # Errors
    /// When the kernel, or this architecture, has no filters.
    pub fn keep_only(&self) -> Result<(), SystemCallsError> {
        for filter in self.filters()? {
            seccompiler::apply_filter_all_threads(&filter)?;
        }
        Ok(())
    }

    /// Does so for this thread and those that it makes.
    ///
    /// # Errors
    /// When the kernel, or this architecture, has no filters.
    pub fn keep_only_in_this_thread(&self) -> Result<(), SystemCallsError> {
        for filter in self.filters()? {
            seccompiler::apply_filter(&filter)?;
        }
        Ok(())
    }

    fn filters(&self) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let refused = SeccompAction::Errno(libc::EPERM as u32);
        let listed = SeccompFilter::new(self.rules()?, refused, SeccompAction::Allow, arch)?;
        // No thread is made, so nothing need take clone(2) for clone3(2).
        if self.0 == Part::Front {
            return Ok(vec![listed.try_into()?]);
        }
        // The flags of clone3(2) lie in memory, which no filter sees: the C library takes clone(2) where it is missing.
        let missing = SeccompAction::Errno(libc::ENOSYS as u32);
        let without = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        let without = SeccompFilter::new(without, SeccompAction::Allow, missing, arch)?;
        Ok(vec![without.try_into()?, listed.try_into()?])
    }

    fn rules(&self) -> Result<Rules, seccompiler::BackendError> {
        let own = match self.0 {
            Part::Front => return front::rules(),
            Part::Keeper => KEEPER,
            Part::Enforcing => ENFORCING,
            Part::Loader => LOADER,
        };
        let all = EVERYBODYS.iter().chain(OF_OLD).chain(own);
        let mut rules: Rules = all.map(|call| (*call, Vec::new())).collect();
        // No new namespaces: where users may make them, they lead to rights.
        let spaces = (libc::CLONE_NEWUSER
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWCGROUP) as u64;
        let plain = condition(0, Width::Qword, Is::MaskedEq(spaces), 0)?;
        if self.0 != Part::Loader {
            rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![plain])?]);
        }
        let families: &[i32] = match self.0 {
            Part::Keeper | Part::Enforcing => &[libc::AF_UNIX, libc::AF_NETLINK],
            Part::Front | Part::Loader => &[],
        };
        if !families.is_empty() {
            let families = families.iter().map(|family| one_of(0, *family as u64));
            rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
        }
        let own = std::process::id();
        rules.insert(libc::SYS_tgkill, vec![one_of(0, u64::from(own))?]);
        match self.0 {
            Part::Front => {}
            // Whether it lives.
            Part::Keeper => {
                rules.insert(libc::SYS_pidfd_send_signal, vec![one_of(1, 0)?]);
                let kill = one_of(1, libc::SIGKILL as u64)?;
                rules.insert(libc::SYS_kill, vec![kill]);
            }
            Part::Enforcing => {
                let commands = BPF_COMMANDS.iter().map(|command| one_of(0, *command));
                rules.insert(libc::SYS_bpf, commands.collect::<Result<_, _>>()?);
            }
            Part::Loader => {
                rules.insert(libc::SYS_bpf, Vec::new());
            }
        }
        Ok(rules)
    }
}

fn condition(
    argument: u8,
    width: Width,
    is: Is,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, width, is, value)
}

fn one_of(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(argument, Width::Dword, Is::Eq, value)?])
}

/// The commands of bpf(2) for what is loaded, by number: look up, change and walk maps, run a program that is there, ask
/// about things, attach and detach.
const BPF_COMMANDS: &[u64] = &[1, 2, 3, 4, 10, 15, 21, 24, 25, 26, 27, 28, 29, 34];

/// Calls of every part: memory, threads, time, files that are open or may be opened, sockets.
const EVERYBODYS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_ioctl,
    libc::SYS_listen,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mkdirat,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pidfd_open,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_renameat2,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_socketpair,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_unlinkat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Older forms of the same, where an architecture has them.
#[cfg(target_arch = "x86_64")]
const OF_OLD: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_getrlimit,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OF_OLD: &[i64] = &[];

/// Calls of the keeper besides, and of the front until it has walls of its own.
const KEEPER: &[i64] = &[
    libc::SYS_capset,
    libc::SYS_chdir,
    libc::SYS_close_range,
    libc::SYS_execve,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Calls of the loader besides: libbpf reserves the numbers of maps' descriptors by it.
const LOADER: &[i64] = &[libc::SYS_memfd_create];

/// Calls of the enforcing process and its guardians besides: scheduling, signals, a guardian's program.
const ENFORCING: &[i64] = &[
    libc::SYS_chdir,
    libc::SYS_close_range,
    libc::SYS_execve,
    libc::SYS_fchdir,
    libc::SYS_fgetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_getpriority,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_memfd_create,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_munlockall,
    libc::SYS_name_to_handle_at,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getattr,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_set_tid_address,
    libc::SYS_setpriority,
    libc::SYS_setsid,
    libc::SYS_setxattr,
    libc::SYS_signalfd4,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];
