//! The keeper's end: enforcement as one object, which asks the enforcing process.

use crate::frame::{self, FrameError};
use crate::message::{Algorithm, Answer, LookedAfter, Measured, Request, Seen, Started, Task};
use crate::survey::Surveyed;
use crate::table::with_causes;
use crate::tracing_stream;
use crate::walls::Wall;
use enforcer::{Plan, Trace};
use identity::ProcessIdentity;
use ledger::Resource;
use policy::PolicyName;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why nobody enforces.
#[derive(Debug, thiserror::Error)]
pub enum EnforcementError {
    /// The process cannot be started.
    #[error("the enforcing process cannot be started")]
    Process(#[from] io::Error),
    /// The process ended.
    #[error("the enforcing process has ended")]
    Ended(#[from] FrameError),
    /// An enforcer cannot begin, in words.
    #[error("{0}")]
    Refused(String),
}

/// The enforcers of all resources, in a process of their own.
///
/// Once that process is gone, nothing is asked any more and every answer is empty; [`EnforcingProcess::wait`] tells.
pub struct Enforcement {
    link: RefCell<Link>,
    /// Whether anybody enforces anything.
    is_on: bool,
    started: Started,
    seen: Seen,
    /// Whether everything is given back, for another allotd's sake.
    is_deferred: bool,
    /// Whether the process was told to end.
    ends: Arc<AtomicBool>,
}

/// The connection.
struct Link {
    stream: UnixStream,
    /// Whether a plan was sent whose answer was not read.
    has_plan: bool,
    /// Refusals of plans, in words.
    refused: Vec<String>,
    is_broken: bool,
}

/// The enforcing process, for the one who waits for its end.
pub struct EnforcingProcess {
    child: Child,
    ends: Arc<AtomicBool>,
}

impl EnforcingProcess {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends. Answers how it ended, if nobody told it to.
    pub fn wait(mut self) -> Option<String> {
        let ended = self.child.wait();
        (!self.ends.load(Ordering::SeqCst)).then(|| match ended {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        })
    }
}

impl Enforcement {
    /// Starts `<program> enforce`, which must call [`enforce_main`](crate::enforce_main), and gives it its task. It
    /// has the caller's rights of this moment. Answers what it found of this machine.
    ///
    /// # Errors
    /// When it cannot be started, or another allotd has the records.
    pub fn begin(
        program: &Path,
        task: Task,
    ) -> Result<(Enforcement, EnforcingProcess, Surveyed), EnforcementError> {
        let (stream, theirs) = UnixStream::pair()?;
        let child = Command::new(program)
            .arg("enforce")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let ends = Arc::new(AtomicBool::new(false));
        let process = EnforcingProcess { child, ends: Arc::clone(&ends) };
        let is_on = task.choice != crate::Choice::Nobody;
        let (refused, is_broken, has_plan) = (Vec::new(), false, false);
        let mut link = Link { stream, has_plan, refused, is_broken };
        let surveyed = match link.ask(&Request::Begin(Box::new(task)))? {
            Answer::Begun(begun) => begun.map_err(EnforcementError::Refused)?,
            _ => return Err(out_of_turn().into()),
        };
        let started = Started::default();
        let (link, seen) = (RefCell::new(link), Seen::default());
        let enforcement = Enforcement { link, is_on, started, seen, is_deferred: false, ends };
        Ok((enforcement, process, surveyed))
    }

    /// Restores what earlier ones left, and starts the CPU's enforcer.
    ///
    /// # Errors
    /// When it cannot be started; nothing was touched then.
    pub fn start(&mut self) -> Result<(), EnforcementError> {
        match self.link.get_mut().ask(&Request::Start)? {
            Answer::Started(started) => {
                self.started = started.map_err(EnforcementError::Refused)?;
                Ok(())
            }
            _ => Err(out_of_turn().into()),
        }
    }

    /// Whether anybody enforces anything.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether all threads of the machine are scheduled, the kernel's own too.
    pub fn covers_everybody(&self) -> bool {
        self.started.covers_everybody
    }

    /// What the process has given up.
    pub fn walls(&self) -> &[Wall] {
        &self.started.walls
    }

    /// Has a plan followed. Its refusal is told by [`take_refusals`](Self::take_refusals), once it is known: nobody
    /// waits for it.
    pub fn apply(&mut self, plan: Plan) {
        self.link.get_mut().apply(plan);
    }

    /// Takes the refusals of plans that are known, in words.
    pub fn take_refusals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.link.get_mut().refused)
    }

    /// Asks what is really set; [`seen`](Self::seen) is as of the last look.
    pub fn look(&mut self) {
        if let Some(Answer::Seen(seen)) = self.ask(&Request::Look) {
            self.seen = *seen;
        }
    }

    /// What was really set at the last look.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Asks what was measured.
    pub fn measure(&self) -> Measured {
        match self.ask(&Request::Measure) {
            Some(Answer::Measured(measured)) => *measured,
            _ => Measured::default(),
        }
    }

