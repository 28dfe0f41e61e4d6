//! Who is at the other end of a Unix socket, as the kernel says.

use crate::error::ProcessError;
use crate::handle::ProcessHandle;
use ledger::ProcessIdentity;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Who is at the other end of a Unix socket: the ids and groups that it had when it connected
/// (for a client: when the server began to listen).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// Supplementary groups, in the kernel's order.
    pub groups: Vec<u32>,
    /// The process that connected. `None` when it has exited already, or when it cannot be
    /// named with certainty. Others may hold the same socket, by inheritance for one.
    pub process: Option<ProcessIdentity>,
}

/// Why the peer of a socket is not known.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The kernel refused; also when this is no connected Unix socket.
    #[error("{call} of the socket")]
    Os {
        /// The option that was read.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The socket has no credentials: it is not connected, or its peer is in a pid or user
    /// namespace that ours cannot see.
    #[error("the peer of the socket has no credentials that we can see")]
    NoCredentials,
}

/// Asks the kernel who is at the other end of a connected Unix stream or seqpacket socket.
///
/// # Errors
/// When this is no such socket. A peer that has exited is no error: its ids still stand.
pub fn peer_of(socket: impl AsFd) -> Result<Peer, PeerError> {
    let socket = socket.as_fd();
    let credentials = getsockopt(&socket, sockopt::PeerCredentials)
        .map_err(|errno| PeerError::Os { call: "SO_PEERCRED", source: errno.into() })?;
    let (uid, gid) = (credentials.uid(), credentials.gid());
    // The kernel's -1 stands for "none".
    if uid == u32::MAX || gid == u32::MAX {
        return Err(PeerError::NoCredentials);
    }
    let groups =
        groups(socket).map_err(|source| PeerError::Os { call: "SO_PEERGROUPS", source })?;
    // 0: a process of a pid namespace that ours does not see.
    let process = match u32::try_from(credentials.pid()) {
        Ok(pid) if pid != 0 => process(socket, pid, uid),
        _ => None,
    };
    Ok(Peer { uid, gid, groups, process })
}

fn process(socket: BorrowedFd<'_>, pid: u32, uid: u32) -> Option<ProcessIdentity> {
    let found = match getsockopt(&socket, sockopt::PeerPidfd) {
        // The kernel's own handle on the process that connected. An exited one has no identity.
        Ok(pidfd) => ProcessHandle::from_pidfd(pid, pidfd).map(|handle| handle.identity()),
        // Before Linux 6.5 the pid is all there is.
        Err(Errno::ENOPROTOOPT) => by_pid(pid, uid),
        // The process has been reaped.
        Err(_) => Err(ProcessError::Gone { pid }),
    };
    match found {
        Ok(identity) => Some(identity),
        Err(error) => {
            tracing::debug!(pid, %error, "the peer of a socket has no process");
            None
        }
    }
}

/// The process that has the peer's pid now, if it has the peer's uid too. A process that exits
/// right after it connected, and whose pid comes back to the same user at once, is not told
/// apart; such a user only gains what is that user's anyway.
fn by_pid(pid: u32, uid: u32) -> Result<ProcessIdentity, ProcessError> {
    let handle = ProcessHandle::open(pid)?;
    let facts = handle.facts()?;
    if facts.effective_uid != uid {
        return Err(ProcessError::Gone { pid });
    }
    Ok(handle.identity())
}

fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 32];
    loop {
        let mut bytes = libc::socklen_t::try_from(size_of_val(groups.as_slice()))
            .expect("the kernel keeps at most 65536 groups");
        // SAFETY: the kernel writes at most `bytes` bytes, the size of the vector's elements,
        // and then sets `bytes`; any bit pattern is a valid u32.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = bytes as usize / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            // The kernel has set `bytes` to what it needs.
            error if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => {
                groups.resize(count, 0);
            }
            error => return Err(error),
        }
    }
}
