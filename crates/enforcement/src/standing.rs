//! The standing of a kind of resource: the enforcer that serves it, and why not a better one.

use crate::kinds::why_not_shared;
use enforcer::{Registration, Settings};
use ledger::KindName;
use std::time::{Duration, Instant};

/// Time between two tries to have a better enforcer of what is not shared from the start.
const RETRY: Duration = Duration::from_secs(30);

/// The standing of one kind: its enforcers, the best first, and which of them serves it.
pub struct Standing {
    /// The kind.
    pub kind: KindName,
    candidates: Vec<Registration>,
    /// The candidate that serves, by its place among them.
    serving: Option<usize>,
    /// Why those before it do not, by name.
    refused: Vec<(&'static str, String)>,
    tried: Option<Instant>,
    /// Enforcers that gave up, and why; they are not tried again.
    gave_up: Vec<(&'static str, String)>,
}

impl Standing {
    /// A kind that nobody serves yet.
    pub fn new(kind: KindName, candidates: Vec<Registration>) -> Standing {
        let (refused, gave_up) = (Vec::new(), Vec::new());
        Standing { kind, candidates, serving: None, refused, tried: None, gave_up }
    }

    /// A kind that the first of its candidates serves.
    pub fn served(kind: KindName, candidates: Vec<Registration>) -> Standing {
        Standing { serving: Some(0), ..Standing::new(kind, candidates) }
    }

    /// Its enforcers, the best first.
    pub fn candidates(&self) -> &[Registration] {
        &self.candidates
    }

    /// The enforcer that serves it.
    pub fn serving(&self) -> Option<&Registration> {
        self.candidates.get(self.serving?)
    }

    /// Whether the best enforcer should be tried (again) now.
    pub fn is_due(&self) -> bool {
        !self.is_served_by_best() && self.tried.is_none_or(|tried| tried.elapsed() >= RETRY)
    }

    /// Whether no enforcer of it would be better.
    pub fn is_served_by_best(&self) -> bool {
        self.serving == Some(0)
    }

    /// Takes the first candidate that `start` can start; only those better than the one that serves, where one does.
    /// Answers whether that changed who serves.
    pub fn take_best(
        &mut self,
        mut start: impl FnMut(&Registration, KindName) -> Result<(), String>,
    ) -> bool {
        self.tried = Some(Instant::now());
        self.refused.clear();
        let better = self.serving.unwrap_or(self.candidates.len());
        for (place, candidate) in self.candidates[..better].iter().enumerate() {
            let gave_up = self.gave_up.iter().find(|(name, _)| *name == candidate.name);
            let taken = match gave_up {
                Some((_, why)) => Err(why.clone()),
                None => start(candidate, self.kind),
            };
            match taken {
                Ok(()) => {
                    self.serving = Some(place);
                    return true;
                }
                Err(why) => self.refused.push((candidate.name, why)),
            }
        }
        false
    }

    /// Nobody serves it any more; it is tried anew when it is wanted.
    pub fn end(&mut self) {
        self.serving = None;
        self.tried = None;
    }

    /// The enforcer that serves it has given up.
    pub fn give_up(&mut self, name: &'static str, why: &str) {
        self.gave_up.push((name, why.to_owned()));
        self.end();
    }

    /// Why it is served as it is, in words.
    pub fn why(&self, settings: &Settings) -> String {
        match self.serving() {
            Some(serving) => {
                let merit = (serving.merit)(settings);
                let refused: Vec<String> =
                    self.refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
                match refused.is_empty() {
                    true => merit.to_owned(),
                    false => format!("{merit}; not {}", refused.join("; not ")),
                }
            }
            None => self.why_not(),
        }
    }

    /// Why nobody serves it, in words.
    pub fn why_not(&self) -> String {
        if self.candidates.is_empty() {
            return why_not_shared(self.kind);
        }
        let mut refused: Vec<&str> = self.refused.iter().map(|(_, why)| why.as_str()).collect();
        refused.dedup();
        match refused.is_empty() {
            true => "left alone".to_owned(),
            false => refused.join("; "),
        }
    }
}
