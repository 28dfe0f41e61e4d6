//! What is really set.

use crate::{Drift, HoldMethod, PlannedClient};
use ledger::{CurrencyId, Member, Resource};
use policy::PolicyName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// It was served last: it won a seat in the last draw.
    Running,
    /// It competes and waits for its turn.
    Waiting,
    /// It does not want the resource, and is left free so that it is served at once when it does.
    Sleeping,
    /// The plan freezes it: stopped.
    Frozen,
    /// Stopped, but not by us: left alone.
    Stopped,
    /// Not touched; [`ClientStatus::note`] says why.
    Unmanaged,
}

/// One client, as it is really set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its currency.
    pub id: CurrencyId,
    /// The member that founded it.
    pub founder: Member,
    /// What it does.
    pub state: ClientState,
    /// Why it is not managed, or not held as it should be.
    pub note: Option<String>,
}

impl ClientStatus {
    /// A client that the enforcer leaves alone, and why.
    pub fn unmanaged(planned: &PlannedClient, why: String) -> ClientStatus {
        let state = ClientState::Unmanaged;
        ClientStatus { id: planned.id, founder: planned.founder, state, note: Some(why) }
    }

    /// Lists managed clients and others, in order of id.
    pub fn all<'a>(
        managed: impl Iterator<Item = ClientStatus>,
        unmanaged: impl IntoIterator<Item = &'a (PlannedClient, String)>,
    ) -> Vec<ClientStatus> {
        let others = unmanaged.into_iter();
        let others = others.map(|(planned, why)| ClientStatus::unmanaged(planned, why.clone()));
        let mut all: Vec<ClientStatus> = managed.chain(others).collect();
        all.sort_by_key(|client| client.id);
        all
    }
}

/// How the tickets of one resource are enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// The resource.
    pub resource: Resource,
    /// The means, as in `iocost`; `None` where nothing enforces it.
    pub by: Option<String>,
    /// Why it is enforced so, or not at all, in words.
    pub why: String,
    /// The clients that compete for it now.
    pub active: Vec<CurrencyId>,
}

/// What is really set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The plan that is followed; `None` before the first and after a revert.
    pub generation: Option<u64>,
    /// Whether the plan is enforced now: not while there is no guardian, or the kernel took the enforcer out.
    pub guarded: bool,
    /// The guardian's process; `None` while there is none, or where none is needed.
    pub guardian_pid: Option<u32>,
    /// The resources that are enforced, in order.
    pub resources: Vec<ResourceStatus>,
    /// Every client that the enforcer knows of, in order of id.
    pub clients: Vec<ClientStatus>,
    /// What was found not to be as set, since the last time that this was asked, oldest first.
    pub drift: Vec<Drift>,
    /// What is peculiar to the CPU.
    pub cpu: Option<CpuStatus>,
}

/// What only an enforcer of the CPU has to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuStatus {
    /// The algorithm that chooses who is next; `None` where the kernel's own does.
    pub algorithm: Option<PolicyName>,
    /// Seed of the algorithm's random number generator.
    pub seed: u64,
    /// Time between two choices, in ns.
    pub quantum_ns: u64,
    /// The CPUs that are shared out, ascending.
    pub cpus: Vec<u32>,
    /// How losers of a draw wait; `None` where nobody is held.
    pub hold: Option<HoldMethod>,
    /// How each client is held now; those that are not named are free.
    pub held: BTreeMap<CurrencyId, HoldState>,
}

/// How a client is held now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// Not at all: it has its own policy.
    Free,
    /// In SCHED_IDLE: it runs when nobody else in its scheduling group wants to.
    Idle,
    /// Stopped by us.
    Stopped,
}
