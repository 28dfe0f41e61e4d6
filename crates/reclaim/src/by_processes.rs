//! Shares of memory where there is no cgroup v2 with the memory controller: the reclaimer alone, on processes.
//!
//! The kernel guarantees nothing here. A policy takes memory from others before it runs out, and never from who holds
//! no more than its tickets are worth. Whoever is idle keeps its tickets: nothing says here what a client used.

use crate::choice::ReclaimPolicy;
use crate::error::MemoryError;
use crate::memory_client::{MemoryClient, MemorySource};
use crate::options::ReclaimOptions;
use crate::processes::advice_works;
use crate::reclaimer::Reclaimer;
use crate::sample::MemorySample;
use enforcer::{
    EnforceError, Enforcer, Needs, Plan, PlannedClient, Registration, ResourceSample,
    ResourceStatus, ResourceUse, Sample, Status,
};
use ledger::{Class, CurrencyId, Member, Resource, ResourceKind};
use observe::ProcessHandle;
use policy::Reclaim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Follows plans' memory tickets on processes. Nothing is set, so nothing is given back.
pub struct MemoryByProcesses {
    reclaimer: Reclaimer,
    followed: Followed,
}

/// What is followed.
#[derive(Default)]
struct Followed {
    generation: Option<u64>,
    /// The base value of each client's tickets.
    values: BTreeMap<CurrencyId, u64>,
}

/// The reclaimer on processes, for memory where there is no cgroup v2 with the controller.
pub const REGISTRATION: Registration = Registration {
    name: "processes",
    kinds: || vec![ResourceKind::memory()],
    serves_private: false,
    summary: "A policy pages memory out of processes",
    merit: |_| "a policy pages out processes",
    available: |settings, _| {
        let Some(_) = ReclaimPolicy::of(settings) else {
            return Err("the kernel chooses who loses memory, and knows no tickets".to_owned());
        };
        advice_works().map_err(|error| {
            let error = MemoryError::NoAdvice(error);
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        })?;
        Ok("a policy pages out processes".to_owned())
    },
    start: |settings, _| {
        let policy = ReclaimPolicy::of(settings).ok_or(EnforceError::Ended)?.build();
        Ok(Box::new(MemoryByProcesses::start(policy).map_err(EnforceError::refused)?))
    },
    needs: |_| Needs { reads_memory: true, ..Needs::NOTHING },
    helper: None,
    records: &[],
    restorer: None,
    survey: Registration::no_survey,
};

impl MemoryByProcesses {
    /// Starts the reclaimer with this policy. Follows nobody yet.
    ///
    /// # Errors
    /// When memory cannot be taken from processes here.
    pub fn start(policy: Box<dyn Reclaim>) -> Result<MemoryByProcesses, MemoryError> {
        advice_works().map_err(MemoryError::NoAdvice)?;
        let reclaimer = Reclaimer::start(ReclaimOptions::new(None, policy))?;
        Ok(MemoryByProcesses { reclaimer, followed: Followed::default() })
    }

    /// Returns what everybody holds.
    pub fn held(&self) -> Vec<MemorySample> {
        self.reclaimer.sample()
    }
}

impl Enforcer for MemoryByProcesses {
    /// Follows every client with processes of its own, those without memory tickets too.
    fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError> {
        let (clients, values) = memory_clients(plan);
        self.reclaimer.follow(clients).map_err(EnforceError::refused)?;
        self.followed = Followed { generation: Some(plan.generation), values };
        Ok(())
    }

    fn status(&mut self) -> Result<Status, EnforceError> {
        let resource = ResourceStatus {
            resource: Resource::MEMORY,
            by: Some("processes".to_owned()),
            why: "a policy pages out processes".to_owned(),
            active: self.followed.values.keys().copied().collect(),
        };
        let generation = self.followed.generation;
        Ok(Status { generation, guarded: true, resources: vec![resource], ..Status::default() })
    }

    fn sample(&mut self) -> Result<Sample, EnforceError> {
        let clients = self.reclaimer.sample().into_iter().map(|client| ResourceUse {
            id: client.id,
            value: self.followed.values.get(&client.id).copied().unwrap_or(0),
            promised: Some(client.guaranteed_bytes),
            used: client.held_bytes.unwrap_or(0),
        });
        let memory = ResourceSample { resource: Resource::MEMORY, clients: clients.collect() };
        Ok(Sample { resources: vec![memory], cpu: None })
    }

    fn revert(&mut self) -> Result<(), EnforceError> {
        self.followed = Followed::default();
        self.reclaimer.follow(Vec::new()).map_err(EnforceError::refused)
    }
}

/// The clients of a plan with processes of their own, and the values of all.
fn memory_clients(plan: &Plan) -> (Vec<MemoryClient>, BTreeMap<CurrencyId, u64>) {
    let Some(mut graph) = plan.graph(&Resource::MEMORY).cloned() else {
        return (Vec::new(), BTreeMap::new());
    };
    let away: BTreeSet<Member> =
        plan.clients.iter().flat_map(|client| client.members.iter().copied()).collect();
    for client in &plan.clients {
        graph.set_active(client.id, true);
    }
    let mut values = BTreeMap::new();
    let clients = plan.clients.iter().filter_map(|client| {
        let handles = processes_of(client, &away);
        if handles.is_empty() {
            return None;
        }
        let tickets = graph.value(client.id);
        values.insert(client.id, tickets);
        let sure = graph.guaranteed(client.id);
        Some(MemoryClient {
            id: client.id,
            key: client.id.0,
            tickets,
            guaranteed_bytes: graph.memory_bytes(sure),
            guest: client.class == Class::Guest || client.lent,
            source: MemorySource::Processes(handles),
        })
    });
    (clients.collect(), values)
}

/// Those that are a client's now and live. A thread's memory is its process's, which is another's.
fn processes_of(client: &PlannedClient, away: &BTreeSet<Member>) -> Vec<ProcessHandle> {
    let founder = Some(client.founder).filter(|founder| !away.contains(founder));
    let members = founder.into_iter().chain(client.members.iter().copied());
    members
        .filter_map(|member| match member {
            Member::Process(process) => ProcessHandle::open_identity(process).ok(),
            _ => None,
        })
        .filter(|process| process.real_uid().is_ok_and(|uid| client.may_hold(uid)))
        .collect()
}
