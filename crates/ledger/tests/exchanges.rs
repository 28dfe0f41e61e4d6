//! Exchanges of base tickets: made, covered, undone as one (paper 1, 4.1 to 4.3).

mod common;
use allot_ledger::operation::{
    CancelOffer, ChangeOwner, Clear, DestroyCurrency, EndExchange, Grant, MakeExchange, MakeOffer,
    Release, Renew, SetClass, Unfund, UserChanged,
};

use allot_ledger::{
    Authority, BASE, BadTerms, COVER_ONE, Change, Class, Clearing, CurrencyId, EXCHANGES_MAX, Good,
    Intent, LOANS_MAX, Ledger, Leg, OfferId, Part, Point, Refusal, RefusalKind, Resource, Rights,
    Snapshot, Subject, TicketKind,
};
use common::trades::*;
use common::*;

/// The paper's example: 50 disk tickets of A for 20 memory tickets of B, by the dealer.
fn exchanged() -> (Ledger, CurrencyId, CurrencyId) {
    let mut ledger = Ledger::new(0, 0);
    let (a, b) = (funded(&mut ledger, 1), funded(&mut ledger, 2));
    let of_a = place_offer(&mut ledger, 1, offer(a, disk(), 50, Resource::MEMORY, 20));
    let of_b = place_offer(&mut ledger, 2, offer(b, Resource::MEMORY, 20, disk(), 50));
    let legs = vec![leg(a, b, disk(), 50), leg(b, a, Resource::MEMORY, 20)];
    let exchanges = vec![Clearing { offers: vec![of_a, of_b], legs }];
    perform(&mut ledger, &Authority::System, Intent::from(Clear { exchanges }));
    (ledger, a, b)
}

#[test]
fn four_tickets_come_and_go_together() {
    let (ledger, a, b) = exchanged();
    assert_eq!(ledger.offers().count(), 0, "all or nothing: both are filled");
    assert_eq!((ledger.given(a, &good(disk())), ledger.received(b, &good(disk()))), (50, 50));
    let memory = good(Resource::MEMORY);
    assert_eq!((ledger.given(b, &memory), ledger.received(a, &memory)), (20, 20));
    let issued = ledger.currency(BASE).expect("base").issued_of(&disk());
    assert_eq!((issued.soft, issued.tickets), (320, 2), "what base has issued is what it was");
    let before = ledger.clone();
    let exchange = newest(&ledger);
    let end = Intent::from(EndExchange { exchange });
    for authority in [user(1), user(2), root(), Authority::System] {
        let mut ledger = before.clone();
        let changes = attempt(&mut ledger, &authority, end.clone()).expect("a party may");
        assert!(matches!(&changes[..], [Change::Exchange { after: None, .. }]), "{changes:?}");
        assert_eq!((ledger.given(a, &good(disk())), ledger.received(a, &memory)), (0, 0));
        ledger.undo(changes);
        assert_eq!(ledger, before);
    }
    let mut ledger = before;
    let refusal = refusal(&mut ledger, &user(3), end);
    assert_eq!(refusal.kind(), RefusalKind::Forbidden);
    perform(&mut ledger, &user(2), Intent::from(EndExchange { exchange }));
    let again = attempt(&mut ledger, &user(2), Intent::from(EndExchange { exchange }));
    assert_eq!(again, Err(Refusal::UnknownExchange(exchange)));
}

#[test]
fn whoever_goes_takes_the_exchange_along() {
    let (before, a, b) = exchanged();
    let leaves: [(&str, Vec<Intent>); 3] = [
        ("destroyed", vec![Intent::from(DestroyCurrency { currency: b })]),
        (
            "given away",
            vec![Intent::from(ChangeOwner { currency: a, owner: Some(7), group: None })],
        ),
        (
            "unfunded",
            vec![Intent::from(Unfund {
                holder: a,
                issuer: BASE,
                resource: disk(),
                kind: TicketKind::Soft,
            })],
        ),
    ];
    for (what, intents) in leaves {
        let mut ledger = before.clone();
        let mut changes = Vec::new();
        for intent in intents {
            changes.extend(attempt(&mut ledger, &root(), intent).expect("the superuser may"));
        }
        assert_eq!(ledger.exchanges().count(), 0, "{what}");
        let mut replayed = before.clone();
        replayed.replay(changes.clone()).expect("it fits");
        assert_eq!(replayed, ledger);
        ledger.undo(changes);
        assert_eq!(ledger, before);
    }
}

