//! The front's process: started with two sockets, ended when it is dropped, its last words kept to the log.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram as StdUnixDatagram, UnixStream as StdUnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::net::{UnixDatagram, UnixStream};
use tokio::task::JoinHandle;

/// The program that runs now, whatever has been put at its path since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The most lines of one front that are logged: whoever took it over does not fill the log.
const WORDS_MAX: usize = 16;
/// The most bytes that are read at once; a longer line is cut.
const WORDS_BYTES: usize = 1024;

/// How long a dead front's last words are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// See the [module](self).
pub struct FrontProcess {
    child: Child,
    words: JoinHandle<Option<String>>,
}

impl FrontProcess {
    /// Starts one. Answers with the main process's ends of its line and its door. Must be called in the runtime, on
    /// the main thread: the front dies with the thread that started it.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start() -> io::Result<(FrontProcess, (UnixStream, UnixDatagram))> {
        let (line, their_line) = StdUnixStream::pair()?;
        let (door, their_door) = StdUnixDatagram::pair()?;
        line.set_nonblocking(true)?;
        door.set_nonblocking(true)?;
        let mut child = Command::new(OWN_PROGRAM)
            .arg0("allotd")
            .arg("front")
            .env_clear()
            .current_dir("/")
            // A signal from a terminal is for the main process, which ends it in order.
            .process_group(0)
            .stdin(OwnedFd::from(their_door))
            .stdout(OwnedFd::from(their_line))
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().expect("it is piped");
        let words = tokio::spawn(pass_on(stderr));
        let process = FrontProcess { child, words };
        Ok((process, (UnixStream::from_std(line)?, UnixDatagram::from_std(door)?)))
    }

    /// Ends it, if it has not ended. Answers how it ended, and what it said last.
    pub async fn end(mut self) -> io::Result<(ExitStatus, Option<String>)> {
        self.child.kill()?;
        let status = self.child.wait()?;
        let words = tokio::time::timeout(LAST_WORDS, &mut self.words).await;
        Ok((status, words.ok().and_then(Result::ok).flatten()))
    }
}

impl Drop for FrontProcess {
    fn drop(&mut self) {
        // Nothing happens to one that was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Logs what a front says of itself. Answers with the last line.
async fn pass_on(stderr: ChildStderr) -> Option<String> {
    let mut stderr = pipe::Receiver::from_owned_fd(OwnedFd::from(stderr)).ok()?;
    let mut bytes = [0; WORDS_BYTES];
    let mut last = None;
    let mut count = 0;
    // To its end, so that the front never waits for a reader.
    while let Ok(read) = stderr.read(&mut bytes).await
        && read > 0
    {
        for line in String::from_utf8_lossy(&bytes[..read]).lines() {
            let line: String = line.escape_debug().collect();
            if count < WORDS_MAX {
                tracing::warn!("the front says: {line}");
            }
            count += 1;
            last = Some(line);
        }
    }
    last
}
