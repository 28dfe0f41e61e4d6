//! The loader: a small process that loads the scheduler and attaches it, and hands over the descriptors of what it
//! loaded. It alone keeps the rights which that takes; the enforcing process, which does everything else, gives them up.
//!
//! One loader serves a process as long as that lives, for a scheduler that the kernel threw out must be loaded anew. It
//! holds no descriptor of an attached scheduler: the links are ours alone, so the scheduler goes with us and not with
//! the loader. The loader ends when our end of its socket closes.

mod message;
mod process;

pub(crate) use message::{Constants, Handles};
pub(crate) use process::RIGHTS;
pub use process::loader_main;

use crate::{LoadError, facts};
use enforcer::Check;
use enforcer::frame::{self, FrameError};
use message::{Answer, HANDLES, Request};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Timeout of an answer. The verifier takes a second, on an emulated machine ten and more.
const ANSWER_WAIT: Duration = Duration::from_secs(120);

/// The loader of this process.
static OWN: Mutex<Option<Arc<Loader>>> = Mutex::new(None);

/// The near end of the loader.
pub(crate) struct Loader {
    /// `None` once it is gone.
    line: Mutex<Option<Line>>,
    walls: Vec<Check>,
}

/// The links that keep a scheduler attached: each ends with its descriptor, the locks' tracepoints first.
pub(crate) struct Links {
    _locks: Vec<OwnedFd>,
    _scheduler: OwnedFd,
}

struct Line {
    stream: UnixStream,
    child: Child,
}

impl Loader {
    /// The loader of this process, started where there is none and this process has the rights that it needs. `program`
    /// must call [`loader_main`] when it is run with `helper sched-ext`.
    pub fn own(program: &Path) -> Result<Arc<Loader>, LoadError> {
        let mut own = lock(&OWN);
        if let Some(loader) = own.as_ref().filter(|loader| loader.is_there()) {
            return Ok(Arc::clone(loader));
        }
        if !facts::is_privileged() {
            return Err(LoadError::NoLoader);
        }
        let failed = |source| LoadError::Loader(program.display().to_string(), source);
        let loader = Arc::new(Loader::start(program).map_err(failed)?);
        *own = Some(Arc::clone(&loader));
        Ok(loader)
    }

    fn start(program: &Path) -> io::Result<Loader> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        let child = Command::new(program)
            .args(["helper", crate::NAME])
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let line = Line { stream, child };
        match frame::read(&line.stream) {
            Ok(Answer::Ready(walls)) => Ok(Loader { line: Mutex::new(Some(line)), walls }),
            Ok(_) => Err(line.end_with(io::ErrorKind::InvalidData.into())),
            Err(error) => Err(line.end_with(io::Error::other(error))),
        }
    }

    /// Loads the scheduler: the verifier accepts it, nothing runs by it yet. Answers its number and what it is used by.
    pub fn load(&self, constants: Constants) -> Result<(u64, Handles<OwnedFd>), LoadError> {
        self.ask(|stream| {
            Ok(match question(stream, &Request::Load(constants))? {
                Answer::Loaded(number) => {
                    let handles = frame::receive_descriptors::<HANDLES>(stream)?;
                    Ok((number, Handles::from_list(handles)))
                }
                other => Err(other),
            })
        })
    }

    /// Attaches the scheduler of a number: from then on every thread runs by it, as long as the links are there. Answers what it
    /// does without.
    pub fn attach(
        &self,
        number: u64,
        transfers: bool,
    ) -> Result<(Links, Option<String>), LoadError> {
        self.ask(|stream| {
            let attached = match question(stream, &Request::Attach(number))? {
                Answer::Attached(locks) => locks,
                other => return Ok(Err(other)),
            };
            let [scheduler] = frame::receive_descriptors(stream)?;
            let locks = match transfers && attached.is_ok() {
                true => frame::receive_descriptors::<2>(stream)?.into(),
                false => Vec::new(),
            };
            Ok(Ok((Links { _locks: locks, _scheduler: scheduler }, attached.err())))
        })
    }

    /// Forgets the scheduler of a number, where it is not attached.
    pub fn forget(&self, number: u64) {
        let _ = self.ask(|stream| frame::write(stream, &Request::Forget(number)).map(Ok));
    }

    /// Ends it: no scheduler will be loaded any more.
    pub fn end(&self) {
        if let Some(line) = lock(&self.line).take() {
            line.end();
        }
    }

    fn is_there(&self) -> bool {
        lock(&self.line).is_some()
    }

    /// Asks it. An answer that does not come, or is none, ends it: what it would say next belongs to nobody.
    fn ask<T>(
        &self,
        asked: impl FnOnce(&UnixStream) -> Result<Result<T, Answer>, FrameError>,
    ) -> Result<T, LoadError> {
        let mut line = lock(&self.line);
        let answered = asked(&line.as_ref().ok_or(LoadError::NoLoader)?.stream);
        let error = match answered {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Answer::Refused { what, why, said })) => {
                return Err(LoadError::Refused { what, source: io::Error::other(why), said });
            }
            Ok(Err(_)) => io::ErrorKind::InvalidData.into(),
            Err(error) => io::Error::other(error),
        };
        if let Some(line) = line.take() {
            line.end();
            tracing::warn!("the process that loads schedulers is gone: {error}");
        }
        Err(LoadError::NoLoader)
    }
}

