//! Registration: how a resource and its enforcers become known.

use crate::{EnforceError, Enforcer, ResourceStatus, Settings};
use ledger::{KindName, ResourceKind};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use undo::Restorer;

/// The rights that an enforcer needs besides those that every enforcer has: to signal processes, set how they are
/// scheduled, read of them and write to files of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Capabilities that it needs until it has started. They may be given up after.
    pub start: CapabilitySet,
    /// Capabilities that it needs as long as it runs.
    pub run: CapabilitySet,
    /// Whether it looks into the memory of processes (`maps`, `pagemap`). What landlock restricts may not.
    pub reads_memory: bool,
}

impl Needs {
    /// Nothing besides.
    pub const NOTHING: Needs =
        Needs { start: CapabilitySet::empty(), run: CapabilitySet::empty(), reads_memory: false };
}

/// Starts an enforcer with settings, to serve these kinds.
pub type Start = fn(&Settings, &[KindName]) -> Result<Box<dyn Enforcer>, EnforceError>;

/// One enforcer: what it serves, whether it can work here, and how it is started (paper 2, 2.2). The daemon holds a
/// list of these, the best of each kind first, and names no enforcer otherwise.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The enforcer's name, as users write it.
    pub name: &'static str,
    /// The kinds of resources that it serves.
    pub kinds: fn() -> Vec<ResourceKind>,
    /// Whether it can serve a private daemon.
    pub serves_private: bool,
    /// What it does, in a sentence, for help texts.
    pub summary: &'static str,
    /// Why it is taken, as in "the kernel draws: the best there is".
    pub merit: fn(&Settings) -> &'static str,
    /// Says how it would serve a kind here.
    ///
    /// # Errors
    /// Why it cannot, and what would help.
    pub available: fn(&Settings, KindName) -> Result<String, String>,
    /// Starts it, to serve these kinds. Nothing is changed before the first plan.
    ///
    /// # Errors
    /// When it cannot begin.
    pub start: Start,
    /// The rights that it needs here.
    pub needs: fn(&Settings) -> Needs,
    /// A process of its own that it starts by running the daemon's program with `helper NAME`; `None` where it has none.
    pub helper: Option<Helper>,
    /// Suffixes of the records that it keeps of what it changed ([`Settings::record`]).
    pub records: &'static [&'static str],
    /// Gives back what is in the logs of its records; `None` where they have none.
    pub restorer: Option<&'static dyn Restorer>,
    /// Looks at what this machine has of its kinds, for `doctor`.
    pub survey: fn(&Settings) -> Survey,
}

/// A process of an enforcer's own.
#[derive(Clone, Copy)]
pub struct Helper {
    /// Its work, from its start to its end.
    pub main: fn() -> ExitCode,
    /// The walls that it has told of; empty while none runs.
    pub walls: fn() -> Vec<Check>,
}

/// What a machine has of an enforcer's kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Each instance, and how it would be enforced.
    pub resources: Vec<ResourceStatus>,
    /// What was tried out.
    pub checks: Vec<Check>,
}

/// One thing that was tried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was tried.
    pub name: String,
    /// Whether it is as an enforcer would like it.
    pub ok: bool,
    /// The result, in words.
    pub says: String,
}

impl Registration {
    /// Whether it serves a kind.
    pub fn serves(&self, kind: KindName) -> bool {
        (self.kinds)().iter().any(|served| served.name == kind)
    }

    /// A survey without findings.
    pub fn no_survey(_: &Settings) -> Survey {
        Survey::default()
    }
}
