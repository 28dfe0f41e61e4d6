//! A few words in which exchanges are told.

use super::{create, fund, perform, root, user};
use allot_ledger::operation::{ChangeMode, MakeOffer};
use allot_ledger::{
    BASE, CurrencyId, ExchangeId, Funding, Good, Intent, Ledger, Leg, Mode, Offer, OfferId,
    Resource, Rights, Terms, TicketKind,
};

pub fn disk() -> Resource {
    Resource::disk("sda")
}

pub fn good(resource: Resource) -> Good {
    Good { resource, kind: TicketKind::Soft }
}

pub fn leg(giver: CurrencyId, receiver: CurrencyId, resource: Resource, amount: u64) -> Leg {
    Leg { giver, receiver, good: good(resource), amount }
}

pub fn of(resource: Resource, kind: TicketKind, amount: u64) -> Funding {
    Funding { resource, kind, amount }
}

/// A currency of a user with 160 soft base tickets of each of three resources, of which
/// 150 can be given away.
pub fn funded(ledger: &mut Ledger, uid: u32) -> CurrencyId {
    let id = perform(ledger, &user(uid), create(&format!("u{uid}"), uid)).expect("made");
    // It takes gifts of everybody.
    let mode = Mode::new(Rights::ALL, Rights::NONE, Rights::FUND);
    perform(ledger, &user(uid), Intent::from(ChangeMode { currency: id, mode }));
    for resource in [Resource::CPU, disk(), Resource::MEMORY] {
        perform(ledger, &root(), fund(id, BASE, of(resource, TicketKind::Soft, 160)));
    }
    id
}

pub fn offer(party: CurrencyId, gives: Resource, give: u64, wants: Resource, want: u64) -> Offer {
    let terms = Terms::one(good(gives), give, good(wants), want);
    Offer { party, terms, until_s: None, lease: None }
}

pub fn partial(offer: Offer) -> Offer {
    Offer { terms: Terms { partial: true, ..offer.terms }, ..offer }
}

pub fn place_offer(ledger: &mut Ledger, uid: u32, offer: Offer) -> OfferId {
    perform(ledger, &user(uid), Intent::from(MakeOffer { offer }));
    ledger.offers().last().expect("it stands").0
}

pub fn newest(ledger: &Ledger) -> ExchangeId {
    ledger.exchanges().last().expect("an exchange").0
}
