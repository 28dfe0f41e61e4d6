//! Theorem 2 and, on the way, 1, 3 and 4: random users with random rights do random things.
//! A failure prints the seed and the shortest sequence found.

use allot_sim::adversary::{Audit, Tally, moves, play, shrink, trace_of};
use allot_sim::due::{Party, dues, loss};
use allot_sim::orders;
use ledger::operation::{CreateCurrency, Fork, Fund, Grant, Nice};
use ledger::{
    Authority, BASE, Caller, Change, Funding, Intent, Ledger, Mode, Resource, Rights, Subject,
    Ticket, TicketId, TicketKind, decide,
};

fn many(seeds: std::ops::Range<u64>, audit: Audit) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if let Err(found) = play(seed, audit, &mut tally) {
            panic!("{found}");
        }
    }
    tally
}

#[test]
fn no_user_lowers_what_another_is_due() {
    let tally = many(0..6_000, Audit::AtEnd);
    // The test has teeth only if things happen.
    assert!(tally.promises > 100_000, "{tally:?}");
    for (kind, (applied, refused)) in &tally.operations {
        assert!(*applied > 100, "{kind}: {applied} applied, {refused} refused");
    }
    assert_eq!(tally.operations.len(), 29, "{tally:?}");
    eprintln!("{tally:?}");
}

#[test]
fn every_step_conserves_keeps_reservations_and_the_books() {
    let tally = many(1_000_000..1_000_400, Audit::Always);
    assert!(tally.sequences == 400);
}

/// The definition of what is due must notice when a user gets what the brokers exist to refuse.
#[test]
fn an_issue_that_the_broker_should_refuse_is_a_loss_to_others() {
    let mut ledger = Ledger::new(0, 0);
    let mut by = |uid: u32, intent: Intent| {
        let caller = Caller { uid, gid: uid, groups: vec![], process: None };
        let authorised = decide(&ledger, Authority::Caller(caller), intent).expect("allowed");
        ledger.apply(authorised)
    };
    let mode: Mode = Mode::PRIVATE;
    let create = |name: &str, owner| {
        Intent::from(CreateCurrency { name: name.to_owned(), owner, group: owner, mode })
    };
    let soft = |amount| Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount };
    let made = |changes: Vec<Change>| match &changes[..] {
        [Change::Currency { id, .. }] => *id,
        other => panic!("{other:?}"),
    };
    let attacker = made(by(1, create("attacker", 1)));
    let victim = made(by(2, create("victim", 2)));
    by(0, Intent::from(Fund { holder: attacker, issuer: BASE, funding: soft(100) }));
    by(0, Intent::from(Fund { holder: victim, issuer: BASE, funding: soft(100) }));
    let party = Party { uid: 1, groups: [1].into(), processes: [].into(), paths: vec![] };
    let before = dues(&ledger, &party);
    assert_eq!(before.len(), 1, "half of the machine is due to the victim: {before:?}");
    // As if the broker had let uid 1 raise its own base tickets.
    let (id, ticket) = ledger.backing(attacker).next().expect("its base ticket");
    let (id, ticket): (TicketId, _) = (id, ticket.clone());
    let after = Some(Ticket { amount: 101, ..ticket.clone() });
    let raise = Change::Ticket { id, before: Some(ticket), after };
    ledger.replay(vec![raise.clone()]).expect("it fits");
    let found = loss(&before, &dues(&ledger, &party)).expect("a loss");
    assert!(found.contains("was due 1/2") && found.contains("is due 100/201"), "{found}");
    ledger.undo(vec![raise]);
    assert_eq!(loss(&before, &dues(&ledger, &party)), None);
    // And where uid 1 may issue, nothing was due against it.
    let caller = Caller { uid: 0, gid: 0, groups: vec![], process: None };
    let grant =
        Intent::from(Grant { currency: BASE, subject: Subject::Uid(1), rights: Rights::ISSUE });
    let authorised = decide(&ledger, Authority::Caller(caller), grant).expect("allowed");
    ledger.apply(authorised);
    assert!(dues(&ledger, &party).is_empty());
}

/// A failing sequence is shrunk to the few moves that it needs. Here what "fails" is a sequence
/// in which a niced process forks.
#[test]
fn shrinking_leaves_what_is_needed() {
    let niced_fork = |seed: u64, moves: &[allot_sim::world::Move]| {
        let trace = trace_of(seed, moves);
        let niced = trace.acts().iter().any(|act| {
            let Some(Fork { parent, .. }) = Fork::of(&act.intent) else { return false };
            trace.acts().iter().any(|other| {
                Nice::of(&other.intent).is_some_and(|it| it.client.member == (*parent).into())
            })
        });
        niced.then(|| Box::new(trace))
    };
    let seed = (0..1000)
        .find(|seed| niced_fork(*seed, &moves(*seed, 60)).is_some())
        .expect("some sequence nices and forks");
    let found = shrink(seed, moves(seed, 60), &niced_fork);
    assert!((2..=4).contains(&found.acts.len()), "{found}");
}

/// Whether the kernel's event or the request comes first changes no outcome, and nobody escapes.
#[test]
fn the_order_of_events_and_requests_does_not_matter() {
    let mut pairs = 0;
    for seed in 0..3_000 {
        pairs += orders::play(seed).unwrap_or_else(|mattered| panic!("{mattered}"));
    }
    assert!(pairs > 30_000, "{pairs} pairs of an event and a request");
}

/// The test above notices when requests do not wait for what has happened before them.
#[test]
fn without_catching_up_the_order_matters() {
    let mattered = (0..100).filter(|seed| orders::play_without_catching_up(*seed).is_err()).count();
    assert!(mattered > 50, "{mattered} of 100 sequences");
}
