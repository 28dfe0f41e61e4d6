//! A plan as the scheduler's memory has it (bpf/abi.h). Pure.
//!
//! 1. Every currency's node lists its tickets of positive amounts, so that an activation can climb
//!    them. A guest's are left out: nothing that it holds ever counts.
//! 2. Every client has a *path*: the slots of all currencies above it but base, issuers before
//!    holders, and its own at the end, so that its value is computed in one pass.
//! 3. A client whose path does not fit competes as a guest, and a note says so.
//! 4. Whoever gives base's tickets in exchanges has its way there, where the charge comes to, and
//!    every currency lists the givers below it. If they do not fit, nothing is exchanged, and every
//!    party has a note.

use crate::abi::{EDGES_MAX, GIVERS_MAX, PATH_MAX, STEP_SOFT, STEPS_MAX, flags, kinds, types};
use crate::bank_array::{BankArray, Extent};
use crate::slots::Slots;
use enforcer::{Plan, PlannedClient};
use ledger::{
    BASE, Change, Class, CurrencyId, CurrencyKind, CurrencyRecord, Member, Mode, Ticket, TicketId,
    TicketKind,
};
use std::collections::BTreeMap;

/// The client of the kernel's threads where a plan has none.
const OWN_KERNEL: CurrencyId = CurrencyId(u64::MAX - 1);
/// The client of all other processes where a plan has none.
const OWN_REST: CurrencyId = CurrencyId(u64::MAX);
/// Soft base tickets of each: as many as the funding policy gives to a user.
const OWN_AMOUNT: u64 = 1000;

/// Whether a client is only ours, and no currency of the ledger.
pub(crate) fn is_our_own(id: CurrencyId) -> bool {
    id >= OWN_KERNEL
}

/// The same plan with a client for the kernel's threads and one for the rest, if it has none.
pub(crate) fn completed(mut plan: Plan) -> Plan {
    for (id, member) in [(OWN_KERNEL, Member::Kernel), (OWN_REST, Member::Rest)] {
        let covers =
            |client: &PlannedClient| client.founder == member || client.members.contains(&member);
        if plan.clients.iter().any(covers) {
            continue;
        }
        let record = CurrencyRecord {
            name: String::new(),
            owner: 0,
            group: 0,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: Default::default(),
            kind: CurrencyKind::client(member),
        };
        let ticket = Ticket {
            issuer: BASE,
            holder: id,
            resource: plan.cpu().resource().clone(),
            kind: TicketKind::Soft,
            amount: OWN_AMOUNT,
        };
        plan.cpu_mut().follow(&Change::Currency {
            id,
            before: None,
            after: Some(Box::new(record)),
        });
        plan.cpu_mut().follow(&Change::Ticket {
            id: TicketId(id.0),
            before: None,
            after: Some(ticket),
        });
        plan.clients.push(PlannedClient::of(id, member));
    }
    plan
}

/// One bank's contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bank {
    pub nodes: Vec<types::node>,
    pub edges: BankArray<types::edge, EDGES_MAX>,
    pub paths: BankArray<u32, STEPS_MAX>,
    pub givers: BankArray<types::giver, GIVERS_MAX>,
    /// Clients that do not compete as the plan says, and why.
    pub notes: BTreeMap<CurrencyId, String>,
}

