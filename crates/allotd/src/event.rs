//! Journal entries as events, for the people who watch.

use ledger::operation::EndExchange;
use ledger::{Authority, Change, ExchangeId, OfferId};
use wire::{Event, EventKind};

/// A journal entry as an event.
pub fn event(entry: &journal::Entry) -> Event {
    let uid = match &entry.authority {
        Authority::System => None,
        Authority::Caller(caller) => Some(caller.uid),
    };
    let (offers, exchanges, ended) = touched(&entry.changes);
    let mut text = entry.intent.describe();
    if !ended.is_empty() && EndExchange::of(&entry.intent).is_none() {
        let list: Vec<String> = ended.iter().map(|id| id.0.to_string()).collect();
        text.push_str(&format!("; that ended exchange {}", list.join(", ")));
    }
    Event {
        sequence: Some(entry.sequence),
        at_unix_ms: entry.at_unix_ms,
        kind: if uid.is_some() { EventKind::Operation } else { EventKind::Process },
        uid,
        text,
        offers: offers.iter().map(|id| id.0).collect(),
        exchanges: exchanges.iter().map(|id| id.0).collect(),
    }
}

/// The offers and exchanges that some changes made, changed or ended; of exchanges, which ended.
pub fn touched(changes: &[Change]) -> (Vec<OfferId>, Vec<ExchangeId>, Vec<ExchangeId>) {
    let (mut offers, mut exchanges, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Offer { id, .. } => offers.push(*id),
            Change::Exchange { id, after, .. } => {
                exchanges.push(*id);
                ended.extend(after.is_none().then_some(*id));
            }
            _ => {}
        }
    }
    offers.dedup();
    (offers, exchanges, ended)
}
