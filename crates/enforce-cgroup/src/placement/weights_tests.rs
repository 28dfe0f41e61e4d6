//! Tests of weights: the kernel divides by them as the ledger does.

use super::*;
use crate::placement::layout::name;
use ledger::operation::{Adopt, CreateCurrency, Fund, MakeExchange};
use ledger::{
    Authority, Caller, Funding, Good, Intent, Ledger, Leg, Mode, NewClient, ProcessIdentity,
    Resource,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
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
        if let Ok(authorised) = ledger::decide(&self.ledger, Authority::Caller(caller), intent) {
            self.ledger.apply(authorised);
        }
    }

    fn currency(&mut self) -> CurrencyId {
        let name = format!("n{}", self.next);
        self.next += 1;
        let mode = Mode::PRIVATE;
        self.act(Intent::from(CreateCurrency { name: name.clone(), owner: 0, group: 0, mode }));
        self.ledger.named(0, &name).expect("just made")
    }

    fn client(&mut self) -> CurrencyId {
        let process = ProcessIdentity { pid: self.next, start_time_ticks: 1 };
        self.next += 1;
        let client = NewClient::process(process, 0, 0);
        self.act(Intent::from(Adopt { client, issuer: BASE, funding: vec![] }));
        self.ledger.client_of(process).expect("just made")
    }

    fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, kind: TicketKind, amount: u64) {
        self.fund_with(Resource::CPU, holder, issuer, kind, amount);
    }

    fn fund_with(
        &mut self,
        resource: Resource,
        holder: CurrencyId,
        issuer: CurrencyId,
        kind: TicketKind,
        amount: u64,
    ) {
        self.act(Intent::from(Fund {
            holder,
            issuer,
            funding: Funding { resource, kind, amount },
        }));
    }

    /// Some of what can be given, from one to another.
    fn lend(&mut self, giver: usize, receiver: usize, amount: u64) {
        let all: Vec<CurrencyId> = self.ledger.currencies().map(|it| it.id).collect();
        let (giver, receiver) = (all[giver % all.len()], all[receiver % all.len()]);
        for kind in [TicketKind::Soft, TicketKind::Hard] {
            let good = Good { resource: Resource::CPU, kind };
            let spare = if giver == BASE { 0 } else { self.ledger.spare(giver, &good) };
            if spare > 0 {
                let amount = 1 + amount % spare;
                let legs = vec![Leg { giver, receiver, good, amount }];
                self.act(Intent::from(MakeExchange { legs, until_s: None }));
            }
        }
    }

    fn graph(&self) -> Graph {
        Graph::of(&self.ledger, Resource::CPU)
    }
}

/// Divides as the kernel does by weights: each cgroup's part is divided among those in it that have
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
        let disk = Resource::disk("sda");
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
