//! A trace on its way from one process to the other, on a socket of its own: it ends when either end closes it.

use enforcer::{Trace, TraceEvent, frame, trace_channel};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::TrySendError;

/// Writes a trace to a socket, on a thread of its own. Answers the end to read from.
///
/// # Errors
/// When there can be no socket or thread.
pub fn write(mut trace: Trace) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let work = move || {
        while let Some(event) = trace.next() {
            let mut batch = vec![event];
            batch.extend(trace.ready());
            if frame::write(&ours, &batch).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("allot-trace".to_owned()).spawn(work)?;
    Ok(theirs.into())
}

/// Reads a trace from a socket, on a thread of its own.
///
/// # Errors
/// When there can be no thread.
pub fn read(socket: OwnedFd) -> io::Result<Trace> {
    let socket = UnixStream::from(socket);
    let (writer, trace) = trace_channel();
    let work = move || {
        while let Ok(batch) = frame::read::<Vec<TraceEvent>>(&socket) {
            // Whoever reads too slowly loses events, which their numbers show.
            if let Err(TrySendError::Disconnected(_)) = writer.try_send(batch) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("allot-trace".to_owned()).spawn(work)?;
    Ok(trace)
}
