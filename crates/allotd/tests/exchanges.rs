//! Offers, the dealer and exchanges, as programs meet them.

mod common;

use common::{Daemon, wait_for};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use wire::{
    Amount, Client, ClientError, CurrencyRef, Good, LegRef, MarketView, OfferPoint, Operation,
    OperationResult, TicketKind,
};

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

fn good(resource: &str) -> Good {
    Good { resource: resource.to_owned(), kind: TicketKind::Soft }
}

fn fund(currency: &str, resource: &str, amount: u64) -> Operation {
    let amount = Amount { resource: resource.to_owned(), kind: TicketKind::Soft, amount };
    Operation::Fund { currency: currency.into(), from: "base".into(), amount }
}

fn offer(party: Option<&str>, gives: &str, wants: &str, give: u64, want: u64) -> Operation {
    Operation::Offer {
        party: party.map(CurrencyRef::from),
        gives: good(gives),
        wants: good(wants),
        points: vec![OfferPoint { give, want }],
        partial: false,
        least: 0,
        most: None,
        until_s: None,
        lease: None,
    }
}

fn lend(from: &str, to: &str, amount: u64, until_s: Option<u64>) -> Operation {
    let (from, to) = (from.into(), to.into());
    Operation::Exchange { legs: vec![LegRef { from, to, good: good("cpu"), amount }], until_s }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn one(client: &Client, operation: Operation) -> OperationResult {
    client.operate(operation).expect("it is allowed").results.remove(0)
}

/// Two currencies with 160 cpu and disk base tickets each.
fn two(daemon: &Daemon) -> Client {
    let client = daemon.client();
    for name in ["a", "b"] {
        let fund = |resource| fund(name, resource, 160);
        client.operate_all(vec![create(name), fund("cpu"), fund("disk:sda")]).expect("made");
    }
    client
}

fn values(client: &Client, name: &str, resource: &str) -> (f64, i64) {
    let ledger = client.ledger().expect("a ledger");
    let currency = ledger.currencies.iter().find(|it| it.name == name).expect("it is there");
    let value = currency.resources.iter().find(|it| it.resource == resource).expect("tickets");
    (value.guaranteed, value.exchanged_soft)
}

#[test]
fn the_dealer_clears_and_what_it_did_survives() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let client = two(&daemon);
    let mut events = client.events(None).expect("a stream");
    let first = one(&client, offer(Some("a"), "disk:sda", "cpu", 100, 20));
    assert!(first.offer.is_some() && first.conflicts.is_empty(), "{first:?}");
    // Twice as much as the first gives: they meet but for the rate.
    let dear = one(&client, offer(Some("b"), "cpu", "disk:sda", 10, 100));
    assert_eq!(dear.conflicts.len(), 1, "{dear:?}");
    assert_eq!(dear.conflicts[0].offer.id, first.offer.expect("an offer"));
    assert_eq!(dear.conflicts[0].gap_millionths, 1_000_000);
    client.operate(Operation::CancelOffer { offer: dear.offer.expect("one") }).expect("cancelled");
    assert_eq!(client.market().expect("a market").exchanges, []);
    one(&client, offer(Some("b"), "cpu", "disk:sda", 40, 50));
    wait_for("the dealer", || !client.market().expect("a market").exchanges.is_empty());
    let market = client.market().expect("a market");
    assert_eq!(market.offers, [], "both were all or nothing");
    let exchange = &market.exchanges[0];
    let given = |resource: &str| {
        let leg = exchange.legs.iter().find(|leg| leg.good.resource == resource);
        leg.map(|leg| (leg.giver_name.as_str(), leg.receiver_name.as_str(), leg.amount))
    };
    let (disk, cpu) = (given("disk:sda").expect("a leg"), given("cpu").expect("a leg"));
    assert_eq!((disk.0, disk.1, cpu.0, cpu.1), ("a", "b", "b", "a"));
    assert!((50..=100).contains(&disk.2) && (20..=40).contains(&cpu.2), "{disk:?} {cpu:?}");
    assert_eq!((market.prices.len(), market.prices[0].trades), (1, 1));
    let told = events.find(|event| !event.as_ref().expect("an event").exchanges.is_empty());
    let told = told.expect("an event").expect("an event");
    assert_eq!((told.uid, told.exchanges.as_slice()), (None, &[exchange.id][..]), "{told:?}");
    // Half of the machine, and what was exchanged.
    let (sure, exchanged) = values(&client, "a", "disk:sda");
    assert_eq!(exchanged, -i64::try_from(disk.2).expect("small"));
    assert!((sure - (160.0 - disk.2 as f64) / 320.0).abs() < 1e-9, "{sure}");
    daemon.kill();
    daemon.launch();
    let client = daemon.client();
    assert_eq!(client.market().expect("a market").exchanges, market.exchanges);
    client.operate(Operation::EndExchange { exchange: exchange.id }).expect("ended");
    assert_eq!(values(&client, "a", "disk:sda"), (0.5, 0));
}

