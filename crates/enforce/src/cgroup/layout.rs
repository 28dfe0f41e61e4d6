//! From funding graphs, which need not be trees, to one tree of cgroups and their weights. Pure.
//!
//! Every resource has its own tickets, and a process is in one cgroup: all resources share the tree.
//!
//! 1. A currency stands under its only issuer, where all resources agree on it; one with several
//!    issuers stands at the top, and so does one with none. Every client is a leaf.
//! 2. Where all tickets of a resource that decide among the cgroups of one place are soft, none is
//!    more than [`MOST_STABLE`] times another, and no value leaves the cgroups for elsewhere, by
//!    tickets or in exchanges, each
//!    weighs what its tickets amount to. That stays right whoever sleeps: the kernel divides among
//!    those that want the resource, as the ledger does.
//! 3. Elsewhere each weighs what the active clients below it are worth together (valuation), and
//!    that is computed anew when who is active changes. One that sleeps weighs what it is sure of,
//!    in the same unit, so that it does not wake to a weight of long ago.
//! 4. The heaviest cgroup of a place has the greatest weight that the kernel takes, the others in
//!    proportion, rounded to the nearest, at least 1.
//!
//! **Error**, where weights go to [`MAX_WEIGHT`]. By rule 2 a weight is off by at most 0.5 %, so the
//! shares of one place are within 1 % of what they should be. By rule 3, among n cgroups a share is
//! off by at most (n + 1) / 10 000 of the place; four times that where heavier ones sleep. Each level
//! of the tree adds its own. Ratios above 10 000 to 1 cannot be expressed.

use ledger::{BASE, CurrencyId, TicketKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use valuation::Graph;

/// The greatest `cpu.weight`, and `io.weight`.
pub(super) const MAX_WEIGHT: u32 = 10_000;
/// The greatest ratio of two weights that are left as they are whoever sleeps: when only the lesser
/// is awake it still has a hundred steps of precision.
const MOST_STABLE: u64 = 100;
/// A sleeper weighs at most so many times what the heaviest active one does: more would cost the
/// active ones their precision (rule 3).
const MOST_OF_A_SLEEPER: u64 = 4;

/// One currency's place.
#[derive(Clone, Debug)]
struct Place {
    id: CurrencyId,
    client: bool,
    /// Below the top.
    path: PathBuf,
    parent: Option<usize>,
    children: Vec<usize>,
}

/// The tree of one plan.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Issuers before holders.
    places: Vec<Place>,
    by_id: BTreeMap<CurrencyId, usize>,
    tops: Vec<usize>,
}

/// What one resource's tickets decide in a [`Layout`].
#[derive(Clone, Debug)]
pub(super) struct Weights {
    most: u32,
    /// By place: the sum of its soft tickets; `None` where rule 2 does not hold for it.
    amounts: Vec<Option<u64>>,
    /// By place: rule 2 holds among its children.
    stable: Vec<bool>,
    top_is_stable: bool,
    /// The weights that were answered last, 0 for none.
    told: Vec<u32>,
}

/// The name of a currency's cgroup.
pub(super) fn name(id: CurrencyId) -> String {
    format!("c{}", id.0)
}

/// A currency with all that fund it, of any resource.
#[derive(Default)]
struct Node {
    is_client: bool,
    issuers: BTreeSet<CurrencyId>,
}

impl Layout {
    /// The tree for the clients for whom `is_leaf` holds; others (guests, and processes that are
    /// left where they are) take their value elsewhere.
    pub fn of(graphs: &[&Graph], is_leaf: impl Fn(CurrencyId) -> bool) -> Layout {
        let mut nodes: BTreeMap<CurrencyId, Node> = BTreeMap::new();
        for found in graphs.iter().flat_map(|graph| graph.nodes()).filter(|node| node.id != BASE) {
            let node = nodes.entry(found.id).or_default();
            node.is_client = found.is_client;
            let funding = found.backing().filter(|ticket| ticket.amount > 0);
            node.issuers.extend(funding.map(|ticket| ticket.issuer));
        }
        let mut layout = Layout { places: Vec::new(), by_id: BTreeMap::new(), tops: Vec::new() };
        for id in nodes.keys() {
            layout.place(*id, &nodes, &is_leaf);
        }
        layout
    }

