//! Whether tickets of a resource take effect here, before anybody has any.

use super::Table;
use crate::kinds::why_not_shared;
use ledger::{KindName, Resource};

impl Table {
    /// Why tickets of a resource are kept without effect, and what would help; `None` where they take
    /// effect.
    pub fn without_effect(&self, resource: &Resource) -> Option<String> {
        let kind = resource.kind();
        if kind == KindName::CPU || self.deferred.is_some() {
            return self.deferred.clone();
        }
        if !self.is_on {
            return Some("allotd was started with --enforcer none".to_owned());
        }
        let mut refused: Vec<String> = Vec::new();
        for candidate in self.standings.iter().find(|it| it.kind == kind)?.candidates() {
            let available = self
                .may_serve(candidate, kind)
                .and_then(|()| (candidate.available)(&self.settings, kind).map(drop));
            if let Err(why) = available {
                refused.push(why);
                continue;
            }
            // It shares that kind; a disk can be one that it cannot share.
            let survey = (candidate.survey)(&self.settings);
            let found = survey.resources.into_iter().find(|it| it.resource == *resource);
            return found.filter(|it| it.by.is_none()).map(|it| it.why);
        }
        refused.dedup();
        match refused.is_empty() {
            true => Some(why_not_shared(kind)),
            false => Some(refused.join("; ")),
        }
    }
}