#[test]
fn clients_take_their_exchanges_and_offers_along() {
    let mut before = Ledger::new(0, 0);
    let (one, two) = (place(&mut before, 1, per_user(1)), place(&mut before, 2, per_user(2)));
    let_give(&mut before, 1, two);
    let legs = vec![leg(one, two, Resource::CPU, 93)];
    perform(&mut before, &user(1), Intent::from(MakeExchange { legs, until_s: Some(5) }));
    place_offer(&mut before, 2, offer(two, Resource::CPU, 10, disk(), 1));
    let to = |uid| {
        Intent::from(UserChanged { client: new_client(2, uid), placements: Some(per_user(uid)) })
    };
    for (intent, kept) in [
        (exit(2), 0),
        (Intent::from(Release { client: two, named: false }), 0),
        (to(9), 0),
        (to(2), 1),
    ] {
        let mut ledger = before.clone();
        perform(
            &mut ledger,
            &if Release::of(&intent).is_some() { root() } else { Authority::System },
            intent.clone(),
        );
        assert_eq!(ledger.exchanges().count(), kept, "{intent:?}");
        assert_eq!(ledger.offers().count(), kept, "{intent:?}");
    }
    // A fork halves what the giver's client is sure of; and inherits none of it.
    let mut ledger = before.clone();
    perform(&mut ledger, &Authority::System, fork(2, 3, 2));
    assert_eq!(ledger.exchanges().count(), 1);
    let child = ledger.client_of(process(3)).expect("a client");
    assert_eq!(ledger.received(child, &good(Resource::CPU)), 0);
    perform(&mut ledger, &Authority::System, fork(1, 4, 1));
    assert_eq!(ledger.exchanges().count(), 0);
}

#[test]
fn a_cover_is_what_the_main_ticket_is_sure_of() {
    let mut ledger = Ledger::new(0, 0);
    let own = funded(&mut ledger, 1);
    let cpu = good(Resource::CPU);
    let hard_cpu = Good { kind: TicketKind::Hard, ..cpu.clone() };
    assert_eq!(ledger.cover(own, &cpu), 150 * COVER_ONE);
    assert_eq!((ledger.spare(own, &cpu), ledger.spare(own, &hard_cpu)), (150, 0));
    perform(&mut ledger, &root(), fund(own, BASE, hard(320)));
    assert_eq!(ledger.cover(own, &hard_cpu), 300 * COVER_ONE, "each kind for itself");
    let [x, y, z] =
        ["x", "y", "z"].map(|name| perform(&mut ledger, &user(1), create(name, 1)).expect("made"));
    perform(&mut ledger, &user(1), fund(x, own, soft(1)));
    perform(&mut ledger, &user(1), fund(y, own, soft(2)));
    perform(&mut ledger, &user(1), fund(z, own, hard(250)));
    // Three quarters of 150 are left to the soft ones.
    assert_eq!(ledger.cover(x, &cpu), 75 * COVER_ONE / 2);
    assert_eq!(ledger.cover(y, &cpu), 75 * COVER_ONE);
    assert_eq!(ledger.cover(z, &cpu), 75 * COVER_ONE / 2);
    assert_eq!(ledger.cover(z, &hard_cpu), 75 * COVER_ONE);
    // Not their sum, but the greater.
    perform(&mut ledger, &user(1), fund(z, x, soft(1)));
    assert_eq!(ledger.cover(z, &cpu), 75 * COVER_ONE / 2);
    // What is received covers nothing, what the issuer gives is nobody else's cover.
    let other = funded(&mut ledger, 2);
    let_give(&mut ledger, 2, y);
    let lend = |giver, receiver, amount| {
        Intent::from(MakeExchange {
            legs: vec![leg(giver, receiver, Resource::CPU, amount)],
            until_s: None,
        })
    };
    perform(&mut ledger, &user(2), lend(other, y, 60));
    assert_eq!(ledger.cover(y, &cpu), 75 * COVER_ONE);
    perform(&mut ledger, &user(1), lend(own, other, 40));
    assert_eq!(ledger.cover(y, &cpu), 55 * COVER_ONE);
    // Half a ticket is no ticket.
    perform(&mut ledger, &user(1), fund(x, own, soft(4)));
    assert_eq!(ledger.cover(y, &cpu), 55 * COVER_ONE / 2);
    assert_eq!((ledger.spare(y, &cpu), ledger.spare(x, &cpu)), (27, 55));
}

