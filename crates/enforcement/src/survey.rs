//! A look at what this machine has of every kind of resource, and how each would be shared.

use crate::kinds::{resource_kinds, why_not_shared};
use enforcer::{Check, Registration, ResourceStatus, Settings, Survey};
use ledger::ResourceKind;
use serde::{Deserialize, Serialize};

/// How one resource would be shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prospect {
    /// The resource, or how instances of its kind are written.
    pub resource: String,
    /// The enforcer; `None` where nobody would share it.
    pub enforcer: Option<String>,
    /// Why, in words.
    pub why: String,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surveyed {
    /// Every resource, the CPU first.
    pub resources: Vec<Prospect>,
    /// The results of trials.
    pub checks: Vec<Check>,
}

impl Surveyed {
    /// Looks at the machine. Tries things out on processes of its own.
    pub fn look(enforcers: &[Registration], settings: &Settings) -> Surveyed {
        let surveys: Vec<Survey> = enforcers.iter().map(|it| (it.survey)(settings)).collect();
        let surveyed = surveys.iter().flat_map(|survey| &survey.resources);
        let surveyed: Vec<&ResourceStatus> = surveyed.collect();
        let mut resources = Vec::new();
        for kind in resource_kinds(enforcers).all() {
            let found = surveyed.iter().filter(|it| it.resource.kind() == kind.name);
            let before = resources.len();
            resources.extend(found.map(|it| prospect(it)));
            if resources.len() == before {
                resources.push(best_of_kind(enforcers, settings, kind));
            }
        }
        let checks = surveys.into_iter().flat_map(|survey| survey.checks).collect();
        Surveyed { resources, checks }
    }
}

fn prospect(found: &ResourceStatus) -> Prospect {
    let (resource, enforcer) = (found.resource.to_string(), found.by.clone());
    Prospect { resource, enforcer, why: found.why.clone() }
}

/// The first enforcer that could serve a kind here, and why not those before it.
fn best_of_kind(enforcers: &[Registration], settings: &Settings, kind: &ResourceKind) -> Prospect {
    let mut refused = String::new();
    for candidate in enforcers.iter().filter(|it| it.serves(kind.name)) {
        match (candidate.available)(settings, kind.name) {
            Ok(says) => {
                let (resource, enforcer) = (kind.usage(), Some(candidate.name.to_owned()));
                return Prospect { resource, enforcer, why: format!("{says}{refused}") };
            }
            Err(why) => refused.push_str(&format!("; not {}: {why}", candidate.name)),
        }
    }
    let why = match refused.strip_prefix("; ") {
        Some(refused) => refused.to_owned(),
        None => why_not_shared(kind.name),
    };
    Prospect { resource: kind.usage(), enforcer: None, why }
}
