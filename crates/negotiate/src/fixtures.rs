//! Views of the market for the tests of several modules.

use wire::{ExchangeView, Good, LeaseView, LegView, TicketKind};

/// Soft tickets of a resource.
pub fn soft(resource: &str) -> Good {
    Good { resource: resource.to_owned(), kind: TicketKind::Soft }
}

/// An exchange of party 7 with 8, by what 7 gives and gets; with a lease where `lease_until_s` is given.
pub fn exchange(
    id: u64,
    gives: (&str, u64),
    gets: (&str, u64),
    lease_until_s: Option<u64>,
) -> ExchangeView {
    let leg = |giver, receiver, (resource, amount)| LegView {
        giver,
        giver_name: String::new(),
        receiver,
        receiver_name: String::new(),
        good: soft(resource),
        amount,
    };
    let legs = vec![leg(7, 8, gives), leg(8, 7, gets)];
    let leases = lease_until_s.map(|until_s| LeaseView { party: 7, until_s }).into_iter().collect();
    ExchangeView { id, legs, until_s: None, offers: Vec::new(), leases }
}
