//! A pseudo-terminal with a program on it, and what is read and typed there.

use super::PATIENCE;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// All that was written to a terminal so far.
#[derive(Default)]
struct Screen {
    text: Mutex<String>,
    more: Condvar,
}

/// A terminal and the program that leads its session.
pub struct Terminal {
    keyboard: Option<File>,
    screen: Arc<Screen>,
    /// The reader of the screen, and what it reads until: the end of a pipe.
    reader: Option<(JoinHandle<()>, OwnedFd)>,
    /// How much of the screen was waited for already.
    read: usize,
    pub leader: Child,
}

impl Terminal {
    /// Runs a program as the leader of a session of its own, on a new terminal of 24 lines.
    pub fn run(mut command: Command) -> Terminal {
        let (master, slave) = pseudo_terminal();
        set_size(&master, 24, 80);
        let end = || slave.try_clone().expect("another descriptor");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: between fork and exec only system calls are made that allocate nothing.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            })
        };
        let leader = command.spawn().expect("the program can be started");
        // The command holds ends of the terminal, which must all be closed to hang it up.
        drop((command, slave));
        let screen = Arc::new(Screen::default());
        let (until, end) = nix::unistd::pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        let reader = std::thread::spawn({
            let master = master.try_clone().expect("another descriptor");
            let screen = Arc::clone(&screen);
            move || screen.read_from(master, &until)
        });
        let keyboard = Some(master);
        Terminal { keyboard, screen, reader: Some((reader, end)), read: 0, leader }
    }

    /// Closes the window: the kernel hangs the terminal up.
    pub fn hang_up(&mut self) {
        if let Some((reader, end)) = self.reader.take() {
            drop(end);
            let _ = reader.join();
        }
        self.keyboard = None;
    }

    /// Types.
    pub fn types(&mut self, text: &str) {
        let keyboard = self.keyboard.as_mut().expect("the terminal is there");
        keyboard.write_all(text.as_bytes()).expect("the terminal is there");
    }

    /// Waits until something stands behind all that was waited for before.
    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        let since = Instant::now();
        let mut screen = self.screen.text.lock().expect("nobody panicked");
        loop {
            if let Some(found) = screen[self.read..].find(text) {
                self.read += found + text.len();
                return;
            }
            let left = PATIENCE.checked_sub(since.elapsed());
            let left = left.unwrap_or_else(|| panic!("no {text:?} in {:?}", &screen[self.read..]));
            screen = self.screen.more.wait_timeout(screen, left).expect("nobody panicked").0;
        }
    }

    /// Takes what was written since the last wait.
    pub fn rest(&mut self) -> String {
        let screen = self.screen.text.lock().expect("nobody panicked");
        screen[std::mem::replace(&mut self.read, screen.len())..].to_owned()
    }

    /// Gives the terminal another size, as when its window is dragged.
    pub fn resize(&self, rows: u16, columns: u16) {
        set_size(self.keyboard.as_ref().expect("the terminal is there"), rows, columns);
    }

    /// The process group that has the terminal.
    pub fn foreground(&self) -> i32 {
        let keyboard = self.keyboard.as_ref().expect("the terminal is there");
        nix::unistd::tcgetpgrp(keyboard).expect("the terminal is there").as_raw()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.hang_up();
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

/// Both ends of a new one; no program that another test starts inherits them.
fn pseudo_terminal() -> (File, File) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master: PtyMaster = posix_openpt(flags).expect("a pseudo-terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
    let name = ptsname_r(&master).expect("it has a name");
    let slave = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(name);
    let master = master.as_fd().try_clone_to_owned().expect("another descriptor");
    (File::from(master), slave.expect("its other end"))
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open, and the size is read from a live structure.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    assert_eq!(done, 0, "the terminal takes a size");
}

impl Screen {
    fn read_from(&self, mut master: File, until: &OwnedFd) {
        let mut buffer = [0; 4096];
        loop {
            let mut polled = [
                PollFd::new(master.as_fd(), PollFlags::POLLIN),
                PollFd::new(until.as_fd(), PollFlags::empty()),
            ];
            let ends =
                poll(&mut polled, PollTimeout::NONE).is_err() || polled[1].any().unwrap_or(true);
            // An error says that nobody has the terminal open any more.
            let count = if ends { 0 } else { master.read(&mut buffer).unwrap_or(0) };
            if count == 0 {
                return;
            }
            let text = String::from_utf8_lossy(&buffer[..count]);
            self.text.lock().expect("nobody panicked").push_str(&text);
            self.more.notify_all();
        }
    }
}