    /// Gives a currency its place, and its only issuer one before it. Answers which.
    fn place(
        &mut self,
        id: CurrencyId,
        nodes: &BTreeMap<CurrencyId, Node>,
        is_leaf: &impl Fn(CurrencyId) -> bool,
    ) -> Option<usize> {
        if let Some(index) = self.by_id.get(&id) {
            return Some(*index);
        }
        let node = nodes.get(&id)?;
        if node.is_client && !is_leaf(id) {
            return None;
        }
        // As deep as the ledger's paths, which are bounded.
        let only = if node.issuers.len() == 1 { node.issuers.first() } else { None };
        let parent = only.and_then(|issuer| self.place(*issuer, nodes, is_leaf));
        let outer = parent.map_or_else(PathBuf::new, |parent| self.places[parent].path.clone());
        let index = self.places.len();
        self.places.push(Place {
            id,
            client: node.is_client,
            path: outer.join(name(id)),
            parent,
            children: Vec::new(),
        });
        self.by_id.insert(id, index);
        match parent {
            Some(parent) => self.places[parent].children.push(index),
            None => self.tops.push(index),
        }
        Some(index)
    }

    /// Where a currency stands, below the top.
    pub fn path(&self, id: CurrencyId) -> Option<&Path> {
        self.by_id.get(&id).map(|index| self.places[*index].path.as_path())
    }
}

impl Weights {
    /// Of the resource that the graph is of, up to `most`.
    pub fn of(layout: &Layout, graph: &Graph, most: u32) -> Weights {
        let count = layout.places.len();
        let mut amounts = vec![Some(0); count];
        // Currencies from which value flows to somebody who does not stand below them.
        let mut leaking: BTreeSet<CurrencyId> = BTreeSet::new();
        let mut hard: BTreeSet<CurrencyId> = BTreeSet::new();
        for node in graph.nodes().filter(|node| node.id != BASE) {
            let backing: Vec<_> = node.backing().filter(|ticket| ticket.amount > 0).collect();
            let issuers: BTreeSet<CurrencyId> =
                backing.iter().map(|ticket| ticket.issuer).collect();
            let Some(&index) = layout.by_id.get(&node.id) else {
                leaking.extend(issuers);
                continue;
            };
            // What it gave or received in exchanges comes and goes elsewhere.
            if graph.exchanged(node.id) != Default::default() {
                leaking.insert(node.id);
            }
            let under = layout.places[index].parent.map_or(BASE, |parent| layout.places[parent].id);
            // Unfunded ones take nothing from anybody.
            let fits = issuers.iter().all(|issuer| *issuer == under);
            if !fits {
                leaking.extend(&issuers);
            }
            let soft = backing.iter().all(|ticket| ticket.kind == TicketKind::Soft);
            if !soft {
                hard.extend(&issuers);
            }
            let amount = backing.iter().map(|ticket| ticket.amount).sum();
            amounts[index] = (fits && soft).then_some(amount);
        }
        let told = vec![0; count];
        let stable = vec![false; count];
        let mut weights = Weights { most, amounts, stable, top_is_stable: false, told };
        weights.find_stable(layout, &mut leaking, &hard);
        weights
    }

    /// Holders before issuers, so that a leak is known where the value comes from.
    fn find_stable(
        &mut self,
        layout: &Layout,
        leaking: &mut BTreeSet<CurrencyId>,
        hard: &BTreeSet<CurrencyId>,
    ) {
        for (index, place) in layout.places.iter().enumerate().rev() {
            self.stable[index] =
                self.agree(layout, &place.children, leaking) && !hard.contains(&place.id);
            if leaking.contains(&place.id)
                && let Some(parent) = place.parent
            {
                leaking.insert(layout.places[parent].id);
            }
        }
        self.top_is_stable = self.agree(layout, &layout.tops, leaking) && !hard.contains(&BASE);
    }

