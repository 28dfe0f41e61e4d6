//! The keeper's connection to the enforcing process, which answers what it is told and asked in order.
//!
//! Until somebody [listens](Link::listen) each request waits for its answer. From then on two threads write and read, and
//! nobody who serves others waits for the enforcing process: a plan that it has not followed yet delays the next one, not
//! the keeper, and questions are answered later.

use crate::message::{Answer, LookedAfter, Measured, Request, Seen};
use crate::table::with_causes;
use enforcer::Plan;
use enforcer::frame::{self, FrameError};
use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Pause between two plans, as a multiple of the time in which the last one was followed: plans that take
/// up to 25 ms take a fifth of the time at most.
const PAUSE_FACTOR: u32 = 4;
/// Maximum pause between two plans.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A question that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The settings in force.
    Look,
    /// The latest measurement.
    Measure,
    /// News of enforcers that gave up or found drift. The next best takes the place of one that gave up.
    LookAfter,
}

impl Question {
    const ALL: [Question; 3] = [Question::Look, Question::Measure, Question::LookAfter];

    fn request(self) -> Request {
        match self {
            Question::Look => Request::Look,
            Question::Measure => Request::Measure,
            Question::LookAfter => Request::LookAfter,
        }
    }
}

/// How often a question was asked and answered. At most one asking is on its way: those who want to know meanwhile wait
/// for the next.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    wanted: u64,
    sent: u64,
    answered: u64,
}

/// Something that was sent and is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Plan,
    Question(Question),
    /// Somebody waits for this answer.
    Awaited,
}

/// An answer, and the descriptor that followed it.
type Incoming = Result<(Answer, Option<OwnedFd>), FrameError>;

struct Threads {
    out: mpsc::Sender<Request>,
    incoming: mpsc::Receiver<Incoming>,
}

/// See the [module](self).
pub(crate) struct Link {
    stream: Arc<UnixStream>,
    threads: Option<Threads>,
    unanswered: VecDeque<Sent>,
    asked: [Asked; Question::ALL.len()],
    /// A plan waits to be made until the last one is followed, and the pause after it is over. Questions come after it.
    owes_plan: bool,
    /// When the last plan was sent, and when the next one may be.
    plan_at: Instant,
    next_plan_at: Instant,
    is_broken: bool,
    /// Refusals of plans, in words.
    pub refused: Vec<String>,
    /// The latest answers.
    pub seen: Seen,
    pub measured: Measured,
    /// News of enforcers since this was taken last.
    pub looked_after: LookedAfter,
}

impl Link {
    pub fn new(stream: UnixStream) -> Link {
        Link {
            stream: Arc::new(stream),
            threads: None,
            unanswered: VecDeque::new(),
            asked: Default::default(),
            owes_plan: false,
            plan_at: Instant::now(),
            next_plan_at: Instant::now(),
            is_broken: false,
            refused: Vec::new(),
            seen: Seen::default(),
            measured: Measured::default(),
            looked_after: LookedAfter::default(),
        }
    }