#[test]
fn guests_cover_nothing() {
    let mut ledger = Ledger::new(0, 0);
    let one = place(&mut ledger, 1, per_user(1));
    let two = place(&mut ledger, 2, per_user(2));
    let_give(&mut ledger, 1, two);
    let legs = vec![leg(one, two, Resource::CPU, 10)];
    perform(
        &mut ledger,
        &user(1),
        Intent::from(MakeExchange { legs: legs.clone(), until_s: None }),
    );
    perform(&mut ledger, &user(2), Intent::from(SetClass { client: two, class: Class::Guest }));
    assert_eq!(ledger.exchanges().count(), 1, "who receives may be one");
    perform(&mut ledger, &user(1), Intent::from(SetClass { client: one, class: Class::Guest }));
    assert_eq!(ledger.exchanges().count(), 0);
    let lend = Intent::from(MakeExchange { legs, until_s: None });
    let refusal = refusal(&mut ledger, &user(1), lend);
    assert!(matches!(refusal, Refusal::Uncovered { spare: 0, asked: 10, .. }), "{refusal:?}");
}

#[test]
fn the_newest_are_undone_until_the_rest_is_covered() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b) = (funded(&mut ledger, 1), funded(&mut ledger, 2));
    let inner = perform(&mut ledger, &user(1), create("inner", 1)).expect("made");
    perform(&mut ledger, &user(1), fund(inner, a, soft(1)));
    let lend = |giver, amount| {
        Intent::from(MakeExchange {
            legs: vec![leg(giver, b, Resource::CPU, amount)],
            until_s: None,
        })
    };
    perform(&mut ledger, &user(1), lend(inner, 30));
    for amount in [10, 20, 25] {
        perform(&mut ledger, &user(1), lend(a, amount));
    }
    let given = |ledger: &Ledger| {
        (ledger.given(a, &good(Resource::CPU)), ledger.given(inner, &good(Resource::CPU)))
    };
    assert_eq!(given(&ledger), (55, 30));
    // 45 cover 10 + 20 of a's own; then 15 are left, which do not cover what inner gives.
    let changes =
        attempt(&mut ledger, &root(), fund(a, BASE, soft(48))).expect("the superuser may");
    assert_eq!(given(&ledger), (30, 0));
    assert_eq!(changes.len(), 3, "the ticket, the newest of a's, inner's: {changes:?}");
    // 60 cover all of a's own.
    ledger.undo(changes);
    perform(&mut ledger, &root(), fund(a, BASE, soft(64)));
    assert_eq!(given(&ledger), (55, 0));
    let mut ledger = exchanged().0;
    let a = ledger.named(1, "u1").expect("a");
    perform(&mut ledger, &root(), fund(a, BASE, of(disk(), TicketKind::Soft, 54)));
    assert_eq!(ledger.exchanges().count(), 1);
    perform(&mut ledger, &root(), fund(a, BASE, of(disk(), TicketKind::Soft, 53)));
    assert_eq!(ledger.exchanges().count(), 0, "who gives keeps a sixteenth");
}

