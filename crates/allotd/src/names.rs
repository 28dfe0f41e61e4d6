//! Names of users and groups, asked of the system once each for a while, by a thread of its own: it may have to ask a
//! directory server, which may not answer.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long an answer is good for.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most answers: callers choose what is asked.
const ANSWERS_MAX: usize = 10_000;
/// How long whoever must not be kept waiting waits for the system.
const PATIENCE: Duration = Duration::from_millis(10);

/// A question to the system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    UserByUid(u32),
    UserByName(String),
    GroupByGid(u32),
    GroupsOf(String, u32),
}

/// The answers: names and ids of users or groups; nothing where there is no such.
type Answer = Vec<(String, u32)>;

/// Remembers names.
#[derive(Debug)]
pub struct Names {
    ask: Sender<Question>,
    answers: Receiver<(Question, Answer)>,
    known: BTreeMap<Question, Answer>,
    /// Asked, and not answered yet.
    open: BTreeSet<Question>,
    /// Whether something was answered with nothing because the system has not answered.
    is_late: bool,
    /// Whether the system has answered since with what it was late with.
    has_caught_up: bool,
    patience: Duration,
    since: Instant,
}

impl Default for Names {
    fn default() -> Self {
        Names::patient(PATIENCE)
    }
}

impl Names {
    /// For who waits so long for an answer.
    pub fn patient(patience: Duration) -> Names {
        Names::of(patience, ask_system)
    }

    fn of(patience: Duration, system: impl Fn(&Question) -> Answer + Send + 'static) -> Names {
        let (ask, asked) = channel::<Question>();
        let (answer, answers) = channel();
        let work = move || {
            for question in asked {
                let said = system(&question);
                if answer.send((question, said)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("allot-names".to_owned()).spawn(work);
        if let Err(error) = thread {
            tracing::error!("no user has a name: {error}");
        }
        let (known, open) = (BTreeMap::new(), BTreeSet::new());
        let (is_late, has_caught_up, since) = (false, false, Instant::now());
        Names { ask, answers, known, open, is_late, has_caught_up, patience, since }
    }

    /// The name of a user, where there is one.
    pub fn user(&mut self, uid: u32) -> Option<String> {
        self.one(Question::UserByUid(uid)).map(|(name, _)| name)
    }

    /// The group of a user by the system's list of users.
    pub fn gid_of(&mut self, uid: u32) -> Option<u32> {
        self.one(Question::UserByUid(uid)).map(|(_, gid)| gid)
    }

    /// The name of a group, where there is one.
    pub fn group(&mut self, gid: u32) -> Option<String> {
        self.one(Question::GroupByGid(gid)).map(|(name, _)| name)
    }

    /// The names of the groups that a user is in: of the one given, and of all that the system's
    /// lists name the user in, whichever of them the process at hand runs with.
    pub fn groups_of(&mut self, uid: u32, gid: u32) -> Vec<String> {
        let Some(user) = self.user(uid) else { return self.group(gid).into_iter().collect() };
        self.answer(Question::GroupsOf(user, gid)).into_iter().map(|(name, _)| name).collect()
    }

    /// The uid of a user, by name or number.
    pub fn uid_of(&mut self, user: &str) -> Option<u32> {
        let asked = || self.one(Question::UserByName(user.to_owned())).map(|(_, uid)| uid);
        user.parse().ok().or_else(asked)
    }

    /// Whether any answer since this was asked last is missing only because the system is slow.
    pub fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.is_late)
    }

    /// Whether something was asked that is not answered yet.
    pub fn awaits_answers(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether the system has answered anything that it was late with since this was asked last.
    pub fn has_caught_up(&mut self) -> bool {
        self.hear();
        std::mem::take(&mut self.has_caught_up)
    }

    /// Takes in what the system has answered meanwhile.
    fn hear(&mut self) {
        while let Ok((question, said)) = self.answers.try_recv() {
            self.has_caught_up = true;
            self.remember(question, said);
        }
    }

    fn one(&mut self, question: Question) -> Option<(String, u32)> {
        self.answer(question).into_iter().next()
    }

    fn answer(&mut self, question: Question) -> Answer {
        self.forget_the_old();
        self.hear();
        if let Some(said) = self.known.get(&question) {
            return said.clone();
        }
        // While the system is late with one answer it is not waited for another.
        let until =
            Instant::now() + if self.open.is_empty() { self.patience } else { Duration::ZERO };
        if self.open.insert(question.clone()) && self.ask.send(question.clone()).is_err() {
            return Answer::new();
        }
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((answered, said)) => {
                    let is_it = answered == question;
                    self.remember(answered, said.clone());
                    if is_it {
                        return said;
                    }
                    self.has_caught_up = true;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.is_late = true;
                    return Answer::new();
                }
                Err(RecvTimeoutError::Disconnected) => return Answer::new(),
            }
        }
    }

    fn remember(&mut self, question: Question, said: Answer) {
        self.open.remove(&question);
        self.known.insert(question, said);
    }

    fn forget_the_old(&mut self) {
        if self.since.elapsed() > REMEMBERED || self.known.len() > ANSWERS_MAX {
            self.known.clear();
            self.since = Instant::now();
        }
    }
}

fn ask_system(question: &Question) -> Answer {
    let group = |gid: u32| {
        let found = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
        found.map(|group| (group.name, gid))
    };
    match question {
        Question::UserByUid(uid) => {
            let user = User::from_uid(Uid::from_raw(*uid)).ok().flatten();
            user.map(|user| (user.name, user.gid.as_raw())).into_iter().collect()
        }
        Question::UserByName(name) => {
            let user = User::from_name(name).ok().flatten();
            user.map(|user| (user.name, user.uid.as_raw())).into_iter().collect()
        }
        Question::GroupByGid(gid) => group(*gid).into_iter().collect(),
        Question::GroupsOf(user, gid) => {
            let name = CString::new(user.as_str()).unwrap_or_default();
            let listed = getgrouplist(&name, Gid::from_raw(*gid)).unwrap_or_default();
            let all = listed.into_iter().map(Gid::as_raw).chain([*gid]);
            all.filter_map(group).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_server_that_does_not_answer_keeps_nobody_waiting_and_is_heard_later() {
        let (release, held) = channel::<()>();
        let system = move |question: &Question| {
            let _ = held.recv();
            match question {
                Question::UserByUid(1) => vec![("one".to_owned(), 100)],
                _ => Vec::new(),
            }
        };
        let mut names = Names::of(Duration::ZERO, system);
        assert_eq!((names.user(1), names.take_late()), (None, true));
        assert_eq!((names.group(2), names.take_late(), names.take_late()), (None, true, false));
        assert_eq!(names.uid_of("7"), Some(7));
        assert!(!names.has_caught_up());
        release.send(()).expect("it waits");
        while !names.has_caught_up() {
            std::thread::yield_now();
        }
        assert_eq!((names.user(1), names.gid_of(1)), (Some("one".to_owned()), Some(100)));
        assert!(!names.take_late());
        release.send(()).expect("it waits");
        // Heard while something else is asked, it is not forgotten.
        while names.awaits_answers() {
            assert_eq!(names.gid_of(1), Some(100));
        }
        assert!(names.has_caught_up() && !names.has_caught_up());
        assert_eq!((names.group(2), names.take_late()), (None, false), "there is none");
    }
}