impl Line {
    /// Ends the process.
    fn end(mut self) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let open = |process| rustix::process::pidfd_open(process, PidfdFlags::empty()).ok();
        // It has not been waited for, so the number is still its own.
        if let Some(pidfd) = process.and_then(open) {
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        }
        let _ = self.child.wait();
    }

    fn end_with(self, why: io::Error) -> io::Error {
        self.end();
        why
    }
}

fn question(stream: &UnixStream, request: &Request) -> Result<Answer, FrameError> {
    frame::write(stream, request)?;
    frame::read(stream)
}

/// Whether this process has a loader.
pub(crate) fn is_there() -> bool {
    lock(&OWN).as_ref().is_some_and(|loader| loader.is_there())
}

/// The walls of this process's loader.
pub(crate) fn walls() -> Vec<Check> {
    lock(&OWN).as_ref().map_or(Vec::new(), |loader| loader.walls.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loader whose other end is ours.
    fn loader() -> (Loader, UnixStream) {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let line = Mutex::new(Some(Line { stream, child }));
        (Loader { line, walls: Vec::new() }, theirs)
    }

    fn constants() -> Constants {
        let (horizon_ns, guest_grace_ns, watchdog_ms) = (1, 1, 1000);
        let (cpu_domain, domains, cpus_end) = (vec![(0, 0)], 1, 1);
        let (seed, transfers) = (1, false);
        Constants {
            seed,
            horizon_ns,
            guest_grace_ns,
            transfers,
            watchdog_ms,
            cpu_domain,
            domains,
            cpus_end,
        }
    }

    #[test]
    fn one_that_is_gone_loads_nothing_and_is_not_asked_again() {
        let (loader, theirs) = loader();
        drop(theirs);
        for _ in 0..2 {
            assert!(matches!(loader.load(constants()), Err(LoadError::NoLoader)));
            assert!(!loader.is_there());
        }
    }

    #[test]
    fn descriptors_that_do_not_come_end_it() {
        let (loader, theirs) = loader();
        frame::write(&theirs, &Answer::Loaded(1)).unwrap();
        frame::send_descriptors(&theirs, &[]).unwrap();
        assert!(matches!(loader.load(constants()), Err(LoadError::NoLoader)));
        assert!(!loader.is_there());
    }

    #[test]
    fn the_far_end_refuses_cpus_that_cannot_be_and_what_is_not_loaded() {
        let (loader, theirs) = loader();
        let far = std::thread::spawn(move || process::serve(&theirs, Vec::new()));
        let ready: Answer = frame::read(&lock(&loader.line).as_ref().unwrap().stream).unwrap();
        assert_eq!(ready, Answer::Ready(Vec::new()));
        let most = crate::abi::CPUS_MAX as u32;
        for wrong in [
            Constants { cpus_end: most + 1, ..constants() },
            Constants { domains: crate::abi::DOMAINS_MAX as u32 + 1, ..constants() },
            Constants { cpu_domain: vec![(1, 0)], ..constants() },
            Constants { cpu_domain: vec![(0, 1)], ..constants() },
        ] {
            let refused = loader.load(wrong).err().unwrap().to_string();
            assert!(refused.contains("there are no such CPUs"), "{refused}");
        }
        let refused = loader.attach(1, false).err().unwrap().to_string();
        assert!(refused.contains("it is not loaded"), "{refused}");
        loader.forget(1);
        assert!(loader.is_there());
        loader.end();
        assert!(far.join().unwrap().unwrap_err().is_end());
    }
}
