//! Hard memory tickets from base are an amount (paper 1, section 5.4).

mod common;
use allot_ledger::operation::{CreateCurrency, Fund, Grant, SetMemory};

use allot_ledger::{
    BASE, Change, CurrencyId, Funding, HARD_TOTAL, Intent, Ledger, MEMORY_KIB_MAX, Mode, Refusal,
    Resource, Rights, Subject, TicketKind,
};
use common::{attempt, perform, refusal, root, user};

const KIB: u64 = 4300;

fn memory(kind: TicketKind, amount: u64) -> Funding {
    Funding { resource: Resource::MEMORY, kind, amount }
}

fn fund(holder: CurrencyId, issuer: CurrencyId, funding: Funding) -> Intent {
    Intent::from(Fund { holder, issuer, funding })
}

fn currency(ledger: &mut Ledger, name: &str, owner: u32) -> CurrencyId {
    let (name, mode) = (name.to_owned(), Mode::PRIVATE);
    let intent = Intent::from(CreateCurrency { name, owner, group: owner, mode });
    perform(ledger, &root(), intent).expect("a currency")
}

/// A machine with the paper's 4.2 MB to promise.
fn machine() -> Ledger {
    let mut ledger = Ledger::new(0, 0);
    perform(&mut ledger, &root(), Intent::from(SetMemory { kib: KIB }));
    ledger
}

#[test]
fn hard_tickets_from_base_are_kib_until_there_is_no_more() {
    let mut ledger = machine();
    let (a, b) = (currency(&mut ledger, "a", 1), currency(&mut ledger, "b", 2));
    perform(&mut ledger, &root(), fund(a, BASE, memory(TicketKind::Hard, 2048)));
    perform(&mut ledger, &root(), fund(b, BASE, memory(TicketKind::Hard, 1400)));
    let more = fund(b, BASE, memory(TicketKind::Hard, 1400 + 853));
    let left = KIB - 2048;
    let amount = 1400 + 853;
    assert_eq!(
        refusal(&mut ledger, &root(), more),
        Refusal::MemoryExhausted { total: KIB, left, amount }
    );
    perform(&mut ledger, &root(), fund(b, BASE, memory(TicketKind::Hard, left)));
    // Below base a hard ticket is a part, as of any resource.
    let c = currency(&mut ledger, "c", 1);
    let all = fund(c, a, memory(TicketKind::Hard, HARD_TOTAL + 1));
    assert!(matches!(refusal(&mut ledger, &root(), all), Refusal::HardExhausted { .. }));
    perform(&mut ledger, &root(), fund(c, a, memory(TicketKind::Hard, HARD_TOTAL)));
    // Nor are base's tickets of other resources amounts.
    let cpu = Funding { resource: Resource::CPU, kind: TicketKind::Hard, amount: 1001 };
    assert!(matches!(
        refusal(&mut ledger, &root(), fund(a, BASE, cpu)),
        Refusal::HardExhausted { .. }
    ));
}

#[test]
fn without_memory_to_promise_an_amount_is_refused_with_the_reason() {
    let mut ledger = Ledger::new(0, 0);
    let a = currency(&mut ledger, "a", 1);
    let amount = 1 << 20;
    let refused = refusal(&mut ledger, &root(), fund(a, BASE, memory(TicketKind::Hard, amount)));
    assert_eq!(refused, Refusal::NoMemory { amount });
    assert!(refused.to_string().contains("shares no memory"), "{refused}");
}

#[test]
fn what_is_promised_cannot_be_taken_away_by_saying_that_there_is_less() {
    let mut ledger = machine();
    let a = currency(&mut ledger, "a", 1);
    perform(&mut ledger, &root(), fund(a, BASE, memory(TicketKind::Hard, 2048)));
    let less = Intent::from(SetMemory { kib: 2047 });
    assert_eq!(
        refusal(&mut ledger, &root(), less),
        Refusal::MemoryPromised { issued: 2048, kib: 2047 }
    );
    perform(&mut ledger, &root(), Intent::from(SetMemory { kib: 2048 }));
    for kib in [0, MEMORY_KIB_MAX + 1] {
        let refused = refusal(&mut ledger, &root(), Intent::from(SetMemory { kib }));
        assert_eq!(refused, Refusal::BadMemory(kib));
    }
    let refused = refusal(&mut ledger, &user(1), Intent::from(SetMemory { kib: 5000 }));
    assert!(matches!(refused, Refusal::NotSuperuser(_)));
}

#[test]
fn who_was_granted_it_may_hand_out_memory_from_base() {
    let mut ledger = machine();
    let a = currency(&mut ledger, "a", 1);
    let wish = fund(a, BASE, memory(TicketKind::Hard, 100));
    assert!(matches!(refusal(&mut ledger, &user(1), wish.clone()), Refusal::Forbidden { .. }));
    let grant =
        Intent::from(Grant { currency: BASE, subject: Subject::Uid(1), rights: Rights::ISSUE });
    perform(&mut ledger, &root(), grant);
    attempt(&mut ledger, &user(1), wish).expect("granted");
}

#[test]
fn how_much_there_is_is_replayed_undone_and_restored() {
    let mut ledger = Ledger::new(0, 0);
    let start = ledger.clone();
    let changes = attempt(&mut ledger, &root(), Intent::from(SetMemory { kib: KIB })).unwrap();
    assert_eq!(changes, [Change::Memory { before: 0, after: KIB }]);
    assert_eq!(attempt(&mut ledger, &root(), Intent::from(SetMemory { kib: KIB })).unwrap(), []);
    let a = currency(&mut ledger, "a", 1);
    perform(&mut ledger, &root(), fund(a, BASE, memory(TicketKind::Hard, KIB)));
    let snapshot = serde_json::to_string(&ledger.snapshot()).expect("written");
    let restored = Ledger::restore(serde_json::from_str(&snapshot).expect("read")).expect("fits");
    assert_eq!(restored, ledger);
    let mut replayed = start.clone();
    replayed.replay(changes.clone()).expect("fits");
    assert_eq!(replayed.memory_kib(), KIB);
    replayed.undo(changes);
    assert_eq!(replayed, start);
    let misfit = vec![Change::Memory { before: KIB, after: KIB - 1 }];
    assert!(ledger.replay(misfit).is_err(), "less than is promised");
}

/// Ledgers of before know no amounts: their base's hard memory tickets stay thousandths.
#[test]
fn where_it_was_never_told_hard_tickets_are_thousandths() {
    let mut ledger = Ledger::new(0, 0);
    assert_eq!(ledger.hard_total(BASE, &Resource::MEMORY), HARD_TOTAL);
    let a = currency(&mut ledger, "a", 1);
    perform(&mut ledger, &root(), fund(a, BASE, memory(TicketKind::Hard, HARD_TOTAL)));
    let snapshot = serde_json::to_string(&ledger.snapshot()).expect("written");
    assert!(!snapshot.contains("memory_kib"), "as it was written before: {snapshot}");
}
