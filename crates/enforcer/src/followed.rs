//! The plan that an enforcer follows while a guardian is on watch.

use crate::{DriftLog, Plan, PlannedClient};
use std::sync::Arc;
use undo::{Guard, Guardian, Watch};

/// The plan that an enforcer follows while a guardian is on watch.
#[derive(Debug, Default)]
pub struct Followed {
    /// The plan that is followed, or that will be once there is a guardian.
    pub plan: Option<Arc<Plan>>,
    guard: Guard,
}

/// The consequence of a look at the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing has to be done.
    Nothing,
    /// A guardian is on watch again: the plan has to be followed.
    Follow,
    /// The guardian died: everything has to be given back.
    GiveBack,
}

impl Followed {
    /// Returns the plan's generation; `None` where there is no plan.
    pub fn generation(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.generation)
    }

    /// Returns whether a guardian is on watch, as far as the last look told.
    pub fn is_on_watch(&self) -> bool {
        self.guard.is_on_watch()
    }

    /// Looks after the guardian, and tells what became of it. One that died is followed by another.
    pub fn look_at_guardian(
        &mut self,
        guardian: &mut Guardian,
        drift: &mut DriftLog,
        now_ns: u64,
    ) -> Consequence {
        match self.guard.look(guardian, now_ns) {
            Watch::Same => Consequence::Nothing,
            Watch::Began => {
                drift.tell("a guardian is on watch again");
                Consequence::Follow
            }
            Watch::Ended => {
                let what =
                    "the guardian died; everything is as it was found until there is another";
                drift.tell(what);
                Consequence::GiveBack
            }
            Watch::Failed(why) => {
                drift.tell(why);
                Consequence::Nothing
            }
        }
    }

    /// Lists the clients that are not managed, and why: `unmanageable`, or all while there is no guardian.
    pub fn unmanaged(
        &self,
        unmanageable: &[(PlannedClient, String)],
    ) -> Vec<(PlannedClient, String)> {
        match &self.plan {
            _ if self.is_on_watch() => unmanageable.to_vec(),
            Some(plan) => plan.all_unmanaged("there is no guardian"),
            None => Vec::new(),
        }
    }
}