#[test]
fn parts_are_filled_and_the_rest_stays() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b, c) = (funded(&mut ledger, 1), funded(&mut ledger, 2), funded(&mut ledger, 3));
    let d = funded(&mut ledger, 4);
    let mut big = partial(offer(a, disk(), 60, Resource::CPU, 30));
    big.until_s = Some(500);
    let big = place_offer(&mut ledger, 1, big);
    let from_b = place_offer(&mut ledger, 2, offer(b, Resource::CPU, 10, disk(), 20));
    let mut last = offer(c, Resource::CPU, 20, disk(), 40);
    last.until_s = Some(400);
    let from_c = place_offer(&mut ledger, 3, last);
    let second = place_offer(&mut ledger, 3, offer(c, Resource::CPU, 20, disk(), 40));
    let with_b = Clearing {
        offers: vec![big, from_b],
        legs: vec![leg(a, b, disk(), 20), leg(b, a, Resource::CPU, 10)],
    };
    let with_c = Clearing {
        offers: vec![big, from_c],
        legs: vec![leg(a, c, disk(), 40), leg(c, a, Resource::CPU, 20)],
    };
    let before = ledger.clone();
    let clear = |exchanges: &[&Clearing]| {
        Intent::from(Clear { exchanges: exchanges.iter().map(|it| (*it).clone()).collect() })
    };
    perform(&mut ledger, &Authority::System, clear(&[&with_b]));
    let rest = ledger.offer(big).expect("a rest");
    assert_eq!(rest.terms.points, [Point { give: 40, want: 20 }]);
    assert_eq!(ledger.offer(from_b), None);
    let mut ledger = before.clone();
    let changes =
        attempt(&mut ledger, &Authority::System, clear(&[&with_b, &with_c])).expect("both at once");
    assert_eq!(ledger.offers().count(), 1, "the one that was not named");
    let untils: Vec<_> = ledger.exchanges().map(|(_, it)| it.until_s).collect();
    assert_eq!(untils, [Some(500), Some(400)], "the first that one of its offers names");
    ledger.undo(changes);
    assert_eq!(ledger, before);
    // One that does not fit refuses all.
    let spoilt = |how: &dyn Fn(&mut Clearing)| {
        let mut spoilt = with_c.clone();
        how(&mut spoilt);
        let mut ledger = before.clone();
        refusal(&mut ledger, &Authority::System, clear(&[&with_b, &spoilt]))
    };
    let bad = |why: &'static str| Refusal::BadClearing { index: 1, why };
    let worse = spoilt(&|it| it.legs[1].amount = 19);
    assert_eq!(worse, bad("an offer does not accept what its party gets for what it gives"));
    let more = spoilt(&|it| it.legs[0].amount = 41);
    assert_eq!(more, bad("an offer does not accept what its party gets for what it gives"));
    let else_ = bad("a party gives or gets what it did not offer");
    assert_eq!(spoilt(&|it| it.legs[0].good = good(Resource::MEMORY)), else_);
    assert_eq!(
        spoilt(&|it| it.legs.push(leg(d, b, Resource::MEMORY, 1))),
        bad("a leg is of somebody without an offer")
    );
    assert_eq!(spoilt(&|it| it.offers.push(big)), Refusal::UnknownOffer(big), "nothing is left");
    let twice = bad("a party takes part by two offers");
    assert_eq!(spoilt(&|it| it.offers.push(second)), twice);
    assert_eq!(spoilt(&|it| it.offers[1] = from_b), Refusal::UnknownOffer(from_b));
    let mut ledger = before.clone();
    let by_caller = refusal(&mut ledger, &root(), clear(&[&with_b]));
    assert_eq!(by_caller.kind(), RefusalKind::Forbidden, "not even the superuser is the dealer");
}

