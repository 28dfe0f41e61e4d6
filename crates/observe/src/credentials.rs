//! Whose a process is, asked again each time.

use crate::error::ProcessError;
use crate::proc_dir::ProcDir;
use identity::ProcessIdentity;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct pidfd_info` of include/uapi/linux/pidfd.h in its first form.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    pid: u32,
    thread_group: u32,
    parent: u32,
    real_uid: u32,
    real_gid: u32,
    effective_uid: u32,
    effective_gid: u32,
    saved_uid: u32,
    saved_gid: u32,
    filesystem_uid: u32,
    filesystem_gid: u32,
    exit_code: i32,
}

/// `PIDFD_GET_INFO`: `_IOWR(0xFF, 11, struct pidfd_info)`, Linux 6.13.
const PIDFD_GET_INFO: libc::Ioctl = 0xC040_FF0Bu32 as libc::Ioctl;
const PIDFD_INFO_CREDS: u64 = 1 << 1;

/// The real uid of a process now: one call where the kernel tells it through a pidfd, else a look at its `status`.
pub(crate) fn real_uid(
    pidfd: BorrowedFd<'_>,
    identity: ProcessIdentity,
) -> Result<u32, ProcessError> {
    const _: () = assert!(size_of::<PidfdInfo>() == 64, "the size is in the call's number");
    let mut info = PidfdInfo { mask: PIDFD_INFO_CREDS, ..PidfdInfo::default() };
    // SAFETY: the call's number says how many bytes the kernel may write, and there is room for them.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if result == 0 && info.mask & PIDFD_INFO_CREDS != 0 {
        return Ok(info.real_uid);
    }
    let [real_uid, ..] = ProcDir::open_identity(identity)?.ids()?;
    Ok(real_uid)
}
