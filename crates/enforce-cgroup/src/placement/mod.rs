//! Clients and their cgroups: members of a plan's clients, the tree for them, moves of processes into it.

mod client;
mod gather;
mod layout;
mod members;
mod settle;
mod waits;
mod weights;

pub(crate) use client::Client;
pub(crate) use layout::Layout;
pub(crate) use settle::Checked;
pub(crate) use weights::{MAX_WEIGHT, Weights, portions, scaled};

use crate::cgroups::Cgroups;
use enforcer::DriftLog;
use enforcer::{Plan, PlannedClient};
use gather::Gathering;
use ledger::{Class, CurrencyId};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use valuation::Graph;

/// The clients of a plan, and where they are.
#[derive(Debug)]
pub(crate) struct Placement {
    /// In order of id.
    pub clients: Vec<Client>,
    /// Clients of the plan that cannot be managed, and why.
    pub unmanageable: Vec<(PlannedClient, String)>,
    /// The tree, once there is a plan.
    pub layout: Option<Layout>,
    /// Clients of the plan before, until the processes of this one have moved.
    leaving: Vec<Client>,
    used_by_gone_ns: u64,
    /// When accounts were last brought up to date.
    counted_ns: u64,
    /// The client that was checked last, of all that were ever checked.
    checks: usize,
}

impl Placement {
    pub fn new(now_ns: u64) -> Placement {
        Placement {
            clients: Vec::new(),
            unmanageable: Vec::new(),
            layout: None,
            leaving: Vec::new(),
            used_by_gone_ns: 0,
            counted_ns: now_ns,
            checks: 0,
        }
    }

    /// Returns a client by its currency.
    pub fn client(&self, id: CurrencyId) -> Option<&Client> {
        let index = self.clients.binary_search_by_key(&id, |client| client.id).ok()?;
        Some(&self.clients[index])
    }

    /// CPU time used by all clients, those that are gone included, in ns.
    pub fn used_ns(&self) -> u64 {
        let clients = self.clients.iter().map(|client| client.account.used_ns);
        self.used_by_gone_ns + clients.sum::<u64>()
    }

    /// Makes clients of the plan's. `own` are processes of ours, which are never managed.
    pub fn follow(&mut self, plan: &Plan, cgroups: &Cgroups, own: &[u32], now_ns: u64) {
        let before = std::mem::take(&mut self.clients);
        let mut known: BTreeMap<CurrencyId, Client> =
            before.into_iter().map(|client| (client.id, client)).collect();
        let mut gathering = Gathering::new(plan, cgroups, own, known.values_mut());
        self.unmanageable.clear();
        for planned in &plan.clients {
            let mut client = match known.remove(&planned.id) {
                Some(client) if client.founder == planned.founder => client,
                other => {
                    other.into_iter().for_each(|client| self.forget(client));
                    Client::new(planned.id, planned.founder, now_ns)
                }
            };
            gathering.gather(&mut client, planned);
            let is_foreign = cgroups.shares_cpu && !client.foreign().is_empty();
            client.set_frozen(planned.frozen && cgroups.shares_cpu && !is_foreign);
            client.is_to_freeze = planned.frozen;
            client.is_guest = planned.class == Class::Guest || planned.lent;
            if client.is_unmanageable() {
                self.unmanageable.push((planned.clone(), client.notes.join("; ")));
                self.forget(client);
                continue;
            }
            if planned.frozen && is_foreign {
                client.notes.push("not frozen: it is in a cgroup that is not ours".to_owned());
            }
            if client.is_guest && is_foreign {
                client.notes.push("no guest here: it is in a cgroup that is not ours".to_owned());
            }
            self.clients.push(client);
        }
        self.clients.sort_by_key(|client| client.id);
        self.leaving.extend(known.into_values());
    }

    /// Lays out the tree for the clients, by the graphs of the resources that decide about it.
    pub fn lay_out(&mut self, graphs: &[&Graph]) {
        let in_leaves = self.clients.iter().filter(|client| client.has_leaf() && !client.is_guest);
        let leaves: BTreeSet<CurrencyId> = in_leaves.map(|client| client.id).collect();
        self.layout = Some(Layout::of(graphs, |id| leaves.contains(&id)));
    }