#[test]
fn a_batch_is_covered_as_a_whole() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b) = (funded(&mut ledger, 1), funded(&mut ledger, 2));
    // Each of them could be covered alone.
    let offers: Vec<OfferId> = (0..2)
        .map(|_| place_offer(&mut ledger, 1, offer(a, disk(), 80, Resource::CPU, 10)))
        .collect();
    let theirs: Vec<OfferId> = (0..2)
        .map(|_| place_offer(&mut ledger, 2, offer(b, Resource::CPU, 10, disk(), 80)))
        .collect();
    let clearing = |index: usize| Clearing {
        offers: vec![offers[index], theirs[index]],
        legs: vec![leg(a, b, disk(), 80), leg(b, a, Resource::CPU, 10)],
    };
    let both = Intent::from(Clear { exchanges: vec![clearing(0), clearing(1)] });
    let refusal = refusal(&mut ledger, &Authority::System, both);
    assert_eq!(
        refusal,
        Refusal::Uncovered { giver: a, good: good(disk()), spare: 150, asked: 160 }
    );
    perform(&mut ledger, &Authority::System, Intent::from(Clear { exchanges: vec![clearing(0)] }));
    assert_eq!(ledger.offers().count(), 2, "what cannot be covered now stays and waits");
}

#[test]
fn three_trade_in_a_circle() {
    let mut ledger = Ledger::new(0, 0);
    let parties = [1, 2, 3].map(|uid| funded(&mut ledger, uid));
    let goods = [Resource::CPU, disk(), Resource::MEMORY];
    let offers: Vec<OfferId> = (0..3)
        .map(|i| {
            let offer = offer(parties[i], goods[i].clone(), 10, goods[(i + 1) % 3].clone(), 10);
            place_offer(&mut ledger, 1 + i as u32, offer)
        })
        .collect();
    // Who wants a good gets it from who gives it.
    let legs: Vec<Leg> = (0..3)
        .map(|i| leg(parties[(i + 1) % 3], parties[i], goods[(i + 1) % 3].clone(), 10))
        .collect();
    perform(
        &mut ledger,
        &Authority::System,
        Intent::from(Clear { exchanges: vec![Clearing { offers, legs }] }),
    );
    let exchange = newest(&ledger);
    perform(&mut ledger, &user(3), Intent::from(EndExchange { exchange }));
    assert_eq!(parties.map(|it| ledger.received(it, &good(Resource::CPU))), [0; 3]);
}

#[test]
fn only_who_may_gives_and_offers() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b) = (funded(&mut ledger, 1), funded(&mut ledger, 2));
    let lend = |amount| {
        Intent::from(MakeExchange { legs: vec![leg(a, b, Resource::CPU, amount)], until_s: None })
    };
    let swap = Intent::from(MakeExchange {
        legs: vec![leg(a, b, Resource::CPU, 1), leg(b, a, disk(), 1)],
        until_s: None,
    });
    assert_eq!(refusal(&mut ledger, &user(2), lend(1)).kind(), RefusalKind::Forbidden);
    assert_eq!(refusal(&mut ledger, &user(1), swap.clone()).kind(), RefusalKind::Forbidden);
    let theirs = Intent::from(MakeOffer { offer: offer(b, Resource::CPU, 1, disk(), 1) });
    assert_eq!(refusal(&mut ledger, &user(1), theirs.clone()).kind(), RefusalKind::Forbidden);
    let subject = Subject::Uid(1);
    let grant = Intent::from(Grant { currency: b, subject, rights: Rights::CHANGE });
    perform(&mut ledger, &user(2), grant);
    perform(&mut ledger, &user(1), swap);
    perform(&mut ledger, &user(1), theirs);
    let uncovered = refusal(&mut ledger, &user(1), lend(150));
    assert!(matches!(uncovered, Refusal::Uncovered { spare: 149, asked: 150, .. }), "{uncovered}");
    let base = Intent::from(MakeExchange { legs: vec![leg(BASE, b, disk(), 1)], until_s: None });
    assert_eq!(refusal(&mut ledger, &root(), base), Refusal::BaseTrades);
    for legs in [vec![], vec![leg(a, a, disk(), 1)], vec![leg(a, b, disk(), 0)]] {
        let intent = Intent::from(MakeExchange { legs, until_s: None });
        let refusal = refusal(&mut ledger, &user(1), intent);
        assert!(matches!(refusal, Refusal::BadExchange(_)), "{refusal:?}");
    }
    let same = Intent::from(MakeOffer { offer: offer(a, disk(), 1, disk(), 1) });
    let same = refusal(&mut ledger, &user(1), same);
    assert_eq!(same, Refusal::BadTerms(BadTerms::Same(disk())));
}