    /// Has answers come by themselves from now on: `notify` is called for each.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn listen(&mut self, notify: impl Fn() + Send + 'static) -> io::Result<()> {
        let (out, requests) = mpsc::channel::<Request>();
        let (answers, incoming) = mpsc::channel();
        let spawn = |name: &str, act: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(act).map(drop)
        };
        let (to, from) = (Arc::clone(&self.stream), Arc::clone(&self.stream));
        // Where a request cannot be written, the reader finds the stream broken.
        let write =
            move || drop(requests.iter().try_for_each(|request| frame::write(&*to, &request)));
        let read = move || {
            loop {
                let answer = receive(&from);
                let is_last = answer.is_err();
                if answers.send(answer).is_err() {
                    return;
                }
                notify();
                if is_last {
                    return;
                }
            }
        };
        spawn("allot-tell", Box::new(write))?;
        spawn("allot-hear", Box::new(read))?;
        self.threads = Some(Threads { out, incoming });
        Ok(())
    }

    /// Whether a plan would be followed at once. Otherwise one is due as soon as [`hear`](Self::hear) says so.
    pub fn takes_plan(&mut self) -> bool {
        self.owes_plan = !self.is_free();
        !self.owes_plan
    }

    fn is_free(&self) -> bool {
        !self.unanswered.contains(&Sent::Plan) && Instant::now() >= self.next_plan_at
    }

    /// Whether the process has yet to answer something.
    pub fn is_at_work(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Whether a plan is due that was not taken before.
    pub fn is_behind(&self) -> bool {
        self.owes_plan
    }

    /// The time until a plan is due that was not taken before; `None` where an answer comes first, or none is.
    pub fn plan_due_in(&self) -> Option<Duration> {
        let waits = !self.is_broken && self.owes_plan && !self.unanswered.contains(&Sent::Plan);
        waits.then(|| self.next_plan_at.saturating_duration_since(Instant::now()))
    }

    /// Has a plan followed.
    pub fn apply(&mut self, plan: Plan) {
        self.owes_plan = false;
        self.plan_at = Instant::now();
        self.send(Request::Apply(plan), Sent::Plan);
        self.ask_what_is_wanted();
    }

    pub fn tell(&mut self, request: Request) {
        let sent = self.write(request);
        self.or_fail(sent);
    }

    /// Wants a question answered as of now, after all plans. Answers the number of that answer.
    pub fn want(&mut self, question: Question) -> u64 {
        let asked = &mut self.asked[question as usize];
        asked.wanted = asked.sent + 1;
        let number = asked.wanted;
        self.ask_what_is_wanted();
        number
    }

    /// Whether the answer of that number has come, or none will.
    pub fn is_answered(&self, question: Question, number: u64) -> bool {
        self.is_broken || self.asked[question as usize].answered >= number
    }

    fn ask_what_is_wanted(&mut self) {
        for question in Question::ALL {
            let asked = &mut self.asked[question as usize];
            let is_on_its_way = asked.sent > asked.answered;
            if !self.owes_plan && !is_on_its_way && asked.wanted > asked.sent {
                asked.sent += 1;
                self.send(question.request(), Sent::Question(question));
            }
        }
    }

    /// Takes the answers that have come. Answers whether a plan is due that was not taken before.
    pub fn hear(&mut self) -> bool {
        while let Some(answer) = self.threads.as_ref().and_then(|it| it.incoming.try_recv().ok()) {
            let taken = answer.and_then(|(answer, _)| self.take(answer));
            self.or_fail(taken);
        }
        let is_due = self.owes_plan && self.is_free();
        if !is_due {
            self.ask_what_is_wanted();
        }
        is_due && !self.is_broken
    }

    /// Asks, and waits for the answer; `None` once the process is gone.
    pub fn ask(&mut self, request: Request) -> Option<(Answer, Option<OwnedFd>)> {
        if self.is_broken {
            return None;
        }
        let answer = self.try_ask(request);
        self.or_fail(answer)
    }

    /// As [`ask`](Self::ask), with the reason.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn try_ask(&mut self, request: Request) -> Result<(Answer, Option<OwnedFd>), FrameError> {
        self.write(request)?;
        self.unanswered.push_back(Sent::Awaited);
        loop {
            let (answer, descriptor) = self.next()?;
            if self.unanswered.front() == Some(&Sent::Awaited) {
                self.unanswered.pop_front();
                return Ok((answer, descriptor));
            }
            self.take(answer)?;
        }
    }

    /// Waits until the process has closed its end.
    pub fn wait_for_end(&mut self) {
        while !self.is_broken && self.next().is_ok() {}
    }

    fn next(&mut self) -> Incoming {
        match &self.threads {
            Some(threads) => threads.incoming.recv().unwrap_or(Err(FrameError::Closed)),
            None => receive(&self.stream),
        }
    }

    /// Takes the answer to what was sent first.
    fn take(&mut self, answer: Answer) -> Result<(), FrameError> {
        if self.unanswered.front() == Some(&Sent::Plan) {
            let now = Instant::now();
            let pause = (now - self.plan_at).saturating_mul(PAUSE_FACTOR);
            self.next_plan_at = now + pause.min(PAUSE_MAX);
        }
        match (self.unanswered.pop_front(), answer) {
            (Some(Sent::Plan), Answer::Applied(_, Ok(()))) => {}
            (Some(Sent::Plan), Answer::Applied(generation, Err(why))) => {
                self.refused.push(format!("plan {generation} cannot be enforced: {why}"));
            }
            (Some(Sent::Question(question)), answer) => {
                self.asked[question as usize].answered += 1;
                match (question, answer) {
                    (Question::Look, Answer::Seen(seen)) => self.seen = *seen,
                    (Question::Measure, Answer::Measured(measured)) => self.measured = *measured,
                    (Question::LookAfter, Answer::LookedAfter(LookedAfter { replaced, drift })) => {
                        self.looked_after.replaced.extend(replaced);
                        self.looked_after.drift.extend(drift);
                    }
                    _ => return Err(out_of_turn()),
                }
            }
            _ => return Err(out_of_turn()),
        }
        Ok(())
    }

    fn send(&mut self, request: Request, what: Sent) {
        if self.is_broken {
            return;
        }
        self.unanswered.push_back(what);
        let sent = self.write(request);
        self.or_fail(sent);
        if self.threads.is_none() && !self.is_broken {
            let taken = receive(&self.stream).and_then(|(answer, _)| self.take(answer));
            self.or_fail(taken);
        }
    }

    fn write(&self, request: Request) -> Result<(), FrameError> {
        match &self.threads {
            Some(threads) => threads.out.send(request).map_err(|_| FrameError::Closed),
            None => frame::write(&*self.stream, &request),
        }
    }

    fn or_fail<T>(&mut self, done: Result<T, FrameError>) -> Option<T> {
        done.map_err(|error| {
            if !std::mem::replace(&mut self.is_broken, true) {
                tracing::error!("the enforcing process: {}", with_causes(&error));
                // Where it lives and said what nobody says, it gives everything back and ends.
                let _ = self.stream.shutdown(Shutdown::Both);
            }
        })
        .ok()
    }
}

fn receive(stream: &UnixStream) -> Incoming {
    let answer = frame::read(stream)?;
    let descriptor = match &answer {
        Answer::Tracing(Ok(())) => Some(frame::receive_descriptors(stream).map(|[it]| it)?),
        _ => None,
    };
    Ok((answer, descriptor))
}

pub(crate) fn out_of_turn() -> FrameError {
    FrameError::Broken(io::Error::new(io::ErrorKind::InvalidData, "an answer to something else"))
}