    /// Returns the folder of a currency's cgroup in the tree.
    pub fn folder_of(&self, id: CurrencyId, cgroups: &Cgroups) -> Option<PathBuf> {
        Some(cgroups.top.join(self.layout.as_ref()?.path(id)?))
    }

    /// Returns the folder that a client's own cgroup has to have.
    fn leaf_of(&self, client: &Client, cgroups: &Cgroups) -> Option<PathBuf> {
        if !client.has_leaf() {
            return None;
        }
        if client.is_guest {
            return Some(cgroups.guests.join(layout::name(client.id)));
        }
        self.folder_of(client.id, cgroups)
    }

    /// Makes all cgroups, before anybody is in them.
    pub fn make_leaves(&self, cgroups: &mut Cgroups) {
        let leaves = self.clients.iter().filter_map(|client| self.leaf_of(client, cgroups));
        for leaf in leaves.collect::<Vec<_>>() {
            // A failure is told when a process is to be moved there.
            let _ = cgroups.make(&leaf);
        }
    }

    /// Moves everybody to where they belong, and removes the cgroups that nobody needs any more.
    pub fn settle(&mut self, cgroups: &mut Cgroups, drift: &mut DriftLog) {
        settle::note_neighbours(&mut self.clients, cgroups);
        let mut complete = true;
        for index in 0..self.clients.len() {
            complete &= self.settle_one(index, cgroups);
        }
        cgroups.set_complete(complete);
        for client in std::mem::take(&mut self.leaving) {
            self.forget(client);
        }
        let leaves = self.clients.iter().filter_map(|client| client.leaf.as_deref());
        for what in cgroups.prune(leaves) {
            drift.tell(what);
        }
    }

    /// Returns false when the client's cgroup cannot be made.
    fn settle_one(&mut self, index: usize, cgroups: &mut Cgroups) -> bool {
        let leaf = self.leaf_of(&self.clients[index], cgroups);
        settle::settle(&mut self.clients[index], leaf, cgroups)
    }

    /// Checks whether the next client, in turn, is as it was set, and puts right what is not.
    pub fn check_next(&mut self, cgroups: &mut Cgroups, drift: &mut DriftLog) -> Checked {
        self.checks = self.checks.wrapping_add(1);
        self.check(self.checks % self.clients.len().max(1), cgroups, drift)
    }

    /// Checks whether a client is as it was set, and puts right what is not.
    pub fn check(&mut self, index: usize, cgroups: &mut Cgroups, drift: &mut DriftLog) -> Checked {
        let Some(client) = self.clients.get_mut(index) else { return Checked::default() };
        let checked = settle::check(client, cgroups, drift);
        if checked.is_leaf_gone && !self.settle_one(index, cgroups) {
            cgroups.set_complete(false);
        }
        checked
    }

    // Accounts.

    /// Adds the time since the last call, in which nothing changed, to what clients were promised.
    pub fn integrate(&mut self, now_ns: u64) {
        let elapsed_ns = self.skip(now_ns);
        for client in &mut self.clients {
            client.integrate(elapsed_ns);
        }
    }

    /// Adds nothing for the time since the last call. Returns that time.
    pub fn skip(&mut self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(std::mem::replace(&mut self.counted_ns, now_ns))
    }

    /// Brings all accounts up to date.
    pub fn measure(&mut self) {
        self.clients.iter_mut().for_each(Client::measure);
    }

    /// Forgets a client, but not what it used.
    fn forget(&mut self, mut client: Client) {
        client.measure();
        self.used_by_gone_ns += client.account.used_ns;
    }

    /// Forgets all clients, but not what they used.
    pub fn clear(&mut self) {
        for client in std::mem::take(&mut self.clients) {
            self.forget(client);
        }
        self.unmanageable.clear();
        self.layout = None;
    }
}
