//! The funding graphs of the resources besides the CPU: memory, disks, networks.

use enforcer::ResourceStatus;
use ledger::{BASE, Change, Ledger, Resource};
use std::collections::BTreeMap;
use valuation::Graph;

/// One graph for each resource of which base has issued any tickets: without those nobody's are worth
/// anything, and users can issue their own of whatever name.
#[derive(Clone)]
pub struct Others(BTreeMap<Resource, Graph>);

impl Others {
    /// A ledger's.
    pub fn of(ledger: &Ledger) -> Others {
        let mut others = Others(BTreeMap::new());
        for (_, ticket) in ledger.issued(BASE) {
            others.look(&ticket.resource, ledger);
        }
        others
    }

    /// Sees that there is a graph of a resource if and only if there should be.
    fn look(&mut self, resource: &Resource, ledger: &Ledger) {
        let base = ledger.currency(BASE).expect("base is always there");
        if *resource == Resource::CPU || base.issued_of(resource).tickets == 0 {
            self.0.remove(resource);
        } else if !self.0.contains_key(resource) {
            self.0.insert(resource.clone(), Graph::of(ledger, resource.clone()));
        }
    }

    /// Sees to the resources of which base's tickets changed, after `changes` or their undoing.
    fn look_at(&mut self, changes: &[Change], ledger: &Ledger) {
        for change in changes {
            if let Change::Ticket { before, after, .. } = change {
                let of_base = |ticket: &&ledger::Ticket| ticket.issuer == BASE;
                for ticket in before.iter().chain(after).filter(of_base) {
                    self.look(&ticket.resource, ledger);
                }
            }
        }
    }

    /// Follow what was done; the ledger has it already.
    pub fn follow(&mut self, changes: &[Change], ledger: &Ledger) {
        for graph in self.0.values_mut() {
            changes.iter().for_each(|change| graph.follow(change));
        }
        self.look_at(changes, ledger);
    }

    /// Follow what was undone, the last one first; the ledger is as before.
    pub fn follow_back(&mut self, changes: &[Change], ledger: &Ledger) {
        for graph in self.0.values_mut() {
            changes.iter().rev().for_each(|change| graph.follow(&change.clone().inverse()));
        }
        self.look_at(changes, ledger);
    }

    /// All of them, with those that compete for what is enforced.
    pub fn with_active(&self, enforced: &[ResourceStatus]) -> Vec<Graph> {
        let mut graphs = self.0.clone();
        for ResourceStatus { resource, active, .. } in enforced {
            let Some(graph) = graphs.get_mut(resource) else { continue };
            for client in active {
                graph.set_active(*client, true);
            }
        }
        graphs.into_values().collect()
    }

    /// Whether base has issued tickets of any disk.
    pub fn has_disks(&self) -> bool {
        self.0.keys().any(|resource| resource.disk_name().is_some())
    }

    /// All of them, in order of resource.
    pub fn all(&self) -> Vec<Graph> {
        self.0.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::operation::{CreateCurrency, Fund, Unfund};
    use ledger::{Authority, Caller, Funding, Intent, Mode, TicketKind, decide};

    #[test]
    fn they_are_as_from_scratch_after_all_that_is_done_and_undone() {
        let mut ledger = Ledger::new(0, 0);
        let mut others = Others::of(&ledger);
        let root = Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None });
        let name = "a".to_owned();
        let make = Intent::from(CreateCurrency { name, owner: 0, group: 0, mode: Mode::PRIVATE });
        let disk = Resource::disk("sda");
        let mut done = Vec::new();
        let mut act = |ledger: &mut Ledger, others: &mut Others, intent: Intent| {
            let changes = ledger.apply(decide(ledger, root.clone(), intent).expect("allowed"));
            others.follow(&changes, ledger);
            done.push(changes);
        };
        act(&mut ledger, &mut others, make);
        let holder = ledger.named(0, "a").expect("just made");
        assert!(others.all().is_empty());
        for resource in [disk.clone(), Resource::MEMORY, Resource::CPU] {
            let funding = Funding { resource, kind: TicketKind::Soft, amount: 5 };
            act(&mut ledger, &mut others, Intent::from(Fund { holder, issuer: BASE, funding }));
        }
        let used = |others: &Others| -> Vec<Resource> {
            others.all().iter().map(|graph| graph.resource().clone()).collect()
        };
        assert_eq!(used(&others), [Resource::MEMORY, disk.clone()]);
        // Revoked, and that undone: as it was.
        let revoke = Intent::from(Unfund {
            holder,
            issuer: BASE,
            resource: disk.clone(),
            kind: TicketKind::Soft,
        });
        let changes = ledger.apply(decide(&ledger, root.clone(), revoke).expect("allowed"));
        others.follow(&changes, &ledger);
        assert_eq!(used(&others), [Resource::MEMORY]);
        ledger.undo(changes.clone());
        others.follow_back(&changes, &ledger);
        assert_eq!(used(&others), [Resource::MEMORY, disk.clone()]);
        for graph in &mut others.all() {
            let mut fresh = Graph::of(&ledger, graph.resource().clone());
            assert_eq!(graph.guaranteed(holder), fresh.guaranteed(holder));
            assert!(graph.guaranteed(holder) > 0);
        }
        for changes in done.into_iter().rev() {
            ledger.undo(changes.clone());
            others.follow_back(&changes, &ledger);
        }
        assert!(others.all().is_empty());
        assert_eq!(ledger, Ledger::new(0, 0));
    }
}
