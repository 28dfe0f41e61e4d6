//! HTTP over a Unix socket, for `ureq`: its connector, its transport, and a resolver that asks nobody.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout as SocketTimeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as Limit;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The shortest time limit of a socket: the kernel takes zero as none.
const SHORTEST: Duration = Duration::from_micros(1);

/// Connects each request to one socket, whatever host its address names.
#[derive(Debug)]
pub(crate) struct UnixConnector {
    pub socket: PathBuf,
}

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        _: Option<()>,
    ) -> Result<Option<UnixTransport>, Error> {
        let stream = open(&self.socket, left(details.timeout)?);
        let stream = stream.map_err(|error| timed_out(error.into(), details.timeout))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

/// Connects to a socket. The kernel applies the time limit of sending to connecting, too.
fn open(socket: &Path, limit: Option<Duration>) -> Result<UnixStream, Errno> {
    let address = SocketAddrUnix::new(socket)?;
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let stream: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&stream, SocketTimeout::Send, limit)?;
    while let Err(error) = connect(&stream, &address) {
        if error != Errno::INTR {
            return Err(error);
        }
    }
    Ok(UnixStream::from(stream))
}

/// One connection.
#[derive(Debug)]
pub(crate) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(left(timeout)?)?;
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| timed_out(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let until = left(timeout)?.map(|left| Instant::now() + left);
        let read = loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            self.stream.set_read_timeout(left.map(|left| left.max(SHORTEST)))?;
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let amount = read.map_err(|error| timed_out(error, timeout))?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// Whether the next request may use this connection: allotd has not closed it, and has sent nothing that
    /// nobody asked for.
    fn is_open(&mut self) -> bool {
        let quiet = |stream: &mut UnixStream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            read
        };
        quiet(&mut self.stream).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }
}

/// The time that is left, if it is limited.
fn left(timeout: NextTimeout) -> Result<Option<Duration>, Error> {
    match timeout.after {
        Limit::NotHappening => Ok(None),
        Limit::Exact(Duration::ZERO) => Err(Error::Timeout(timeout.reason)),
        Limit::Exact(left) => Ok(Some(left.max(SHORTEST))),
    }
}

/// A time limit of a socket that has passed is told as one that would block.
fn timed_out(error: std::io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}

/// Resolves no name: the socket is known. The address is one that the connector does not read.
#[derive(Debug)]
pub(crate) struct NoResolver;

impl Resolver for NoResolver {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        Ok(addresses)
    }
}