    fn agree(&self, layout: &Layout, siblings: &[usize], leaking: &BTreeSet<CurrencyId>) -> bool {
        let amounts = || siblings.iter().map(|index| self.amounts[*index]);
        // Who has nothing never competes.
        let funded = amounts().flatten().filter(|amount| *amount > 0);
        let (least, most) = funded
            .fold((u64::MAX, 0), |(least, most), amount| (amount.min(least), amount.max(most)));
        amounts().all(|amount| amount.is_some())
            && !siblings.iter().any(|index| leaking.contains(&layout.places[*index].id))
            && most <= least.saturating_mul(MOST_STABLE)
    }

    /// Whether no weight depends on who is active.
    pub fn are_stable(&self, layout: &Layout) -> bool {
        let inner = layout.places.iter().zip(&self.stable).filter(|(place, _)| !place.client);
        self.top_is_stable && inner.into_iter().all(|(_, stable)| *stable)
    }

    /// The weight of every place; 0 for one that has no client below it.
    fn now(&self, layout: &Layout, graph: &mut Graph) -> Vec<u32> {
        let count = layout.places.len();
        let (mut active, mut sure, mut needed) =
            (vec![0; count], vec![0; count], vec![false; count]);
        for (index, place) in layout.places.iter().enumerate().rev() {
            if place.client {
                // One that is not active is worth nothing now.
                active[index] = graph.value(place.id);
                sure[index] = graph.guaranteed(place.id);
                needed[index] = true;
            }
            if let Some(parent) = place.parent {
                active[parent] += active[index];
                sure[parent] += sure[index];
                needed[parent] |= needed[index];
            }
        }
        let mut weights = vec![0; count];
        let mut weigh = |siblings: &[usize], stable: bool| {
            let siblings: Vec<usize> =
                siblings.iter().copied().filter(|index| needed[*index]).collect();
            let raw: Vec<u64> = if stable {
                siblings.iter().map(|index| self.amounts[*index].unwrap_or(0)).collect()
            } else {
                let pairs: Vec<(u64, u64)> =
                    siblings.iter().map(|index| (active[*index], sure[*index])).collect();
                now_or_when_awake(&pairs)
            };
            for (index, weight) in siblings.iter().zip(scaled(&raw, self.most)) {
                weights[*index] = weight;
            }
        };
        weigh(&layout.tops, self.top_is_stable);
        for (place, stable) in layout.places.iter().zip(&self.stable) {
            if !place.client {
                weigh(&place.children, *stable);
            }
        }
        weights
    }

    /// The weights that changed since this was asked last.
    pub fn changes<'a>(&mut self, layout: &'a Layout, graph: &mut Graph) -> Vec<(&'a Path, u32)> {
        let weights = self.now(layout, graph);
        let told = std::mem::replace(&mut self.told, weights);
        let all = layout.places.iter().zip(&self.told).zip(told);
        let changed = all.filter(|((_, now), before)| *now != before && **now != 0);
        changed.map(|((place, weight), _)| (place.path.as_path(), *weight)).collect()
    }
}

/// Rule 3, from what each is worth now and what it is sure of.
fn now_or_when_awake(pairs: &[(u64, u64)]) -> Vec<u64> {
    let awake = pairs.iter().filter(|(active, _)| *active > 0);
    let (active, sure) = awake.fold((0u128, 0u128), |(active, sure), pair| {
        (active + u128::from(pair.0), sure + u128::from(pair.1))
    });
    let most = pairs.iter().map(|pair| pair.0).max().unwrap_or(0).saturating_mul(MOST_OF_A_SLEEPER);
    let when_awake = |own: u64| {
        if active == 0 || sure == 0 {
            return own;
        }
        let worth = u128::from(own) * active / sure;
        u64::try_from(worth).unwrap_or(u64::MAX).min(most)
    };
    pairs.iter().map(|pair| if pair.0 > 0 { pair.0 } else { when_awake(pair.1) }).collect()
}

/// Rule 4.
pub(super) fn scaled(raw: &[u64], most: u32) -> Vec<u32> {
    let greatest = u128::from(raw.iter().copied().max().unwrap_or(0).max(1));
    raw.iter()
        .map(|value| {
            let weight = (u128::from(*value) * u128::from(most) * 2 + greatest) / (2 * greatest);
            (weight as u32).clamp(1, most)
        })
        .collect()
}

