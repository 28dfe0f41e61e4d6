//! The latest drift, as it is shown: what is alike stands once, and what is over goes.

use enforcer::Drift;
use identity::ProcessIdentity;
use observe::ProcessHandle;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum drift messages that are shown.
const SHOWN: usize = 20;
/// Time after which a message that did not come again is no longer shown.
const EXPIRES: Duration = Duration::from_secs(600);

/// Messages that differ in numbers only.
#[derive(Debug)]
struct Alike {
    /// The text with its numbers taken out.
    kind: String,
    /// The latest of them.
    text: String,
    process: Option<ProcessIdentity>,
    times: u64,
    at: Instant,
    told: bool,
}

impl Alike {
    /// Whether it still concerns anybody.
    fn is_current(&self, now: Instant) -> bool {
        now.duration_since(self.at) < EXPIRES
            && self.process.is_none_or(|it| ProcessHandle::open_identity(it).is_ok())
    }

    fn words(&self) -> String {
        match self.times {
            1 => self.text.clone(),
            times => format!("{} ({times} times such)", self.text),
        }
    }
}

/// The latest drift, in words.
#[derive(Debug, Default)]
pub struct ShownDrift {
    shown: VecDeque<Alike>,
}

impl ShownDrift {
    /// Adds what an enforcer found.
    pub fn extend(&mut self, found: &[Drift]) {
        for drift in found {
            self.add(drift.to_string(), drift.process, Instant::now());
        }
    }

    /// Adds a message.
    pub fn push(&mut self, what: String) {
        self.add(what, None, Instant::now());
    }

    fn add(&mut self, text: String, process: Option<ProcessIdentity>, at: Instant) {
        let kind = without_numbers(&text);
        let known = self.shown.iter().position(|it| it.kind == kind);
        let before = known.and_then(|place| self.shown.remove(place));
        let before = before.filter(|it| at.duration_since(it.at) < EXPIRES);
        let times = before.as_ref().map_or(0, |it| it.times) + 1;
        // Of many that are alike the first is told, the tenth, the hundredth.
        let is_news = times == 10_u64.pow(times.ilog10());
        let told = before.is_some_and(|it| it.told) && !is_news;
        if self.shown.len() == SHOWN {
            self.shown.pop_front();
        }
        self.shown.push_back(Alike { kind, text, process, times, at, told });
    }

    /// All of it that still concerns anybody, oldest first.
    pub fn shown(&self) -> impl Iterator<Item = String> {
        let now = Instant::now();
        self.shown.iter().filter(move |it| it.is_current(now)).map(Alike::words)
    }

    /// Takes what was added since the last time.
    pub fn take_new(&mut self) -> Vec<String> {
        let new = self.shown.iter_mut().filter(|it| !it.told);
        new.map(|it| {
            it.told = true;
            it.words()
        })
        .collect()
    }
}

fn without_numbers(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(letter),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(n: usize) -> String {
        "x".repeat(n + 1)
    }

    #[test]
    fn the_latest_are_shown_and_told_once() {
        let mut drift = ShownDrift::default();
        for n in 0..SHOWN + 3 {
            drift.push(letters(n));
        }
        assert_eq!((drift.shown().count(), drift.shown().next()), (SHOWN, Some(letters(3))));
        assert_eq!(drift.take_new().len(), SHOWN);
        assert!(drift.take_new().is_empty());
        drift.push("news".to_owned());
        assert_eq!(drift.take_new(), ["news"]);
        assert_eq!(drift.shown().last(), Some("news".to_owned()));
    }

    #[test]
    fn what_differs_in_numbers_only_stands_once_with_a_count() {
        let mut drift = ShownDrift::default();
        let mut told = 0;
        for pid in 1000..2000 {
            drift.push(format!("thread {pid} was found in SCHED_OTHER"));
            told += drift.take_new().len();
        }
        let shown: Vec<String> = drift.shown().collect();
        assert_eq!(shown, ["thread 1999 was found in SCHED_OTHER (1000 times such)"]);
        assert_eq!(told, 4, "the 1st, 10th, 100th and 1000th");
    }

    #[test]
    fn what_is_over_is_not_shown() {
        let mut drift = ShownDrift::default();
        let own = ProcessHandle::open(std::process::id()).expect("it is us").identity();
        let dead = ProcessIdentity { start_time_ticks: own.start_time_ticks + 1, ..own };
        let now = Instant::now();
        drift.add("of a living process".to_owned(), Some(own), now);
        drift.add("of a dead process".to_owned(), Some(dead), now);
        if let Some(long_ago) = now.checked_sub(EXPIRES) {
            drift.add("of long ago".to_owned(), None, long_ago);
        }
        assert_eq!(drift.shown().collect::<Vec<_>>(), ["of a living process"]);
    }
}
