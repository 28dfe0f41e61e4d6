//! The ledger made true: plans, policies, and who competes.

use super::state::Running;
use crate::clock::unix_ms;
use ledger::{Caller, CurrencyId, Member};
use policy::PolicyName;
use wire::{ApiError, ErrorCode, Event, EventKind, PolicyView};

impl Running {
    /// Tells the enforcer how things are now, or once it has followed the last plan.
    pub(super) fn enforce(&mut self) {
        if !self.keeper.enforcement.is_on() || !self.keeper.enforcement.takes_plan() {
            return;
        }
        self.generation += 1;
        let ledger = &self.keeper.ledger;
        let mut clients: Vec<enforcer::PlannedClient> = ledger
            .clients()
            .map(|(founder, id)| enforcer::PlannedClient {
                id,
                founder,
                members: ledger.members(id).collect(),
                owners: self.owners(founder, id),
                class: ledger.currency(id).expect("a client exists").class(),
                frozen: !self.cpu.is_funded(id),
                lent: self.cpu.has_lent(id),
            })
            .collect();
        clients.sort_by_key(|client| client.id);
        let generation = self.generation;
        let graphs = std::iter::once(self.cpu.clone()).chain(self.others.all());
        let graphs = graphs.map(|graph| (graph.resource().clone(), graph)).collect();
        let limits = match self.are_users_limits_wanted() {
            true => enforcer::PlannedLimit::all(ledger),
            false => Vec::new(),
        };
        self.keeper.enforcement.apply(enforcer::Plan { generation, graphs, clients, limits });
        self.tell_refusals();
    }

    /// Tells of plans that could not be enforced.
    pub(super) fn tell_refusals(&mut self) {
        for refusal in self.keeper.enforcement.take_refusals() {
            self.report(refusal);
        }
    }

    /// The algorithm that chooses who is next, and by whose hand, as of the last look.
    pub(super) fn policy(&self) -> PolicyView {
        let seen = &self.keeper.enforcement.seen().cpu;
        PolicyView { policy: seen.algorithm.clone(), enforcer: seen.name.clone() }
    }

    /// The uids that a client's processes and threads have as the ledger knows it.
    fn owners(&self, founder: Member, id: CurrencyId) -> Vec<u32> {
        let ledger = &self.keeper.ledger;
        let owner = |id| ledger.currency(id).map(|currency| currency.record.owner);
        let of_founder = founder.within_process().and_then(|_| owner(id));
        let of_member = |member: Member| {
            let process = member.within_process()?;
            let joined = self.joined_as.get(&process).copied();
            joined.or_else(|| ledger.client_of(process).and_then(owner))
        };
        let mut owners: Vec<u32> =
            ledger.members(id).filter_map(of_member).chain(of_founder).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    pub(super) fn set_policy(
        &mut self,
        caller: &Caller,
        policy: PolicyName,
    ) -> Result<PolicyView, ApiError> {
        self.must_rule(caller, "change the policy")?;
        let enforcement = &mut self.keeper.enforcement;
        enforcement.look();
        let before = enforcement.seen().cpu.algorithm.clone();
        enforcement.set_algorithm(policy).map_err(|why| ApiError::new(ErrorCode::Conflict, why))?;
        enforcement.look();
        if before != policy.as_str() {
            let text =
                format!("uid {} changed the policy: {policy} in place of {before}", caller.uid);
            self.keeper.audit.note_besides(&Event {
                sequence: None,
                at_unix_ms: unix_ms(),
                kind: EventKind::Operation,
                uid: Some(caller.uid),
                text: text.clone(),
                offers: Vec::new(),
                exchanges: Vec::new(),
            });
            self.report(text);
        }
        Ok(self.policy())
    }

    /// Refuses what concerns everybody, except to the superuser and the owner of a private allotd.
    pub(super) fn must_rule(&self, caller: &Caller, what: &str) -> Result<(), ApiError> {
        match caller.uid == 0 || caller.uid == self.keeper.status.uid {
            true => Ok(()),
            false => {
                Err(ApiError::new(ErrorCode::Forbidden, format!("only the superuser may {what}")))
            }
        }
    }
}