/// The dealer asks what each party could give by itself; who is funded by another gives what the
/// other has.
#[test]
fn what_cannot_all_be_given_keeps_no_others_from_trading() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = two(&daemon);
    let mut at_once = Vec::new();
    for name in ["c", "d", "e"] {
        at_once.extend([create(name), fund(name, "cpu", 160), fund(name, "disk:sda", 160)]);
    }
    at_once.push(create("of-a"));
    let amount = Amount { resource: "disk:sda".to_owned(), kind: TicketKind::Soft, amount: 10 };
    at_once.push(Operation::Fund { currency: "of-a".into(), from: "a".into(), amount });
    // Before anybody clears: all in one step.
    for name in ["a", "of-a", "b"] {
        at_once.push(offer(Some(name), "disk:sda", "cpu", 100, 100));
    }
    for name in ["c", "d", "e"] {
        at_once.push(offer(Some(name), "cpu", "disk:sda", 100, 100));
    }
    client.operate_all(at_once).expect("each could");
    wait_for("the dealer", || client.market().expect("a market").exchanges.len() == 2);
    let market = client.market().expect("a market");
    let givers: BTreeSet<&str> = market
        .exchanges
        .iter()
        .flat_map(|exchange| &exchange.legs)
        .map(|leg| leg.giver_name.as_str())
        .collect();
    assert!(
        givers.contains("b") && (givers.contains("a") != givers.contains("of-a")),
        "{givers:?}"
    );
    assert_eq!(market.offers.len(), 2, "the other, and who would have traded with it");
}

#[test]
fn loans_end_when_their_time_is_over_or_nothing_covers_them() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let client = two(&daemon);
    let short = one(&client, lend("a", "b", 10, Some(now_s() + 20))).exchange.expect("one");
    let long = one(&client, lend("a", "b", 90, Some(now_s() + 3600))).exchange.expect("one");
    let there = |client: &Client| -> Vec<u64> {
        client.market().expect("a market").exchanges.iter().map(|it| it.id).collect()
    };
    assert!(there(&client).ends_with(&[long]), "{short} may be over on a machine this slow");
    daemon.kill();
    daemon.launch();
    let client = daemon.client();
    wait_for("the end of a loan", || there(&client) == [long]);
    // Base tickets that fall below what is lent take it along, and say so.
    let mut events = client.events(None).expect("a stream");
    client.operate(fund("a", "cpu", 50)).expect("funded");
    assert_eq!(there(&client), [0; 0]);
    let told = events.next().expect("an event").expect("an event");
    assert!(told.text.ends_with(&format!("that ended exchange {long}")), "{}", told.text);
    for (operation, code) in [
        (lend("a", "b", 51, None), "conflict"),
        (lend("a", "base", 1, None), "conflict"),
        (lend("a", "b", 1, Some(5)), "invalid"),
        (lend("a", "a", 1, None), "invalid"),
        (Operation::EndExchange { exchange: long }, "unknown"),
        (Operation::CancelOffer { offer: 77 }, "unknown"),
        (offer(Some("a"), "cpu", "cpu", 1, 1), "invalid"),
    ] {
        match client.operate(operation.clone()) {
            Err(ClientError::Refused(trouble)) => {
                assert_eq!(trouble.code.as_str(), code, "{operation:?}: {trouble:?}");
            }
            other => panic!("{operation:?}: {other:?}"),
        }
    }
}

