//! Shares of memory where there is no cgroup v2 with the memory controller: the reclaimer alone, on processes.
//!
//! The kernel guarantees nothing here. A policy takes memory from others before it runs out, and never from who holds
//! no more than its tickets are worth. Whoever is idle keeps its tickets: nothing says here what a client used.

use super::{Body, MemoryClient, MemoryError, MemorySample, ReclaimOptions, Reclaimer};
use crate::{Plan, PlannedClient};
use ledger::{Class, Member, Resource};
use observe::ProcessHandle;
use policy::Reclaim;
use std::collections::BTreeSet;

/// Follows plans' memory tickets on processes. Nothing is set, so nothing is given back.
pub struct MemoryByProcesses {
    reclaimer: Reclaimer,
}

impl MemoryByProcesses {
    /// By this policy. Follows nobody yet.
    ///
    /// # Errors
    /// When memory cannot be taken from processes here.
    pub fn start(policy: Box<dyn Reclaim>) -> Result<MemoryByProcesses, MemoryError> {
        super::processes::advice_works().map_err(MemoryError::NoAdvice)?;
        let reclaimer = Reclaimer::start(ReclaimOptions::new(None, policy))?;
        Ok(MemoryByProcesses { reclaimer })
    }

    /// Follows a plan: every client with processes of its own, those without memory tickets too.
    ///
    /// # Errors
    /// When the reclaimer has ended.
    pub fn apply(&self, plan: &Plan) -> Result<(), MemoryError> {
        let graph = plan.others.iter().find(|graph| *graph.resource() == Resource::Memory);
        let Some(mut graph) = graph.cloned() else { return self.reclaimer.follow(Vec::new()) };
        let away: BTreeSet<Member> =
            plan.clients.iter().flat_map(|client| client.members.iter().copied()).collect();
        for client in &plan.clients {
            graph.set_active(client.id, true);
        }
        let clients = plan.clients.iter().filter_map(|client| {
            let handles = processes_of(client, &away);
            (!handles.is_empty()).then(|| MemoryClient {
                id: client.id,
                key: client.id.0,
                tickets: graph.value(client.id),
                guaranteed_bytes: {
                    let sure = graph.guaranteed(client.id);
                    graph.memory_bytes(sure)
                },
                guest: client.class == Class::Guest || client.lent,
                body: Body::Processes(handles),
            })
        });
        let clients = clients.collect();
        self.reclaimer.follow(clients)
    }

    /// What everybody holds.
    pub fn sample(&self) -> Vec<MemorySample> {
        self.reclaimer.sample()
    }
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
        .collect()
}
