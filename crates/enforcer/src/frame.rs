//! Frames: messages on a stream, each behind its length.
//!
//! Whoever is at the other end may be broken or hostile: a length beyond [`FRAME_MAX`] and bytes that are no message
//! are errors, and no more is allocated than has arrived.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Maximum bytes of a message. A ledger that is full makes a plan of a quarter of that.
pub const FRAME_MAX: usize = 128 << 20;

/// Maximum number of descriptors that are handed over at once.
pub const DESCRIPTORS_MAX: usize = 32;

/// Why no message came or went.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other end closed the stream between two messages.
    #[error("the other end has closed the connection")]
    Closed,
    /// The stream failed, or ended within a message.
    #[error("the connection broke")]
    Broken(#[from] io::Error),
    /// The message is longer than any that is sent.
    #[error("a message of {0} bytes is longer than any may be")]
    TooLong(usize),
    /// The bytes are no message.
    #[error("a message cannot be read")]
    Malformed(#[source] postcard::Error),
}

impl FrameError {
    /// Whether the other end is gone, and has sent nothing that cannot be read.
    pub fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        match self {
            FrameError::Closed => true,
            FrameError::Broken(error) => matches!(error.kind(), BrokenPipe | ConnectionReset),
            FrameError::TooLong(_) | FrameError::Malformed(_) => false,
        }
    }
}

/// Writes a message.
///
/// # Errors
/// When it is too long, or the other end is gone.
pub fn write(mut to: impl Write, message: &impl Serialize) -> Result<(), FrameError> {
    let mut bytes = vec![0; 4];
    bytes = postcard::to_extend(message, bytes).map_err(FrameError::Malformed)?;
    let length = bytes.len() - 4;
    let prefix = u32::try_from(length).ok().filter(|_| length <= FRAME_MAX);
    let prefix = prefix.ok_or(FrameError::TooLong(length))?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(to.write_all(&bytes)?)
}

/// Reads a message, and waits for it.
///
/// # Errors
/// When the stream ends, or what comes is no message.
pub fn read<T: DeserializeOwned>(mut from: impl Read) -> Result<T, FrameError> {
    let mut prefix = [0; 4];
    let first = loop {
        match from.read(&mut prefix) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Err(FrameError::Closed);
    }
    from.read_exact(&mut prefix[first..])?;
    let length = u32::from_le_bytes(prefix) as usize;
    if length > FRAME_MAX {
        return Err(FrameError::TooLong(length));
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(FrameError::Broken(io::ErrorKind::UnexpectedEof.into()));
    }
    match postcard::take_from_bytes(&bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(FrameError::Malformed(postcard::Error::SerdeDeCustom)),
        Err(error) => Err(FrameError::Malformed(error)),
    }
}

/// Hands descriptors to the other end, at most [`DESCRIPTORS_MAX`].
///
/// # Errors
/// When the other end is gone.
pub fn send_descriptors(to: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> Result<(), FrameError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let pushed = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    assert!(pushed, "there are at most {DESCRIPTORS_MAX} descriptors");
    rustix::net::sendmsg(to, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)
        .map_err(io::Error::from)?;
    Ok(())
}

/// Takes `N` descriptors that the other end hands over, at most [`DESCRIPTORS_MAX`].
///
/// # Errors
/// When so many do not come at once.
pub fn receive_descriptors<const N: usize>(from: &UnixStream) -> Result<[OwnedFd; N], FrameError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(from.as_fd(), &mut bytes, &mut ancillary, flags)
        .map_err(io::Error::from)?;
    let mut handed = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            handed.extend(descriptors);
        }
    }
    handed.try_into().map_err(|_| FrameError::Broken(io::ErrorKind::InvalidData.into()))
}

/// Takes the stream that this process was started with away from standard input, where children would inherit it.
///
/// # Errors
/// When standard input is no socket.
pub fn take_standard_input() -> io::Result<UnixStream> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Of something else there is no name.
    stream.peer_addr()?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        UnixStream::pair().expect("two sockets")
    }

    #[test]
    fn messages_come_as_they_went_and_the_end_is_told() {
        let (ours, theirs) = pair();
        write(&ours, &("one".to_owned(), 1_u64)).expect("written");
        write(&ours, &("two".to_owned(), 2_u64)).expect("written");
        send_descriptors(&ours, &[ours.as_fd(), theirs.as_fd()]).expect("sent");
        let read_one = || read::<(String, u64)>(&theirs);
        assert_eq!(read_one().expect("a message"), ("one".to_owned(), 1));
        assert_eq!(read_one().expect("a message"), ("two".to_owned(), 2));
        let handed: [OwnedFd; 2] = receive_descriptors(&theirs).expect("two descriptors");
        drop((ours, handed));
        assert!(matches!(read_one(), Err(FrameError::Closed)));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let attempts: [(&[u8], &str); 5] = [
            (&[1, 0], "cut short in the length"),
            (&[9, 0, 0, 0, 1], "cut short in the message"),
            (&[0xff, 0xff, 0xff, 0xff, 1], "too long"),
            (&[2, 0, 0, 0, 9, 9], "a text longer than its message"),
            (&[3, 0, 0, 0, 0, 1, 7], "a byte too many"),
        ];
        for (bytes, what) in attempts {
            let (mut ours, theirs) = pair();
            ours.write_all(bytes).expect("written");
            drop(ours);
            let refused = read::<(String, u64)>(&theirs);
            assert!(refused.is_err(), "{what}: {refused:?}");
        }
    }
}
