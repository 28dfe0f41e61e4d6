//! Reasons to end the sleep between two looks: a signal, or the end of the command.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The reason to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A signal came.
    Signal(i32),
    /// The command has ended.
    CommandEnded,
}

/// The reasons that have come so far.
pub struct Wakes {
    woken: Receiver<Wake>,
    ended: bool,
    signal: Option<i32>,
}

impl Wakes {
    /// Catches signals, and returns the sender for other reasons, too.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub fn catch() -> io::Result<(Wakes, Sender<Wake>)> {
        let (wake, woken) = channel();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let caught = wake.clone();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if caught.send(Wake::Signal(signal)).is_err() {
                    return;
                }
            }
        });
        Ok((Wakes { woken, ended: false, signal: None }, wake))
    }

    /// Sleeps for that long, or until something comes.
    pub fn sleep(&mut self, longest: Duration) {
        match self.woken.recv_timeout(longest) {
            Ok(wake) => self.note(wake),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    /// True once the negotiator has to end.
    pub fn is_over(&self) -> bool {
        self.ended || self.signal.is_some()
    }

    /// Waits for the command's end, and passes signals on to it. From a terminal SIGINT comes to both.
    pub fn wait_for_command(&mut self, pass_on: impl Fn(i32)) {
        while !self.ended {
            if let Some(signal) = self.signal.take().filter(|signal| *signal != SIGINT) {
                pass_on(signal);
            }
            match self.woken.recv() {
                Ok(wake) => self.note(wake),
                Err(_) => return,
            }
        }
    }

    fn note(&mut self, wake: Wake) {
        match wake {
            Wake::Signal(signal) => self.signal = Some(signal),
            Wake::CommandEnded => self.ended = true,
        }
    }
}