#[test]
fn nobody_fills_the_ledger_or_another_s_place_in_it() {
    let mut ledger = Ledger::new(0, 0);
    let (a, b, c) = (funded(&mut ledger, 1), funded(&mut ledger, 2), funded(&mut ledger, 3));
    let most = Part::Offer.quota().per_person;
    for _ in 0..most {
        place_offer(&mut ledger, 1, offer(a, disk(), 1, Resource::CPU, 1));
    }
    let another = Intent::from(MakeOffer { offer: offer(a, disk(), 1, Resource::CPU, 1) });
    let full = Refusal::QuotaOfPerson { uid: 1, part: Part::Offer, most };
    assert_eq!(refusal(&mut ledger, &user(1), another.clone()), full);
    perform(&mut ledger, &root(), another);
    // Given away, it takes no place of the former owner.
    perform(
        &mut ledger,
        &root(),
        Intent::from(ChangeOwner { currency: a, owner: Some(9), group: None }),
    );
    let anew = funded(&mut ledger, 1);
    place_offer(&mut ledger, 1, offer(anew, disk(), 1, Resource::CPU, 1));
    // Lenders cannot keep who is lent to from trading.
    perform(&mut ledger, &root(), fund(a, BASE, soft(100_000)));
    let lend =
        Intent::from(MakeExchange { legs: vec![leg(a, b, Resource::CPU, 1)], until_s: None });
    for _ in 0..LOANS_MAX {
        perform(&mut ledger, &user(9), lend.clone());
    }
    let full = refusal(&mut ledger, &user(9), lend);
    assert_eq!(full, Refusal::TooManyExchanges { currency: b, most: LOANS_MAX });
    let back =
        Intent::from(MakeExchange { legs: vec![leg(b, c, Resource::CPU, 1)], until_s: None });
    perform(&mut ledger, &user(2), back);
    // The lender itself gave to one more.
    let lend = Intent::from(MakeExchange { legs: vec![leg(a, c, disk(), 1)], until_s: None });
    perform(&mut ledger, &root(), fund(a, BASE, of(disk(), TicketKind::Soft, 100_000)));
    perform(&mut ledger, &user(9), lend);
    const { assert!(EXCHANGES_MAX > LOANS_MAX) };
}

#[test]
fn many_currencies_are_not_many_places_for_exchanges() {
    let mut ledger = Ledger::new(0, 0);
    let pair = |ledger: &mut Ledger, number: usize| {
        let mut rich = |owner: u32| {
            let name = format!("c{number}");
            let id = perform(ledger, &root(), create(&name, owner)).expect("made");
            for resource in [Resource::CPU, disk()] {
                perform(ledger, &root(), fund(id, BASE, of(resource, TicketKind::Soft, 2000)));
            }
            id
        };
        // The partner is the superuser's, who may have any number.
        (rich(1), rich(0))
    };
    let swap = |(own, partner)| {
        Intent::from(MakeExchange {
            legs: vec![leg(own, partner, disk(), 1), leg(partner, own, Resource::CPU, 1)],
            until_s: None,
        })
    };
    let most = Part::Exchange.quota().per_person;
    let pairs: Vec<_> = (0..most / EXCHANGES_MAX)
        .map(|number| {
            let pair = pair(&mut ledger, number);
            for _ in 0..EXCHANGES_MAX {
                perform(&mut ledger, &root(), swap(pair));
            }
            assert!(!ledger.may_exchange(pair.0));
            pair
        })
        .collect();
    let another = pair(&mut ledger, pairs.len());
    assert!(!ledger.may_exchange(another.0) && ledger.may_exchange(another.1));
    let full = Refusal::QuotaOfPerson { uid: 1, part: Part::Exchange, most };
    assert_eq!(refusal(&mut ledger, &root(), swap(another)), full);
    // One that is gone leaves its places to the others.
    let own = pairs[0].0;
    perform(&mut ledger, &root(), Intent::from(DestroyCurrency { currency: own }));
    assert!(ledger.may_exchange(another.0));
    perform(&mut ledger, &root(), swap(another));
}

