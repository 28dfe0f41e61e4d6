//! The front's process: two sockets, no rights, and the server.

use crate::connection::Peer;
use crate::door::Door;
use crate::link::Link;
use crate::message::FromFront;
use crate::sandbox::{SandboxError, enter};
use crate::server::router;
use sandbox::Restriction;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram as StdUnixDatagram, UnixStream as StdUnixStream};
use std::process::ExitCode;
use tokio::net::{UnixDatagram, UnixStream};
use tokio::sync::watch;

/// The front is the first part of allot that the kernel kills when there is too little memory.
const OOM_SCORE: i32 = 300;

#[derive(Debug, thiserror::Error)]
enum FrontError {
    #[error("it is started by allotd itself, with two sockets: {0}")]
    Sockets(io::Error),
    #[error("it has no event loop: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("allotd cannot be reached: {0}")]
    Keeper(io::Error),
    #[error("it can no longer serve: {0}")]
    Serve(io::Error),
}

/// Runs as the front: new connections come over standard input, requests and answers go over standard output.
pub fn front_main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        // Nothing is left to serve, and nobody to tell.
        Err(FrontError::Keeper(gone)) if gone.kind() == io::ErrorKind::UnexpectedEof => {
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("the front ends: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), FrontError> {
    close_what_was_left_open();
    let door = StdUnixDatagram::from(socket(io::stdin().as_fd())?);
    let line = StdUnixStream::from(socket(io::stdout().as_fd())?);
    door.set_nonblocking(true).map_err(FrontError::Sockets)?;
    line.set_nonblocking(true).map_err(FrontError::Sockets)?;
    let _ = rustix::thread::set_name(c"allot-front");
    // Its own to raise; where /proc is not there it stays as it was.
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE.to_string());
    // Before the filter: it opens what it waits with.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(FrontError::Runtime)?;
    let files = enter()?;
    runtime.block_on(serve(door, line, files))
}

/// Closes every descriptor but the two sockets and standard error.
fn close_what_was_left_open() {
    let (first, last, flags) = (3_u32, u32::MAX, 0_u32);
    // SAFETY: nothing in this process has opened a descriptor yet, so nobody owns one that is closed here.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}

fn socket(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, FrontError> {
    rustix::net::sockopt::socket_type(descriptor)
        .map_err(|errno| FrontError::Sockets(errno.into()))?;
    descriptor.try_clone_to_owned().map_err(FrontError::Sockets)
}

/// Serves until the keeper says that everything ends, or is gone.
async fn serve(
    door: StdUnixDatagram,
    line: StdUnixStream,
    files: Restriction,
) -> Result<(), FrontError> {
    let line = UnixStream::from_std(line).map_err(FrontError::Sockets)?;
    let (link, line) = Link::new(line);
    let door = UnixDatagram::from_std(door).map_err(FrontError::Sockets)?;
    let door = Door::new(door, link.clone());
    let (end, mut ending) = watch::channel(false);
    let app = router(link.clone()).into_make_service_with_connect_info::<Peer>();
    link.tell(&FromFront::Ready { files });
    let serving = axum::serve(door, app).with_graceful_shutdown(async move {
        let _ = ending.wait_for(|ending| *ending).await;
    });
    tokio::select! {
        gone = line.serve(link, end) => Err(FrontError::Keeper(gone)),
        served = async { serving.await } => served.map_err(FrontError::Serve),
    }
}