/// Paper 1, 5.7: `exch_offer` is about who calls it.
#[test]
fn a_program_offers_for_itself() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = two(&daemon);
    let funding = ["cpu", "disk:sda"].map(|resource| Amount {
        resource: resource.to_owned(),
        kind: TicketKind::Soft,
        amount: 100,
    });
    let adopt = Operation::Adopt {
        pid: None,
        start_time_ticks: None,
        from: None,
        funding: Some(funding.to_vec()),
    };
    let own = one(&client, adopt).created.expect("a client");
    one(&client, offer(None, "cpu", "disk:sda", 50, 30));
    let offers = client.market().expect("a market").offers;
    assert_eq!((offers.len(), offers[0].party), (1, own));
    one(&client, offer(Some("b"), "disk:sda", "cpu", 30, 50));
    wait_for("the dealer", || {
        let ledger = client.ledger().expect("a ledger");
        let own = ledger.currencies.iter().find(|it| it.id == own).expect("it is there");
        own.resources.iter().any(|it| it.resource == "disk:sda" && it.exchanged_soft == 30)
    });
}

/// Rounds of killing; the environment asks for more (`make soak`).
fn rounds() -> u64 {
    std::env::var("ALLOT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Each offer that was acknowledged stands or is part of an exchange, and that has all its legs.
fn check(market: &MarketView, acknowledged: &BTreeSet<u64>) {
    let standing: BTreeSet<u64> = market.offers.iter().map(|offer| offer.id).collect();
    let filled: Vec<u64> =
        market.exchanges.iter().flat_map(|exchange| exchange.offers.clone()).collect();
    let once: BTreeSet<u64> = filled.iter().copied().collect();
    assert_eq!(once.len(), filled.len(), "an offer that is all or nothing is filled once");
    for id in acknowledged {
        let (stands, is_filled) = (standing.contains(id), once.contains(id));
        assert!(stands != is_filled, "offer {id} stands: {stands}, is filled: {is_filled}");
    }
    for exchange in &market.exchanges {
        assert_eq!((exchange.legs.len(), exchange.offers.len()), (2, 2), "{exchange:?}");
        let [one, other] = &exchange.legs[..] else { panic!("{exchange:?}") };
        assert_eq!((one.giver, one.receiver), (other.receiver, other.giver));
        assert_eq!((one.amount, other.amount), (1, 1));
    }
}

#[test]
fn killed_at_any_moment_a_clearing_is_whole_or_not_there() {
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    for name in ["a", "b"] {
        let fund = |resource| fund(name, resource, 1_000_000);
        client.operate_all(vec![create(name), fund("cpu"), fund("disk:sda")]).expect("made");
    }
    let acknowledged: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let mut cleared = 0;
    for round in 0..rounds() {
        let stop = Arc::new(AtomicBool::new(false));
        let loads = ["a", "b"].map(|party| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let socket = daemon.socket();
            std::thread::spawn(move || {
                let client = Client::new(socket);
                let (gives, wants) =
                    if party == "a" { ("cpu", "disk:sda") } else { ("disk:sda", "cpu") };
                for _ in 0..60 {
                    let offer = offer(Some(party), gives, wants, 1, 1);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match client.operate(offer) {
                        Ok(done) => {
                            let id = done.results[0].offer.expect("an offer");
                            acknowledged.lock().expect("a lock").insert(id);
                        }
                        Err(_) => return,
                    }
                }
            })
        });
        // Once after a clearing; else around the moment at which one is due, a second after the one before.
        if round == 0 {
            let market = || daemon.client().market().expect("alive");
            wait_for("a clearing", || !market().exchanges.is_empty());
        }
        std::thread::sleep(Duration::from_millis(700 + round * 137 % 600));
        daemon.kill();
        stop.store(true, Ordering::Relaxed);
        loads.into_iter().for_each(|load| load.join().expect("a load"));
        daemon.launch();
        let market = daemon.client().market().expect("alive");
        let mut acknowledged = acknowledged.lock().expect("a lock");
        check(&market, &acknowledged);
        cleared += market.exchanges.len();
        // All over again: a party has only so many.
        acknowledged.clear();
        let end = market.exchanges.iter().map(|it| Operation::EndExchange { exchange: it.id });
        let cancel = market.offers.iter().map(|it| Operation::CancelOffer { offer: it.id });
        for operation in end.chain(cancel) {
            // The dealer may have been faster than the withdrawal.
            let _ = daemon.client().operate(operation);
        }
        for exchange in daemon.client().market().expect("alive").exchanges {
            daemon
                .client()
                .operate(Operation::EndExchange { exchange: exchange.id })
                .expect("ended");
        }
    }
    eprintln!("{cleared} exchanges were made");
    assert!(cleared > 0, "no clearing was made");
    assert!(daemon.stop().success());
}