#[test]
fn what_is_written_down_is_read() {
    let (mut ledger, a, b) = exchanged();
    place_offer(&mut ledger, 1, partial(offer(a, Resource::CPU, 3, disk(), 4)));
    let legs = vec![leg(a, b, Resource::CPU, 3)];
    perform(&mut ledger, &user(1), Intent::from(MakeExchange { legs, until_s: Some(9) }));
    let text = serde_json::to_string(&ledger.snapshot()).expect("it can be written");
    let snapshot: Snapshot = serde_json::from_str(&text).expect("and read");
    let restored = Ledger::restore(snapshot).expect("it fits");
    assert_eq!(restored, ledger);
    assert_eq!(restored.exchanges_of(b).count(), 2);
    // The ids of what is over are not used again either.
    let mut ledger = restored;
    let last = newest(&ledger);
    perform(&mut ledger, &user(1), Intent::from(EndExchange { exchange: last }));
    let mut ledger = Ledger::restore(ledger.snapshot()).expect("it fits");
    let legs = vec![leg(a, b, Resource::CPU, 3)];
    perform(&mut ledger, &user(1), Intent::from(MakeExchange { legs, until_s: None }));
    assert!(newest(&ledger) > last);
    let intents = [
        Intent::from(MakeOffer { offer: partial(offer(a, Resource::CPU, 3, disk(), 4)) }),
        Intent::from(CancelOffer { offer: OfferId(3) }),
        Intent::from(MakeExchange { legs: vec![leg(a, b, disk(), 1)], until_s: Some(1) }),
        Intent::from(Clear {
            exchanges: vec![Clearing {
                offers: vec![OfferId(1)],
                legs: vec![leg(a, b, disk(), 1)],
            }],
        }),
        Intent::from(EndExchange { exchange: last }),
        Intent::from(Renew { exchange: last, party: a, until_s: Some(7) }),
        Intent::from(Renew { exchange: last, party: a, until_s: None }),
    ];
    for intent in intents {
        let text = serde_json::to_string(&intent).expect("it can be written");
        assert_eq!(serde_json::from_str::<Intent>(&text).expect("and read"), intent, "{text}");
    }
}

#[test]
fn spoilt_exchanges_do_not_fit() {
    let (ledger, a, b) = exchanged();
    let misfit = |what: &str, spoil: &dyn Fn(&mut Snapshot)| {
        let mut spoilt = ledger.snapshot();
        spoil(&mut spoilt);
        let misfit = Ledger::restore(spoilt).expect_err("spoilt it does not");
        assert!(misfit.why.contains(what), "{misfit}");
    };
    misfit("gives more disk:sda than it covers", &|it| it.exchanges[0].1.legs[0].amount = 151);
    misfit("cannot exchange", &|it| it.exchanges[0].1.legs[0].receiver = CurrencyId(99));
    misfit("cannot exchange", &|it| it.exchanges[0].1.legs[0].receiver = BASE);
    misfit("nobody gives", &|it| it.exchanges[0].1.legs[0].receiver = a);
    misfit("is not what it was", &|it| {
        let again = it.exchanges[0].clone();
        it.exchanges.push(again);
    });
    misfit("none that can be made", &|it| {
        it.offers.push((OfferId(9), offer(BASE, disk(), 1, Resource::CPU, 1)));
    });
    misfit("none that can be made", &|it| {
        it.offers.push((OfferId(9), offer(b, disk(), 1, disk(), 1)));
    });
    // Nor is a party forgotten.
    let mut forgetful = ledger.clone();
    let record = ledger.currency(b).expect("b").record.clone();
    let mut changes: Vec<Change> = ledger
        .backing(b)
        .map(|(id, it)| Change::Ticket { id, before: Some(it.clone()), after: None })
        .collect();
    changes.push(Change::Currency { id: b, before: Some(Box::new(record)), after: None });
    let why = forgetful.replay(changes).expect_err("it has an exchange").why;
    assert!(why.contains("removed with"), "{why}");
}
