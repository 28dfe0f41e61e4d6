//! Facts from another process: what no ledger could have said is refused, and a graph that is taken answers every
//! question without a panic, without an endless loop, and with values that never exceed the whole.

use allot_valuation::{
    Backing, CurrencyFacts, Goods, Graph, GraphError, GraphFacts, PATH_MAX, WHOLE,
};
use ledger::{BASE, Class, CurrencyId, ISSUED_MAX, Resource, TicketKind};
use proptest::prelude::*;

const NONE: Goods = Goods { soft: 0, hard: 0 };

fn currency(id: u64, is_client: bool, tickets: Vec<Backing>) -> CurrencyFacts {
    let (class, competes) = (Class::Host, false);
    CurrencyFacts {
        id: CurrencyId(id),
        is_client,
        class,
        competes,
        given: NONE,
        received: NONE,
        tickets,
    }
}

fn ticket(issuer: u64, kind: TicketKind, amount: u64) -> Backing {
    Backing { issuer: CurrencyId(issuer), kind, amount }
}

fn soft(issuer: u64, amount: u64) -> Backing {
    ticket(issuer, TicketKind::Soft, amount)
}

/// Base, a user with 3 of 4 base tickets, another with 1, and a client of each.
fn small() -> GraphFacts {
    GraphFacts {
        resource: Resource::CPU,
        memory_kib: 0,
        currencies: vec![
            currency(0, false, vec![]),
            currency(1, false, vec![soft(0, 300)]),
            currency(2, false, vec![soft(0, 100)]),
            currency(3, true, vec![soft(1, 10)]),
            currency(4, true, vec![soft(2, 10)]),
        ],
    }
}

fn refused(change: impl FnOnce(&mut GraphFacts)) -> GraphError {
    let mut facts = small();
    change(&mut facts);
    Graph::from_facts(&facts).expect_err("no ledger says so")
}

#[test]
fn a_graph_comes_back_from_its_facts() {
    let mut facts = small();
    facts.currencies[3].competes = true;
    facts.currencies[4].competes = true;
    // The first user lends the second a fifth of its tickets.
    facts.currencies[1].given = Goods { soft: 60, hard: 0 };
    facts.currencies[2].received = Goods { soft: 60, hard: 0 };
    let mut graph = Graph::from_facts(&facts).expect("sound");
    // Of 400 base tickets it is worth 240; each division drops less than a part.
    assert!((WHOLE * 3 / 5).abs_diff(graph.value(CurrencyId(3))) < 4);
    assert_eq!(graph.facts(), facts);
    let bytes = postcard::to_stdvec(&graph).expect("plain data");
    let back: Graph = postcard::from_bytes(&bytes).expect("sound");
    assert_eq!(back.facts(), facts);
}

#[test]
fn what_no_ledger_says_is_refused() {
    use GraphError::*;
    let id = CurrencyId;
    assert_eq!(refused(|it| drop(it.currencies.remove(0))), NoBase);
    assert_eq!(refused(|it| it.currencies.push(currency(3, true, vec![]))), Twice(id(3)));
    let greatest = id(u64::MAX);
    assert_eq!(refused(|it| it.currencies[4].id = greatest), NoSuchId(greatest));
    assert_eq!(refused(|it| it.currencies[1].competes = true), NoClient(id(1)));
    assert_eq!(refused(|it| it.currencies[1].class = Class::Guest), NoClient(id(1)));
    assert_eq!(refused(|it| it.currencies[0].is_client = true), NoClient(BASE));
    let unknown = UnknownIssuer { holder: id(4), issuer: id(9) };
    assert_eq!(refused(|it| it.currencies[4].tickets.push(soft(9, 1))), unknown);
    let from_client = CannotJoin { issuer: id(3), holder: id(4) };
    assert_eq!(refused(|it| it.currencies[4].tickets.push(soft(3, 1))), from_client);
    let to_base = CannotJoin { issuer: id(1), holder: BASE };
    assert_eq!(refused(|it| it.currencies[0].tickets.push(soft(1, 1))), to_base);
    let second = SecondTicket { issuer: id(1), holder: id(3) };
    assert_eq!(refused(|it| it.currencies[3].tickets.push(soft(1, 1))), second);
    for (kind, amount) in
        [(TicketKind::Soft, u64::MAX), (TicketKind::Hard, 1001), (TicketKind::Hard, u64::MAX)]
    {
        let much = refused(|it| it.currencies[4].tickets.push(ticket(1, kind, amount)));
        assert_eq!(much, IssuedTooMuch(id(1)));
    }
    let twice_lent = refused(|it| {
        for holder in [5, 6] {
            it.currencies.push(currency(holder, true, vec![ticket(3, TicketKind::Transfer, 1)]));
        }
    });
    assert_eq!(twice_lent, IssuedTooMuch(id(3)));
    assert_eq!(refused(|it| it.memory_kib = u64::MAX), TooMuchMemory(u64::MAX));
}