    /// Has enforcers replaced that gave up, and asks what happened since this was asked last.
    pub fn look_after(&self) -> LookedAfter {
        match self.ask(&Request::LookAfter) {
            Some(Answer::LookedAfter(looked)) => looked,
            _ => LookedAfter::default(),
        }
    }

    /// Chooses who is next by another algorithm from now on.
    ///
    /// # Errors
    /// When the enforcer cannot, in words.
    pub fn set_algorithm(&self, algorithm: PolicyName) -> Result<(), String> {
        match self.ask(&Request::SetAlgorithm(algorithm)) {
            Some(Answer::AlgorithmSet(set)) => set,
            _ => Err(gone()),
        }
    }

    /// The algorithm that chooses who is next, and by whose hand.
    pub fn algorithm(&self) -> Algorithm {
        match self.ask(&Request::Algorithm) {
            Some(Answer::Algorithm(algorithm)) => algorithm,
            _ => Algorithm { name: PolicyName::Lottery, enforcer: "none".to_owned() },
        }
    }

    /// Begins a trace of every choice.
    ///
    /// # Errors
    /// When the enforcer has none, in words.
    pub fn trace(&self) -> Result<Trace, String> {
        match self.ask(&Request::Trace) {
            Some(Answer::Tracing(Ok(()))) => {}
            Some(Answer::Tracing(Err(why))) => return Err(why),
            _ => return Err(gone()),
        }
        let mut link = self.link.borrow_mut();
        let socket = frame::receive_descriptor(&link.stream).map_err(|error| link.fail(&error));
        let socket = socket.map_err(|()| gone())?;
        tracing_stream::read(socket).map_err(|error| error.to_string())
    }

    /// Notes that a client forked.
    pub fn note_fork(&self, parent: ProcessIdentity, child: ProcessIdentity) {
        self.link.borrow_mut().tell(&Request::NoteFork { parent, child });
    }

    /// Why tickets of a resource are kept without effect, and what would help; `None` where they take effect.
    pub fn without_effect(&self, resource: &Resource) -> Option<String> {
        match self.ask(&Request::WithoutEffect(vec![resource.clone()])) {
            Some(Answer::WithoutEffect(why)) => why.into_iter().next().flatten(),
            _ => Some(gone()),
        }
    }

    /// Gives everything back for as long as there is a reason, and takes it up again after. Answers what changed, in
    /// words.
    pub fn defer(&mut self, why: Option<String>) -> Option<String> {
        if !self.is_on || why.is_some() == self.is_deferred {
            return None;
        }
        self.is_deferred = why.is_some();
        match self.ask(&Request::Defer(why)) {
            Some(Answer::Deferred(changed)) => changed,
            _ => None,
        }
    }

    /// Gives everything back, and waits until the process is about to end.
    pub fn end(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(Answer::Ended) = self.ask(&Request::End) {
            // Its end of the connection is closed last.
            let _ = frame::read::<Answer>(&self.link.get_mut().stream);
        }
    }

    fn ask(&self, request: &Request) -> Option<Answer> {
        let mut link = self.link.borrow_mut();
        if link.is_broken {
            return None;
        }
        link.ask(request).map_err(|error| link.fail(&error)).ok()
    }
}

impl Link {
    fn apply(&mut self, plan: Plan) {
        if self.is_broken {
            return;
        }
        let sent = self.hear_of_plan().and_then(|()| self.send(&Request::Apply(plan)));
        match sent {
            Ok(()) => self.has_plan = true,
            Err(error) => self.fail(&error),
        }
    }

    /// Asks, and waits for the answer.
    fn ask(&mut self, request: &Request) -> Result<Answer, FrameError> {
        self.hear_of_plan()?;
        self.send(request)?;
        frame::read(&self.stream)
    }

    fn tell(&mut self, request: &Request) {
        if self.is_broken {
            return;
        }
        if let Err(error) = self.send(request) {
            self.fail(&error);
        }
    }

    /// Reads what became of the last plan, unless that is known.
    fn hear_of_plan(&mut self) -> Result<(), FrameError> {
        if !std::mem::take(&mut self.has_plan) {
            return Ok(());
        }
        match frame::read(&self.stream)? {
            Answer::Applied(generation, Err(why)) => {
                self.refused.push(format!("plan {generation} cannot be enforced: {why}"));
            }
            Answer::Applied(_, Ok(())) => {}
            _ => return Err(out_of_turn()),
        }
        Ok(())
    }

    fn send(&self, request: &Request) -> Result<(), FrameError> {
        frame::write(&self.stream, request)
    }

    fn fail(&mut self, error: &FrameError) {
        self.is_broken = true;
        tracing::error!("the enforcing process: {}", with_causes(error));
    }
}

fn gone() -> String {
    "the enforcing process has ended".to_owned()
}

fn out_of_turn() -> FrameError {
    FrameError::Broken(io::Error::new(io::ErrorKind::InvalidData, "an answer to something else"))
}
