//! The way of new connections to the front: each message is one connection's descriptor, its number and its person.

use crate::connection::{Connection, Peer};
use crate::link::Link;
use crate::meter::Meter;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::{UnixDatagram, UnixStream};

/// A connection as the keeper's process introduces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnection {
    /// The number by which the keeper knows it.
    pub number: u64,
    /// The person whose limits hold for it.
    pub person: u32,
}

const MESSAGE_BYTES: usize = size_of::<u64>() + size_of::<u32>();

impl NewConnection {
    fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        let (number, person) = bytes.split_at_mut(size_of::<u64>());
        number.copy_from_slice(&self.number.to_le_bytes());
        person.copy_from_slice(&self.person.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; MESSAGE_BYTES]) -> NewConnection {
        let (number, person) = bytes.split_first_chunk().expect("it is longer");
        let person = person.first_chunk().expect("it is as long");
        NewConnection { number: u64::from_le_bytes(*number), person: u32::from_le_bytes(*person) }
    }
}

/// Passes a connection on.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] while there is no room; any other when the front is gone.
pub fn pass(door: impl AsFd, connection: impl AsFd, new: NewConnection) -> io::Result<()> {
    let descriptors = [connection.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)), "there is room for one");
    let bytes = new.to_bytes();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(&door, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Takes the next connection. Its descriptor is missing where this process has too many.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] where there is none.
pub fn take(door: impl AsFd) -> io::Result<(NewConnection, Option<OwnedFd>)> {
    let mut bytes = [0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(&door, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    if received.bytes != MESSAGE_BYTES {
        return Err(io::Error::other(format!("a message of {} bytes", received.bytes)));
    }
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((NewConnection::from_bytes(bytes), descriptors.flatten().last()))
}

/// The front's end.
pub struct Door {
    socket: UnixDatagram,
    link: Arc<Link>,
    meter: Meter,
}

impl Door {
    pub fn new(socket: UnixDatagram, link: Arc<Link>) -> Door {
        Door { socket, link, meter: Meter::default() }
    }

    /// The next connection.
    async fn next(&self) -> io::Result<Connection> {
        let taken = self.socket.async_io(Interest::READABLE, || take(&self.socket));
        let (new, descriptor) = taken.await?;
        // From here on the keeper is told when it ends, whatever comes.
        let peer = Peer::new(new, self.link.closing(new.number));
        let descriptor = descriptor.ok_or_else(|| io::Error::other("too many open connections"))?;
        let stream = UnixStream::from_std(StdUnixStream::from(descriptor))?;
        Ok(Connection::new(stream, peer, self.meter.clone()))
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = ();

    async fn accept(&mut self) -> (Connection, ()) {
        loop {
            match self.next().await {
                Ok(connection) => return (connection, ()),
                Err(error) => eprintln!("a connection is lost: {error}"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.io().peer.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixDatagram as StdUnixDatagram;

    #[test]
    fn a_connection_arrives_with_its_number_and_its_person() {
        let (ours, theirs) = StdUnixDatagram::pair().expect("a pair");
        assert_eq!(take(&theirs).expect_err("nothing yet").kind(), io::ErrorKind::WouldBlock);
        let (mut here, there) = StdUnixStream::pair().expect("a pair");
        let new = NewConnection { number: u64::MAX - 1, person: 1000 };
        pass(&ours, &there, new).expect("passed");
        drop(there);
        let (taken, descriptor) = take(&theirs).expect("a message");
        assert_eq!(taken, new);
        let mut there = StdUnixStream::from(descriptor.expect("a descriptor"));
        here.write_all(b"hello").expect("sent");
        drop(here);
        let mut text = String::new();
        there.read_to_string(&mut text).expect("received");
        assert_eq!(text, "hello");
        let full = (0..10_000).find_map(|_| pass(&ours, &there, new).err()).expect("it is full");
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }
}
