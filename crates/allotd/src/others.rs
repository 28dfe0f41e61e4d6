//! The funding graphs of the resources besides the CPU: memory, disks, networks.

use ledger::{BASE, Change, Ledger, Resource};
use std::collections::BTreeMap;
use valuation::Graph;

/// One graph for each resource of which there ever were tickets.
pub struct Others(BTreeMap<Resource, Graph>);

impl Others {
    /// A ledger's.
    pub fn of(ledger: &Ledger) -> Others {
        let mut others = Others(BTreeMap::new());
        for (_, ticket) in ledger.tickets() {
            others.know(&ticket.resource, ledger);
        }
        others
    }

    fn know(&mut self, resource: &Resource, ledger: &Ledger) {
        if *resource != Resource::Cpu && !self.0.contains_key(resource) {
            self.0.insert(resource.clone(), Graph::of(ledger, resource.clone()));
        }
    }

    /// Follow what was done; the ledger has it already.
    pub fn follow(&mut self, changes: &[Change], ledger: &Ledger) {
        for graph in self.0.values_mut() {
            changes.iter().for_each(|change| graph.follow(change));
        }
        for change in changes {
            if let Change::Ticket { after: Some(ticket), .. } = change {
                self.know(&ticket.resource, ledger);
            }
        }
    }

    /// Follow one change that is undone, the last one first.
    pub fn follow_back(&mut self, change: &Change) {
        for graph in self.0.values_mut() {
            graph.follow(&change.clone().inverse());
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Graph> {
        self.0.values().cloned().collect()
    }

    /// Those of which base has issued any: without its tickets nobody's are worth anything.
    pub fn in_use(&self, ledger: &Ledger) -> Vec<Graph> {
        let base = ledger.currency(BASE).expect("base is always there");
        let used = self.0.iter().filter(|(resource, _)| base.issued_of(resource).tickets > 0);
        used.map(|(_, graph)| graph.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Authority, Caller, Funding, Intent, Mode, TicketKind, decide};

    #[test]
    fn they_are_as_from_scratch_after_all_that_is_done_and_undone() {
        let mut ledger = Ledger::new(0, 0);
        let mut others = Others::of(&ledger);
        let root = Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None });
        let name = "a".to_owned();
        let make = Intent::CreateCurrency { name, owner: 0, group: 0, mode: Mode::PRIVATE };
        let disk = Resource::Disk("sda".to_owned());
        let mut done = Vec::new();
        let mut act = |ledger: &mut Ledger, others: &mut Others, intent: Intent| {
            let changes = ledger.apply(decide(ledger, root.clone(), intent).expect("allowed"));
            others.follow(&changes, ledger);
            done.push(changes);
        };
        act(&mut ledger, &mut others, make);
        let holder = ledger.named(0, "a").expect("just made");
        assert!(others.in_use(&ledger).is_empty());
        for resource in [disk.clone(), Resource::Memory, Resource::Cpu] {
            let funding = Funding { resource, kind: TicketKind::Soft, amount: 5 };
            act(&mut ledger, &mut others, Intent::Fund { holder, issuer: BASE, funding });
        }
        let used = |others: &Others, ledger: &Ledger| -> Vec<Resource> {
            others.in_use(ledger).iter().map(|graph| graph.resource().clone()).collect()
        };
        assert_eq!(used(&others, &ledger), [Resource::Memory, disk.clone()]);
        for graph in &mut others.in_use(&ledger) {
            let mut fresh = Graph::of(&ledger, graph.resource().clone());
            assert_eq!(graph.guaranteed(holder), fresh.guaranteed(holder));
            assert!(graph.guaranteed(holder) > 0);
        }
        for changes in done.into_iter().rev() {
            changes.iter().rev().for_each(|change| others.follow_back(change));
            ledger.undo(changes);
        }
        assert!(others.in_use(&ledger).is_empty());
        assert_eq!(ledger, Ledger::new(0, 0));
    }
}