/// Encodes a plan; every currency of its graph that shall have a part in it has a slot.
pub(crate) fn encode(plan: &Plan, slots: &Slots) -> Bank {
    let mut bank = Bank { nodes: vec![types::node::default(); slots.end()], ..Bank::default() };
    // Of each slot, its currency's place in topological order.
    let mut order = vec![0; slots.end()];
    for (place, view) in plan.cpu().nodes().enumerate() {
        let Some(slot) = slots.of(view.id) else { continue };
        let is_guest = view.class == Class::Guest;
        let backing = view.backing().filter(|backing| backing.amount > 0);
        let own: Vec<types::edge> = backing
            .filter_map(|backing| {
                let issuer = slots.of(backing.issuer)?;
                let kind = kind_number(backing.kind);
                Some(types::edge { amount: backing.amount, issuer, kind, ..types::edge::default() })
            })
            .collect();
        let held = if is_guest { Some(Extent::default()) } else { bank.edges.append(&own) };
        if held.is_none() {
            bank.notes
                .insert(view.id, "there are too many tickets: it gets only what is left".into());
        }
        let held = held.unwrap_or_default();
        let node = &mut bank.nodes[slot as usize];
        node.issued_hard = view.issued.hard;
        node.scale = scale(view.issued.soft);
        (node.first_edge, node.edges) = (held.first(), held.len());
        order[slot as usize] = place as u32;
    }
    for client in &plan.clients {
        if let Some(slot) = slots.of(client.id) {
            bank.add_client(client, slot, &order);
        }
    }
    if plan.cpu().has_exchanges() {
        bank.add_exchanges(plan, slots);
    }
    bank
}

/// What rule 4 puts into a bank.
#[derive(Default)]
struct Exchanges {
    givers: Vec<types::giver>,
    ways: Vec<u32>,
    /// By slot: base's soft and hard tickets that it has received.
    received: BTreeMap<u32, (u64, u64)>,
    /// By slot: the givers below it.
    below: BTreeMap<u32, Vec<u32>>,
}

impl Exchanges {
    fn of(plan: &Plan, slots: &Slots) -> Exchanges {
        let mut all = Exchanges::default();
        for view in plan.cpu().nodes() {
            let (Some(slot), (given, received)) =
                (slots.of(view.id), plan.cpu().exchanged(view.id))
            else {
                continue;
            };
            if (received.soft, received.hard) != (0, 0) {
                all.received.insert(slot, (received.soft, received.hard));
            }
            for (kind, amount) in [(TicketKind::Soft, given.soft), (TicketKind::Hard, given.hard)] {
                if amount > 0 {
                    let way = plan.cpu().charge_way(view.id, kind);
                    all.add_giver(amount, kind, &way, slots);
                }
            }
        }
        all
    }

    fn add_giver(
        &mut self,
        amount: u64,
        kind: TicketKind,
        way: &[(CurrencyId, bool)],
        slots: &Slots,
    ) {
        let number = self.givers.len() as u32;
        let first_step = self.ways.len() as u32;
        for (id, soft) in way {
            // An issuer of somebody in the plan has a slot.
            let slot = slots.of(*id).expect("it is above a currency with a slot");
            self.ways.push(slot | if *soft { STEP_SOFT } else { 0 });
            self.below.entry(slot).or_default().push(number);
        }
        let (kind, steps) = (kind_number(kind), way.len() as u32);
        self.givers.push(types::giver { amount, kind, first_step, steps, place: steps });
    }

    /// How many steps it takes.
    fn steps(&self) -> usize {
        self.ways.len() + self.below.values().map(Vec::len).sum::<usize>()
    }
}

impl Bank {
    /// Rule 4.
    fn add_exchanges(&mut self, plan: &Plan, slots: &Slots) {
        let mut all = Exchanges::of(plan, slots);
        if !self.givers.has_room(all.givers.len()) || !self.paths.has_room(all.steps()) {
            for view in plan.cpu().nodes() {
                if all
                    .below
                    .keys()
                    .chain(all.received.keys())
                    .any(|slot| slots.of(view.id) == Some(*slot))
                {
                    let why = "there are too many exchanges: none of the CPU has an effect";
                    self.notes.insert(view.id, why.into());
                }
            }
            return;
        }
        let ways = self.paths.append(&all.ways).expect("there is room for all steps");
        for giver in &mut all.givers {
            giver.first_step += ways.first();
        }
        let givers = self.givers.append(&all.givers).expect("there is room for all givers");
        self.nodes[0].givers = givers.len();
        for (slot, (soft, hard)) in all.received {
            let node = &mut self.nodes[slot as usize];
            (node.received_soft, node.received_hard, node.exchanged) = (soft, hard, 1);
        }
        for (slot, numbers) in all.below {
            let numbers = self.paths.append(&numbers).expect("there is room for all steps");
            let node = &mut self.nodes[slot as usize];
            node.exchanged = 1;
            (node.first_giver, node.givers) = (numbers.first(), numbers.len());
        }
    }

