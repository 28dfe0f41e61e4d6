//! The keeper's end: enforcement as one object, which asks the enforcing process.

use crate::link::{Link, Question, out_of_turn};
use crate::message::{Answer, LookedAfter, Measured, Request, Seen, Started, Task};
use crate::survey::Surveyed;
use crate::tracing_stream;
use crate::walls::Wall;
use enforcer::frame::FrameError;
use enforcer::{Plan, Trace};
use identity::ProcessIdentity;
use ledger::{KindName, Resource};
use policy::PolicyName;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for which the effect of a resource's tickets is taken as known.
const EFFECT_KEPT: Duration = Duration::from_millis(200);
/// The same while the process is at work.
const EFFECT_KEPT_MAX: Duration = Duration::from_secs(10);
/// Maximum number of resources whose effect is known.
const EFFECTS_MAX: usize = 1024;

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
    link: Link,
    /// Whether anybody enforces anything.
    is_on: bool,
    started: Started,
    /// The reason why everything is given back, where it is: another allotd.
    deferred: Option<String>,
    /// Reasons why tickets of resources had no effect, and when that was asked.
    effects: BTreeMap<Resource, (Instant, Option<String>)>,
    /// Whether the process was told to end.
    ends: Arc<AtomicBool>,
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
        let mut link = Link::new(stream);
        let surveyed = match link.try_ask(Request::Begin(Box::new(task)))?.0 {
            Answer::Begun(begun) => begun.map_err(EnforcementError::Refused)?,
            _ => return Err(out_of_turn().into()),
        };
        let started = Started::default();
        let (deferred, effects) = (None, BTreeMap::new());
        let enforcement = Enforcement { link, is_on, started, deferred, effects, ends };
        Ok((enforcement, process, surveyed))
    }

    /// Restores what earlier ones left, and starts the CPU's enforcer.
    ///
    /// # Errors
    /// When it cannot be started; nothing was touched then.
    pub fn start(&mut self) -> Result<(), EnforcementError> {
        match self.link.try_ask(Request::Start)?.0 {
            Answer::Started(started) => {
                self.started = started.map_err(EnforcementError::Refused)?;
                Ok(())
            }
            _ => Err(out_of_turn().into()),
        }
    }

    /// Has answers come by themselves from now on: `notify` is called for each, and [`hear`](Self::hear) takes them.
    /// The threads that this makes have the rights of whoever calls.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn listen(&mut self, notify: impl Fn() + Send + 'static) -> io::Result<()> {
        self.link.listen(notify)
    }

    /// Takes the answers that have come. Answers whether a plan is due that was not [taken](Self::takes_plan) before.
    pub fn hear(&mut self) -> bool {
        self.link.hear()
    }

    /// Whether anybody enforces anything.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether all threads of the machine are scheduled, the kernel's own too.
    pub fn covers_everybody(&self) -> bool {
        self.started.covers_everybody
    }

    /// The rights that the process has given up.
    pub fn walls(&self) -> &[Wall] {
        &self.started.walls
    }

    /// Whether a plan would be followed at once. Otherwise one is due as soon as [`hear`](Self::hear) says so.
    pub fn takes_plan(&mut self) -> bool {
        self.link.takes_plan()
    }

    /// Whether a plan is due that was not taken before: the process has followed no newer one.
    pub fn is_behind(&self) -> bool {
        self.link.is_behind()
    }

    /// The time until a plan is due that was not taken before; `None` where an answer comes first, or none is.
    pub fn plan_due_in(&self) -> Option<Duration> {
        self.link.plan_due_in()
    }

    /// Has a plan followed. Its refusal is told by [`take_refusals`](Self::take_refusals), once it is known: nobody
    /// waits for it.
    pub fn apply(&mut self, plan: Plan) {
        self.link.apply(plan);
    }

    /// Takes the refusals of plans that are known, in words.
    pub fn take_refusals(&mut self) -> Vec<String> {
        std::mem::take(&mut self.link.refused)
    }

    /// Wants a question answered as of now, after all plans. Answers the number of that answer.
    pub fn want(&mut self, question: Question) -> u64 {
        self.link.want(question)
    }

    /// Whether the answer of that number has come, or none will.
    pub fn is_answered(&self, question: Question, number: u64) -> bool {
        self.link.is_answered(question, number)
    }

    /// Waits for a look at what is really set.
    pub fn look(&mut self) {
        if let Some((Answer::Seen(seen), _)) = self.link.ask(Request::Look) {
            self.link.seen = *seen;
        }
    }

    /// The settings as they really were at the last look.
    pub fn seen(&self) -> &Seen {
        &self.link.seen
    }

    /// The latest measurement.
    pub fn measured(&self) -> &Measured {
        &self.link.measured
    }

    /// Takes what happened to enforcers since this was taken last, as far as it is known.
    pub fn take_looked_after(&mut self) -> LookedAfter {
        std::mem::take(&mut self.link.looked_after)
    }

    /// Chooses who is next by another algorithm from now on.
    ///
    /// # Errors
    /// When the enforcer cannot, in words.
    pub fn set_algorithm(&mut self, algorithm: PolicyName) -> Result<(), String> {
        match self.link.ask(Request::SetAlgorithm(algorithm)) {
            Some((Answer::AlgorithmSet(set), _)) => set,
            _ => Err(gone()),
        }
    }

    /// Begins a trace of every choice.
    ///
    /// # Errors
    /// When the enforcer has none, in words.
    pub fn trace(&mut self) -> Result<Trace, String> {
        match self.link.ask(Request::Trace) {
            Some((Answer::Tracing(Ok(())), Some(socket))) => {
                tracing_stream::read(socket).map_err(|error| error.to_string())
            }
            Some((Answer::Tracing(Err(why)), _)) => Err(why),
            _ => Err(gone()),
        }
    }

    /// Notes that a client forked.
    pub fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        self.link.tell(Request::NoteFork { parent, child });
    }

    /// Why tickets of a resource are kept without effect, and what would help; `None` where they take effect. While the
    /// process is at work an answer of the last seconds is good enough: whoever funds keeps nobody waiting for a plan.
    pub fn without_effect(&mut self, resource: &Resource) -> Option<String> {
        if resource.kind() == KindName::CPU {
            // Somebody shares it, or allotd does not start.
            return self.deferred.clone();
        }
        let good_for = if self.link.is_at_work() { EFFECT_KEPT_MAX } else { EFFECT_KEPT };
        if let Some((at, why)) = self.effects.get(resource)
            && at.elapsed() < good_for
        {
            return why.clone();
        }
        let why = match self.link.ask(Request::WithoutEffect(vec![resource.clone()])) {
            Some((Answer::WithoutEffect(why), _)) => why.into_iter().next().flatten(),
            _ => Some(gone()),
        };
        if self.effects.len() >= EFFECTS_MAX {
            self.effects.clear();
        }
        self.effects.insert(resource.clone(), (Instant::now(), why.clone()));
        why
    }

    /// Gives everything back for as long as there is a reason, and takes it up again after. Answers what changed, in
    /// words.
    pub fn defer(&mut self, why: Option<String>) -> Option<String> {
        if !self.is_on || why.is_some() == self.deferred.is_some() {
            return None;
        }
        self.deferred.clone_from(&why);
        self.effects.clear();
        match self.link.ask(Request::Defer(why)) {
            Some((Answer::Deferred(changed), _)) => changed,
            _ => None,
        }
    }

    /// Gives everything back, and waits until the process is about to end.
    pub fn end(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some((Answer::Ended, _)) = self.link.ask(Request::End) {
            // Its end of the connection is closed last.
            self.link.wait_for_end();
        }
    }
}

fn gone() -> String {
    "the enforcing process has ended".to_owned()
}