#[test]
fn cycles_and_endless_paths_are_refused() {
    let circle = refused(|it| {
        it.currencies[1].tickets.push(soft(2, 1));
        it.currencies[2].tickets.push(soft(1, 1));
    });
    assert!(matches!(circle, GraphError::Cycle(_)), "{circle}");
    let itself = refused(|it| it.currencies[1].tickets.push(soft(1, 0)));
    assert_eq!(itself, GraphError::Cycle(CurrencyId(1)));
    let chain = |length: u64| {
        let mut facts = small();
        facts.currencies.truncate(1);
        for id in 1..=length {
            facts.currencies.push(currency(id, id == length, vec![soft(id - 1, 1)]));
        }
        facts.currencies[length as usize].competes = true;
        Graph::from_facts(&facts)
    };
    let most = PATH_MAX as u64;
    let mut longest = chain(most).expect("as long as may be");
    assert_eq!(longest.value(CurrencyId(most)), WHOLE);
    assert!(matches!(chain(most + 1), Err(GraphError::TooDeep(_))));
    assert!(chain(100_000).is_err());
}

#[test]
fn exchanges_that_are_not_covered_are_refused() {
    let trade = |given, received| {
        refused(|it| {
            it.currencies[1].given = Goods { soft: given, hard: 0 };
            it.currencies[2].received = Goods { soft: received, hard: 0 };
        })
    };
    assert_eq!(trade(60, 61), GraphError::Unbalanced);
    assert_eq!(trade(u64::MAX, u64::MAX), GraphError::Unbalanced);
    assert_eq!(trade(300, 300), GraphError::Uncovered(CurrencyId(1)));
    let overflow = refused(|it| {
        it.currencies[1].given.hard = u64::MAX;
        it.currencies[2].given.hard = 2;
        it.currencies[3].received.hard = 1;
    });
    assert_eq!(overflow, GraphError::Unbalanced);
}

/// Amounts, now and then where bounds are.
fn amount() -> impl Strategy<Value = u64> {
    let extremes =
        prop_oneof![Just(ISSUED_MAX), Just(u64::MAX), Just(1 << 34), Just(1_000_000_000)];
    prop_oneof![60 => 0_u64..8, 40 => 1_u64..=300, 1 => extremes]
}

/// Tickets mostly of earlier currencies and of kinds that may join the two, so that many graphs are sound.
fn tickets(id: u64) -> impl Strategy<Value = Vec<Backing>> {
    let kind = prop_oneof![4 => Just(TicketKind::Soft), 2 => Just(TicketKind::Hard)];
    let funds = (0..id.min(4), kind, amount())
        .prop_map(|(issuer, kind, amount)| ticket(issuer, kind, amount));
    let lends = (4..id.max(5)).prop_map(|issuer| ticket(issuer, TicketKind::Transfer, 1));
    let any_kind =
        prop_oneof![Just(TicketKind::Soft), Just(TicketKind::Hard), Just(TicketKind::Transfer)];
    let anything = (0_u64..12, any_kind, amount())
        .prop_map(|(issuer, kind, amount)| ticket(issuer, kind, amount));
    let one = match id > 4 {
        true => prop_oneof![60 => funds, 4 => lends, 1 => anything].boxed(),
        false => prop_oneof![60 => funds, 1 => anything].boxed(),
    };
    proptest::collection::vec(one, 0..3)
}

