//! A few words in which the examples are told.
#![allow(dead_code)]

pub mod trades;
use allot_ledger::operation::{
    CreateCurrency, Exit, Fork, Fund, Grant, Join, Leave, Nice, Place, TakeBack, Transfer, Unfund,
};

use allot_ledger::{
    Authority, BASE, Caller, Change, CurrencyId, Funding, Intent, Ledger, NewClient, Placement,
    Placements, PolicyKey, ProcessIdentity, Refusal, Resource, Rights, Subject, TicketKind, decide,
};

/// Do something on somebody's authority.
pub fn attempt(
    ledger: &mut Ledger,
    authority: &Authority,
    intent: Intent,
) -> Result<Vec<Change>, Refusal> {
    let authorised = decide(ledger, authority.clone(), intent)?;
    Ok(ledger.apply(authorised))
}

/// Do what must be allowed; answers the first currency that it made, if any.
pub fn perform(ledger: &mut Ledger, authority: &Authority, intent: Intent) -> Option<CurrencyId> {
    let changes = attempt(ledger, authority, intent.clone())
        .unwrap_or_else(|refusal| panic!("{intent:?} was refused: {refusal}"));
    changes.iter().find_map(|change| match change {
        Change::Currency { id, before: None, .. } => Some(*id),
        _ => None,
    })
}

/// Why something is refused.
pub fn refusal(ledger: &mut Ledger, authority: &Authority, intent: Intent) -> Refusal {
    let before = ledger.clone();
    let refusal = attempt(ledger, authority, intent).expect_err("it must be refused");
    assert_eq!(*ledger, before, "a refusal changes nothing");
    refusal
}

pub fn user(uid: u32) -> Authority {
    Authority::Caller(Caller { uid, gid: uid, groups: vec![], process: None })
}

pub fn root() -> Authority {
    user(0)
}

pub fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start_time_ticks: 1 }
}

pub fn new_client(pid: u32, uid: u32) -> NewClient {
    NewClient::process(process(pid), uid, uid)
}

pub fn soft(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }
}

pub fn hard(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Hard, amount }
}

pub fn create(name: &str, owner: u32) -> Intent {
    let mode = "fci------".parse().expect("a mode");
    Intent::from(CreateCurrency { name: name.to_owned(), owner, group: owner, mode })
}

pub fn fund(holder: CurrencyId, issuer: CurrencyId, funding: Funding) -> Intent {
    Intent::from(Fund { holder, issuer, funding })
}

pub fn unfund(holder: CurrencyId, issuer: CurrencyId) -> Intent {
    Intent::from(Unfund { holder, issuer, resource: Resource::CPU, kind: TicketKind::Soft })
}

pub fn nice(pid: u32, uid: u32, amount: u64) -> Intent {
    Intent::from(Nice { client: new_client(pid, uid), resource: Resource::CPU, amount })
}

pub fn fork(parent: u32, child: u32, uid: u32) -> Intent {
    Intent::from(Fork { parent: process(parent), child: new_client(child, uid) })
}

pub fn exit(pid: u32) -> Intent {
    Intent::from(Exit { member: process(pid).into() })
}

pub fn join(member: NewClient, client: CurrencyId) -> Intent {
    Intent::from(Join { member, client })
}

pub fn leave(member: NewClient) -> Intent {
    Intent::from(Leave { member })
}

/// Lets a user give to a currency.
pub fn let_give(ledger: &mut Ledger, uid: u32, to: CurrencyId) {
    let (subject, rights) = (Subject::Uid(uid), Rights::FUND);
    perform(ledger, &root(), Intent::from(Grant { currency: to, subject, rights }));
}

pub fn transfer(lender: CurrencyId, holder: CurrencyId) -> Intent {
    Intent::from(Transfer { lender, holder, resource: Resource::CPU })
}

pub fn take_back(lender: CurrencyId) -> Intent {
    Intent::from(TakeBack { lender, resource: Resource::CPU })
}

/// One currency a user, each funded with 100 soft base tickets; a process gets 10 (paper 1, 5.2).
pub fn per_user(uid: u32) -> Placements {
    Placements { levels: vec![user_level(uid)], process: vec![soft(10)] }
}

pub fn user_level(uid: u32) -> Placement {
    Placement {
        key: PolicyKey::User(uid),
        name: format!("user-{uid}"),
        owner: uid,
        group: uid,
        mode: "fci--i---".parse().expect("a mode"),
        funding: vec![soft(100)],
        limits: Default::default(),
    }
}

/// The policy places a process; answers its client.
pub fn place(ledger: &mut Ledger, pid: u32, placements: Placements) -> CurrencyId {
    let uid = placements.levels.last().expect("a level").owner;
    let intent = Intent::from(Place { client: new_client(pid, uid), placements });
    perform(ledger, &Authority::System, intent);
    ledger.client_of(process(pid)).expect("it was placed")
}

/// The currency that the policy keeps for a user.
pub fn home(ledger: &Ledger, uid: u32) -> CurrencyId {
    ledger.home(&PolicyKey::User(uid)).expect("a home").currency
}

/// How many soft CPU tickets a holder has of an issuer; `None` without a ticket.
pub fn tickets(ledger: &Ledger, holder: CurrencyId, issuer: CurrencyId) -> Option<u64> {
    let held = ledger.held(holder, issuer, &Resource::CPU, TicketKind::Soft);
    held.map(|(_, ticket)| ticket.amount)
}

/// All soft CPU base tickets that there are.
pub fn base_total(ledger: &Ledger) -> u64 {
    ledger.currency(BASE).expect("base").issued_of(&Resource::CPU).soft
}