/// Weights that add up to about `total`, in proportion to the values, each from 1 to
/// [`MAX_WEIGHT`]: for cgroups with neighbours that are not ours, which keep their own.
pub(super) fn portions(values: &[u64], total: u64) -> Vec<u32> {
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    values
        .iter()
        .map(|value| {
            let part = u128::from(*value) * u128::from(total) * 2 + sum;
            let weight = part.checked_div(2 * sum).unwrap_or(0);
            u32::try_from(weight).unwrap_or(MAX_WEIGHT).clamp(1, MAX_WEIGHT)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{
        Authority, Caller, Funding, Good, Intent, Ledger, Leg, Mode, NewClient, ProcessIdentity,
        Resource,
    };
    use proptest::prelude::*;
    use valuation::WHOLE;

    /// A ledger, changed by its superuser. What the broker refuses is left out.
    struct Funds {
        ledger: Ledger,
        next: u32,
    }

    impl Funds {
        fn new() -> Funds {
            Funds { ledger: Ledger::new(0, 0), next: 1 }
        }

        fn act(&mut self, intent: Intent) {
            let caller = Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
            if let Ok(authorised) = ledger::decide(&self.ledger, Authority::Caller(caller), intent)
            {
                self.ledger.apply(authorised);
            }
        }

        fn currency(&mut self) -> CurrencyId {
            let name = format!("n{}", self.next);
            self.next += 1;
            let mode = Mode::PRIVATE;
            self.act(Intent::CreateCurrency { name: name.clone(), owner: 0, group: 0, mode });
            self.ledger.named(0, &name).expect("just made")
        }

        fn client(&mut self) -> CurrencyId {
            let process = ProcessIdentity { pid: self.next, start_time_ticks: 1 };
            self.next += 1;
            let client = NewClient::process(process, 0, 0);
            self.act(Intent::Adopt { client, issuer: BASE, funding: vec![] });
            self.ledger.client_of(process).expect("just made")
        }

        fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, kind: TicketKind, amount: u64) {
            self.fund_with(Resource::Cpu, holder, issuer, kind, amount);
        }

        fn fund_with(
            &mut self,
            resource: Resource,
            holder: CurrencyId,
            issuer: CurrencyId,
            kind: TicketKind,
            amount: u64,
        ) {
            self.act(Intent::Fund { holder, issuer, funding: Funding { resource, kind, amount } });
        }

        /// Some of what can be given, from one to another.
        fn lend(&mut self, giver: usize, receiver: usize, amount: u64) {
            let all: Vec<CurrencyId> = self.ledger.currencies().map(|it| it.id).collect();
            let (giver, receiver) = (all[giver % all.len()], all[receiver % all.len()]);
            for kind in [TicketKind::Soft, TicketKind::Hard] {
                let good = Good { resource: Resource::Cpu, kind };
                let spare = if giver == BASE { 0 } else { self.ledger.spare(giver, &good) };
                if spare > 0 {
                    let amount = 1 + amount % spare;
                    let legs = vec![Leg { giver, receiver, good, amount }];
                    self.act(Intent::Exchange { legs, until_s: None });
                }
            }
        }

        fn graph(&self) -> Graph {
            Graph::of(&self.ledger, Resource::Cpu)
        }
    }

    /// What the kernel makes of weights: each cgroup's part is divided among those in it that have
    /// somebody awake below.
    fn kernel(
        weights: &[(PathBuf, u32)],
        awake: &BTreeMap<PathBuf, CurrencyId>,
    ) -> BTreeMap<CurrencyId, f64> {
        let is_awake = |path: &Path| awake.keys().any(|leaf| leaf.starts_with(path));
        let part = |leaf: &Path| -> f64 {
            let groups = leaf.ancestors().filter(|path| *path != Path::new(""));
            groups
                .map(|group| {
                    let siblings = weights
                        .iter()
                        .filter(|(path, _)| path.parent() == group.parent() && is_awake(path));
                    let all: u32 = siblings.map(|(_, weight)| weight).sum();
                    let own = weights.iter().find(|(path, _)| path == group).expect("weighed").1;
                    f64::from(own) / f64::from(all)
                })
                .product()
        };
        awake.iter().map(|(leaf, id)| (*id, part(leaf))).collect()
    }

    /// A currency or client of a random graph: up to two issuers among those before it, each with
    /// hard or soft tickets.
    type Node = (bool, Vec<(usize, bool, u64)>);

    fn node() -> impl Strategy<Value = Node> {
        let amount = prop_oneof![1..20u64, 1..1000u64];
        let backing = (any::<prop::sample::Index>(), prop::bool::weighted(0.2), amount)
            .prop_map(|(issuer, hard, amount)| (issuer.index(1 << 20), hard, amount));
        let backing = prop_oneof![
            4 => prop::collection::vec(backing.clone(), 1),
            1 => prop::collection::vec(backing, 0..3),
        ];
        (prop::bool::weighted(0.6), backing)
    }

    fn build(nodes: &[Node]) -> (Funds, Vec<CurrencyId>) {
        let mut funds = Funds::new();
        let (mut issuers, mut clients) = (vec![BASE], Vec::new());
        for (is_client, backing) in nodes {
            let id = if *is_client { funds.client() } else { funds.currency() };
            for (issuer, hard, amount) in backing {
                let kind = if *hard { TicketKind::Hard } else { TicketKind::Soft };
                funds.fund(id, issuers[issuer % issuers.len()], kind, *amount);
            }
            if *is_client { &mut clients } else { &mut issuers }.push(id);
        }
        (funds, clients)
    }

    /// Checks that the kernel, by the weights of one resource, divides it as its ledger does.
    fn check_division(
        layout: &Layout,
        graph: &mut Graph,
        awake: &[CurrencyId],
    ) -> Result<(), TestCaseError> {
        for id in awake {
            graph.set_active(*id, true);
        }
        let weights: Vec<(PathBuf, u32)> = Weights::of(layout, graph, MAX_WEIGHT)
            .changes(layout, graph)
            .into_iter()
            .map(|(path, weight)| (path.to_owned(), weight))
            .collect();
        // Who is worth nothing competes with the least weight, or is frozen.
        let active = awake.iter().copied().filter(|id| graph.value(*id) > 0).collect::<Vec<_>>();
        let awake: BTreeMap<PathBuf, CurrencyId> =
            active.iter().map(|id| (layout.path(*id).expect("a leaf").to_owned(), *id)).collect();
        let got = kernel(&weights, &awake);
        let siblings = weights.len() as f64;
        for (leaf, id) in &awake {
            let due = graph.value(*id) as f64 / WHOLE as f64;
            let levels = leaf.components().count() as f64;
            let bound = levels * (0.01 * due + 4.0 * (siblings + 1.0) / 10_000.0);
            let off = (got[id] - due).abs();
            prop_assert!(off <= bound, "{id} at {leaf:?}: {} of {due}, {weights:?}", got[id]);
        }
        Ok(())
    }

    fn awake_of(clients: Vec<CurrencyId>, awake: Vec<bool>) -> Vec<CurrencyId> {
        clients.into_iter().zip(awake).filter(|(_, awake)| *awake).map(|(id, _)| id).collect()
    }

    proptest! {
        #[test]
        fn the_kernel_divides_as_the_ledger_does(
            nodes in prop::collection::vec(node(), 1..24),
            awake in prop::collection::vec(any::<bool>(), 24),
            loans in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u64>()), 0..4),
        ) {
            let (mut funds, clients) = build(&nodes);
            for (giver, receiver, amount) in loans {
                funds.lend(giver, receiver, amount);
            }
            let mut graph = funds.graph();
            let layout = Layout::of(&[&graph], |_| true);
            check_division(&layout, &mut graph, &awake_of(clients, awake))?;
        }

        #[test]
        fn resources_with_different_tickets_share_one_tree(
            nodes in prop::collection::vec(node(), 1..24),
            of_disk in prop::collection::vec((any::<usize>(), any::<usize>(), any::<bool>(), 1..500u64), 0..24),
            awake in prop::collection::vec(any::<bool>(), 24),
            waiting in prop::collection::vec(any::<bool>(), 24),
        ) {
            let (mut funds, clients) = build(&nodes);
            let disk = Resource::Disk("sda".to_owned());
            let all: Vec<CurrencyId> = funds.ledger.currencies().map(|it| it.id).collect();
            for (holder, issuer, hard, amount) in of_disk {
                let kind = if hard { TicketKind::Hard } else { TicketKind::Soft };
                let (holder, issuer) = (all[holder % all.len()], all[issuer % all.len()]);
                // What makes no sense is refused.
                funds.fund_with(disk.clone(), holder, issuer, kind, amount);
            }
            let mut cpu = funds.graph();
            let mut disk = Graph::of(&funds.ledger, disk);
            let layout = Layout::of(&[&cpu, &disk], |_| true);
            check_division(&layout, &mut cpu, &awake_of(clients.clone(), awake))?;
            check_division(&layout, &mut disk, &awake_of(clients, waiting))?;
        }

        #[test]
        fn weights_of_a_tree_of_soft_tickets_do_not_depend_on_who_is_awake(
            nodes in prop::collection::vec((any::<bool>(), any::<usize>(), 1..100u64), 1..24),
            awake in prop::collection::vec(any::<bool>(), 24),
        ) {
            let nodes: Vec<_> = nodes
                .into_iter()
                .map(|(client, issuer, amount)| (client, vec![(issuer, false, amount)]))
                .collect();
            let (funds, clients) = build(&nodes);
            let mut graph = funds.graph();
            let layout = Layout::of(&[&graph], |_| true);
            let mut weights = Weights::of(&layout, &graph, MAX_WEIGHT);
            weights.changes(&layout, &mut graph);
            for (id, awake) in clients.iter().zip(awake) {
                graph.set_active(*id, awake);
            }
            prop_assert!(weights.are_stable(&layout));
            prop_assert_eq!(weights.changes(&layout, &mut graph), []);
        }

        #[test]
        fn scaled_weights_are_near_their_proportions(raw in prop::collection::vec(0..WHOLE, 1..40)) {
            let weights = scaled(&raw, MAX_WEIGHT);
            let greatest = raw.iter().copied().max().unwrap_or(0).max(1) as f64;
            for (raw, weight) in raw.iter().zip(&weights) {
                let exact = *raw as f64 * f64::from(MAX_WEIGHT) / greatest;
                let least = (exact - 0.5).max(1.0) - 1e-6;
                prop_assert!((least..=exact.max(1.0) + 0.5 + 1e-6).contains(&f64::from(*weight)));
            }
            if raw.iter().any(|raw| *raw > 0) {
                prop_assert_eq!(weights.iter().max(), Some(&MAX_WEIGHT));
            }
        }
    }

    #[test]
    fn who_sleeps_weighs_what_it_would_awake() {
        // 1:1 awake, and a sleeper that is sure of as much as each.
        assert_eq!(now_or_when_awake(&[(50, 10), (50, 10), (0, 10)]), [50, 50, 50]);
        assert_eq!(now_or_when_awake(&[(5, 1), (0, 100)]), [5, 20], "but at most four times");
        assert_eq!(now_or_when_awake(&[(0, 1), (0, 100)]), [1, 100], "nobody is awake");
    }

    #[test]
    fn portions_add_up_and_nobody_weighs_nothing() {
        assert_eq!(portions(&[2, 1, 1], 2000), [1000, 500, 500]);
        assert_eq!(portions(&[1, 0], 100), [100, 1]);
        assert_eq!(portions(&[0, 0], 100), [1, 1]);
        assert_eq!(portions(&[1], 1 << 40), [MAX_WEIGHT]);
    }

    #[test]
    fn a_guest_takes_no_place_among_hosts() {
        let mut funds = Funds::new();
        let user = funds.currency();
        funds.fund(user, BASE, TicketKind::Soft, 1);
        let [host, guest] = [funds.client(), funds.client()];
        for client in [host, guest] {
            funds.fund(client, user, TicketKind::Soft, 1);
        }
        let layout = Layout::of(&[&funds.graph()], |id| id == host);
        let nested: PathBuf = [name(user), name(host)].iter().collect();
        assert_eq!(layout.path(host), Some(nested.as_path()));
        assert_eq!(layout.path(guest), None);
    }
}
