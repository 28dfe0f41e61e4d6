//! Who is at the other end of a Unix socket, as the kernel says.

use crate::error::ProcessError;
use crate::handle::ProcessHandle;
use identity::ProcessIdentity;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

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
    // A process's number, which may be 0, an effective user's and an effective group's.
    let mut credentials = [0; 3];
    socket_option(socket, libc::SO_PEERCRED, &mut credentials)
        .map_err(|(source, _)| PeerError::Os { call: "SO_PEERCRED", source })?;
    let [pid, uid, gid] = credentials;
    // The kernel's -1 stands for "none".
    if uid == u32::MAX || gid == u32::MAX {
        return Err(PeerError::NoCredentials);
    }
    let groups =
        groups(socket).map_err(|source| PeerError::Os { call: "SO_PEERGROUPS", source })?;
    // 0: a process of a pid namespace that ours does not see.
    let process = if pid == 0 { None } else { process(socket, pid, uid) };
    Ok(Peer { uid, gid, groups, process })
}

fn process(socket: BorrowedFd<'_>, pid: u32, uid: u32) -> Option<ProcessIdentity> {
    let found = match peer_pidfd(socket) {
        // The kernel's own handle on the process that connected. An exited one has no identity.
        Ok(pidfd) => ProcessHandle::from_pidfd(pid, pidfd).map(|handle| handle.identity()),
        // Before Linux 6.5 the pid is all there is.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => by_pid(pid, uid),
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

fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut number = [0];
    socket_option(socket, libc::SO_PEERPIDFD, &mut number).map_err(|(error, _)| error)?;
    // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(number[0].cast_signed()) })
}

fn groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 32];
    loop {
        match socket_option(socket, libc::SO_PEERGROUPS, &mut groups) {
            Ok(count) => {
                groups.truncate(count);
                return Ok(groups);
            }
            Err((error, count))
                if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() =>
            {
                groups.resize(count, 0);
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Reads a socket's option of 32-bit numbers. Returns how many there are, also beside the error that
/// they are more than there is room for.
fn socket_option(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    numbers: &mut [u32],
) -> Result<usize, (io::Error, usize)> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(numbers))
        .expect("the kernel keeps at most 65536 groups");
    let place = numbers.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `bytes` bytes, the size of the slice, and then sets `bytes`;
    // any bit pattern is a valid u32.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut bytes)
    };
    let count = bytes as usize / size_of::<u32>();
    if result == 0 { Ok(count) } else { Err((io::Error::last_os_error(), count)) }
}
