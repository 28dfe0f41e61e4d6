//! Whether the terminal of a full-screen view is still there.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};

/// The terminals that a view is shown and typed on.
pub struct Terminals {
    /// Else the library opens /dev/tty for the keyboard, which is the one shown on.
    typed_on_input: bool,
}

impl Terminals {
    /// Asks which of this process's streams are terminals. At the start: a terminal that is gone is none.
    pub fn find() -> Terminals {
        Terminals { typed_on_input: io::stdin().is_terminal() }
    }

    /// Whether one of them has hung up: its window was closed, or the connection is lost. A view
    /// that was started by nohup(1) hears of that in no other way.
    pub fn are_gone(&self) -> bool {
        let (input, output) = (io::stdin(), io::stdout());
        has_hung_up(output.as_fd()) || (self.typed_on_input && has_hung_up(input.as_fd()))
    }
}

fn has_hung_up(terminal: BorrowedFd<'_>) -> bool {
    // A hang-up is told without being asked for.
    let mut polled = [PollFd::new(terminal, PollFlags::empty())];
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    poll(&mut polled, PollTimeout::ZERO).is_ok()
        && polled[0].revents().is_some_and(|found| found.intersects(gone))
}
