//! The command that runs beside the negotiator: its lines are passed on and counted.

use crate::wakes::Wake;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// A running command.
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts it. `lines` counts its lines; `wake` gets [`Wake::CommandEnded`] once it has ended and its
    /// last line has passed.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(
        command: &[OsString],
        lines: Arc<AtomicU64>,
        wake: Sender<Wake>,
    ) -> io::Result<Running> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        let (pid, output) = (pid_of(&child), child.stdout.take());
        std::thread::spawn(move || {
            if let Some(output) = output {
                pass(output, io::stdout(), &lines);
            }
            // Not reaped here, so that its number stays its own until `end`.
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), ended).is_err_and(|error| error == Errno::INTR) {}
            let _ = wake.send(Wake::CommandEnded);
        });
        Ok(Running { child })
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Passes a signal on to it.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(pid_of(&self.child), signal);
        }
    }

    /// Waits for its end. Returns the exit status that a shell shows for it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(mut self) -> io::Result<u8> {
        self.child.wait().map(exit_code)
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Passes all output on and counts its lines. It is read even where nobody takes it, so that the command
/// goes on.
fn pass(mut output: impl Read, mut to: impl Write, lines: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = match output.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let _ = to.write_all(&buffer[..length]).and_then(|()| to.flush());
        let ends = buffer[..length].iter().filter(|byte| **byte == b'\n').count();
        lines.fetch_add(ends as u64, Ordering::Relaxed);
    }
}

/// The exit status that a shell shows.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn lines_are_passed_on_and_counted() {
        let (lines, mut to) = (AtomicU64::new(0), Vec::new());
        pass(&b"one\n\nunfinished"[..], &mut to, &lines);
        assert_eq!((to.as_slice(), lines.load(Ordering::Relaxed)), (&b"one\n\nunfinished"[..], 2));
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        pass(&b"three\n"[..], Closed, &lines);
        assert_eq!(lines.load(Ordering::Relaxed), 3, "nobody listens, and it goes on");
    }

    #[test]
    fn its_end_is_told() {
        let lines = Arc::new(AtomicU64::new(0));
        let (wake, woken) = channel();
        let command = ["sh", "-c", "exit 7"].map(OsString::from);
        let running = Running::start(&command, Arc::clone(&lines), wake).expect("sh runs");
        assert!(matches!(woken.recv(), Ok(Wake::CommandEnded)));
        assert_eq!(running.end().expect("it has ended"), 7);
        let (wake, woken) = channel();
        let command = ["sleep", "100"].map(OsString::from);
        let running = Running::start(&command, lines, wake).expect("sleep runs");
        running.signal(15);
        assert!(matches!(woken.recv(), Ok(Wake::CommandEnded)));
        assert_eq!(running.end().expect("it has ended"), 128 + 15);
        let (wake, _) = channel();
        assert!(Running::start(&["/no/such".into()], Arc::default(), wake).is_err());
    }
}