fn goods() -> impl Strategy<Value = Goods> {
    let some = (0_u64..3, Just(0)).prop_map(|(soft, hard)| Goods { soft, hard });
    let many = (amount(), amount()).prop_map(|(soft, hard)| Goods { soft, hard });
    prop_oneof![40 => Just(NONE), 20 => some, 1 => many]
}

fn one_currency(id: u64) -> impl Strategy<Value = CurrencyFacts> {
    let is_client = prop::bool::weighted(if id > 3 { 0.99 } else { 0.01 });
    let class = prop_oneof![9 => Just(Class::Host), 1 => Just(Class::Guest)];
    let held = if id == 0 { Just(Vec::new()).boxed() } else { tickets(id).boxed() };
    (is_client, class, any::<bool>(), goods(), held).prop_map(
        move |(is_client, class, competes, given, tickets)| {
            let class = if is_client { class } else { Class::Host };
            let competes = competes && is_client;
            CurrencyFacts {
                id: CurrencyId(id),
                is_client,
                class,
                competes,
                given,
                received: NONE,
                tickets,
            }
        },
    )
}

fn facts() -> impl Strategy<Value = GraphFacts> {
    let memory = prop_oneof![Just(0_u64), Just(1 << 20), amount()];
    let resource = prop_oneof![Just(Resource::CPU), Just(Resource::MEMORY)];
    let currencies: Vec<_> = (0..9).map(one_currency).collect();
    (resource, memory, currencies, 1_usize..9, any::<bool>()).prop_map(
        |(resource, memory_kib, mut currencies, receiver, trades)| {
            // One receives what all others give, or nobody trades.
            let sum = |of: fn(&Goods) -> u64| {
                currencies.iter().fold(0_u64, |sum, it| sum.saturating_add(of(&it.given)))
            };
            let all = Goods { soft: sum(|it| it.soft), hard: sum(|it| it.hard) };
            currencies[0].given = NONE;
            match trades {
                true => currencies[receiver].received = all,
                false => currencies.iter_mut().for_each(|it| it.given = NONE),
            }
            GraphFacts { resource, memory_kib, currencies }
        },
    )
}

/// Asks a graph all that enforcers ask.
fn ask_everything(graph: &mut Graph) -> u128 {
    let ids: Vec<CurrencyId> = graph.nodes().map(|node| node.id).collect();
    let mut active = 0_u128;
    for id in &ids {
        active +=
            u128::from(graph.value(*id)) * u128::from(graph.active_clients().any(|it| it == *id));
        let sure = graph.guaranteed(*id);
        // A currency that receives from one that it funds counts that twice; its clients do not.
        assert!(sure <= 2 * WHOLE, "{id}: {sure}");
        let _ =
            (graph.issued(*id), graph.charges(*id), graph.is_funded(*id), graph.memory_bytes(sure));
        for kind in [TicketKind::Soft, TicketKind::Hard] {
            let _ = graph.charge_way(*id, kind);
        }
    }
    active
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn a_graph_that_is_taken_answers_everything(facts in facts(), toggles in proptest::collection::vec((0_u64..9, any::<bool>()), 0..8)) {
        let Ok(mut graph) = Graph::from_facts(&facts) else { return Ok(()) };
        prop_assert_eq!(&graph.facts(), &facts);
        prop_assert!(ask_everything(&mut graph) <= u128::from(WHOLE));
        for (id, active) in toggles {
            graph.set_active(CurrencyId(id), active);
            prop_assert!(ask_everything(&mut graph) <= u128::from(WHOLE));
        }
    }

    #[test]
    fn bytes_from_anywhere_are_refused_or_sound(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(mut graph) = postcard::from_bytes::<Graph>(&bytes) {
            ask_everything(&mut graph);
        }
    }
}

/// The random graphs have teeth only if many are taken, with exchanges among them.
#[test]
fn many_random_facts_are_sound() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut sound, mut trading) = (0, 0);
    for _ in 0..5_000 {
        let facts = facts().new_tree(&mut runner).expect("a value").current();
        if let Ok(graph) = Graph::from_facts(&facts) {
            sound += 1;
            trading += usize::from(graph.has_exchanges());
        }
    }
    assert!(sound > 500 && trading > 25, "{sound} sound, {trading} trading");
}