    fn add_client(&mut self, client: &PlannedClient, slot: u32, order: &[u32]) {
        let mut set = flags::LIVE;
        for (is, flag) in [
            (client.class == Class::Guest || self.notes.contains_key(&client.id), flags::GUEST),
            (client.frozen, flags::FROZEN),
            (client.lent, flags::LENT),
        ] {
            if is {
                set |= flag;
            }
        }
        // Who is worth nothing by itself needs no path.
        if set & (flags::GUEST | flags::LENT) == 0 {
            match self.add_path(slot, order) {
                Ok(path) => {
                    let node = &mut self.nodes[slot as usize];
                    (node.first_step, node.steps) = (path.first(), path.len());
                }
                Err(why) => {
                    self.notes.insert(client.id, format!("{why}: it gets only what is left"));
                    set |= flags::GUEST;
                    self.nodes[slot as usize].edges = 0;
                }
            }
        }
        self.nodes[slot as usize].flags = set;
    }

    fn backing(&self, slot: u32) -> &[types::edge] {
        let node = &self.nodes[slot as usize];
        &self.edges[node.first_edge as usize..][..node.edges as usize]
    }

    /// Rule 2.
    fn add_path(&mut self, client: u32, order: &[u32]) -> Result<Extent, &'static str> {
        let mut above = BTreeMap::from([(order[client as usize], client)]);
        let mut open = vec![client];
        while let Some(slot) = open.pop() {
            for issuer in self.backing(slot).iter().map(|edge| edge.issuer) {
                if issuer != 0 && above.insert(order[issuer as usize], issuer).is_none() {
                    open.push(issuer);
                }
            }
            if above.len() > PATH_MAX {
                return Err("more than 63 currencies fund it");
            }
        }
        let path: Vec<u32> = above.into_values().collect();
        self.paths.append(&path).ok_or("there are too many currencies")
    }
}

/// The unit of a currency's soft clock, as bpf/abi.h wants it for so many soft tickets.
fn scale(soft: u64) -> u32 {
    let bits = u64::BITS - soft.leading_zeros();
    (16 + bits.saturating_sub(24)).min(31)
}

fn kind_number(kind: TicketKind) -> u32 {
    match kind {
        TicketKind::Soft => kinds::SOFT,
        TicketKind::Hard => kinds::HARD,
        TicketKind::Transfer => kinds::TRANSFER,
    }
}

/// Whose members the kernel's numbers are. A number without an entry is the rest's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// By pid: start time in ticks, slot.
    pub processes: BTreeMap<u32, (u64, u32)>,
    /// By thread id: start time in ticks, slot.
    pub threads: BTreeMap<u32, (u64, u32)>,
    /// By id: slot.
    pub cgroups: BTreeMap<u64, u32>,
    pub kernel: u32,
    pub rest: u32,
}

impl Members {
    /// Of a completed plan.
    pub fn of(plan: &Plan, slots: &Slots) -> Members {
        let mut members = Members::default();
        let with_slot = || {
            plan.clients.iter().filter_map(|client| slots.of(client.id).map(|slot| (client, slot)))
        };
        for (client, slot) in with_slot() {
            members.put(&client.founder, slot);
        }
        // Who has joined a client is there, and not in the one that it has founded.
        for (client, slot) in with_slot() {
            for member in &client.members {
                members.put(member, slot);
            }
        }
        members
    }

    fn put(&mut self, member: &Member, slot: u32) {
        match member {
            Member::Process(process) => {
                self.processes.insert(process.pid, (process.start_time_ticks, slot));
            }
            Member::Thread(thread) => {
                self.threads.insert(thread.tid, (thread.start_time_ticks, slot));
            }
            Member::Cgroup(id) => {
                self.cgroups.insert(*id, slot);
            }
            Member::Kernel => self.kernel = slot,
            Member::Rest => self.rest = slot,
        }
    }
}

const _: () = assert!(PATH_MAX == 64, "a note names it");

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
