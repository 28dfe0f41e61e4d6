//! The fuzz target `plans`, its half of graphs: facts that may say anything, most of them what a ledger could say.

use crate::{Backing, CurrencyFacts, Goods, Graph, GraphFacts, WHOLE};
use arbitrary::{Result, Unstructured};
use ledger::{
    AMOUNT_MAX, BASE, Class, CurrencyId, HARD_TOTAL, ISSUED_MAX, MEMORY_KIB_MAX, Resource,
    TRANSFER_AMOUNT, TicketKind,
};

/// The most currencies of a graph.
const CURRENCIES_MAX: u64 = 24;
/// The most gifts.
const EXCHANGES_MAX: usize = 4;
/// The most changes of who competes.
const TOGGLES_MAX: usize = 8;

/// Takes inputs whose first byte is even: builds a graph of what they say, and asks it all that enforcers ask.
pub fn plans(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        let mut input = Unstructured::new(rest);
        let facts = facts(&mut input).expect("an input that is at its end goes on with zeros");
        if let Ok(mut graph) = Graph::from_facts(&facts) {
            assert_eq!(graph.facts(), facts);
            ask(&mut graph);
            for _ in 0..TOGGLES_MAX {
                let Ok((id, active)) = toggle(&mut input) else { break };
                graph.set_active(id, active);
                ask(&mut graph);
            }
        }
    }
}

/// Asks a graph all that enforcers ask. Active clients together are never worth more than the whole.
fn ask(graph: &mut Graph) {
    let ids: Vec<CurrencyId> = graph.nodes().map(|node| node.id).collect();
    let mut active = 0;
    for id in ids {
        let value = graph.value(id);
        if graph.active_clients().any(|it| it == id) {
            active += u128::from(value);
        }
        let sure = graph.guaranteed(id);
        // A currency that receives from one that it funds counts that twice; its clients do not.
        assert!(sure <= 2 * WHOLE, "{id}: {sure}");
        let _ = (graph.issued(id), graph.charges(id), graph.is_funded(id));
        let _ = (graph.memory_bytes(sure), graph.exchanged(id), graph.has_lent(id));
        for kind in [TicketKind::Soft, TicketKind::Hard] {
            let _ = graph.charge_way(id, kind);
        }
    }
    assert!(active <= u128::from(WHOLE), "{active}");
}

fn toggle(input: &mut Unstructured<'_>) -> Result<(CurrencyId, bool)> {
    if input.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    Ok((CurrencyId(input.int_in_range(0..=CURRENCIES_MAX)?), input.arbitrary()?))
}

fn facts(input: &mut Unstructured<'_>) -> Result<GraphFacts> {
    let resource = if input.arbitrary()? { Resource::MEMORY } else { Resource::CPU };
    let memory_kib = if input.ratio(1, 2)? { amount(input)? } else { 0 };
    let count = input.int_in_range(0..=CURRENCIES_MAX)?;
    let mut currencies = Vec::new();
    for id in 0..=count {
        currencies.push(currency(input, id)?);
    }
    exchanges(input, &mut currencies)?;
    Ok(GraphFacts { resource, memory_kib, currencies })
}

/// Mostly sound: base first, issuers before their holders.
fn currency(input: &mut Unstructured<'_>, id: u64) -> Result<CurrencyFacts> {
    let odd = input.ratio(1, 64)?;
    let is_client = id != BASE.0 && input.arbitrary()?;
    let class = if is_client && input.ratio(1, 8)? { Class::Guest } else { Class::Host };
    let competes = (is_client || odd) && input.arbitrary()?;
    let mut tickets = Vec::new();
    while id != BASE.0 && tickets.len() < 4 && input.ratio(2, 3)? {
        let issuer = input.int_in_range(0..=if odd { CURRENCIES_MAX } else { id - 1 })?;
        let kind = *input.choose(&[TicketKind::Soft, TicketKind::Hard, TicketKind::Transfer])?;
        let amount = match kind {
            TicketKind::Transfer => TRANSFER_AMOUNT,
            _ => amount(input)?,
        };
        tickets.push(Backing { issuer: CurrencyId(issuer), kind, amount });
    }
    let id = if odd { input.int_in_range(0..=CURRENCIES_MAX)? } else { id };
    let (given, received) = Default::default();
    Ok(CurrencyFacts { id: CurrencyId(id), is_client, class, competes, given, received, tickets })
}

/// Gives and receives, in balance but for the odd one.
fn exchanges(input: &mut Unstructured<'_>, currencies: &mut [CurrencyFacts]) -> Result<()> {
    if currencies.len() < 3 {
        return Ok(());
    }
    for _ in 0..input.int_in_range(0..=EXCHANGES_MAX)? {
        let mut party = || input.int_in_range(1..=currencies.len() - 1);
        let (giver, receiver) = (party()?, party()?);
        let (hard, amount, odd) = (input.arbitrary()?, amount(input)?, input.ratio(1, 16)?);
        let add = |goods: &mut Goods| {
            let sum = if hard { &mut goods.hard } else { &mut goods.soft };
            *sum = sum.saturating_add(amount);
        };
        add(&mut currencies[giver].given);
        if !odd {
            add(&mut currencies[receiver].received);
        }
    }
    Ok(())
}

/// Small numbers mostly, then bounds and what is beyond them.
fn amount(input: &mut Unstructured<'_>) -> Result<u64> {
    let bounds =
        [0, 1, HARD_TOTAL, AMOUNT_MAX, ISSUED_MAX, MEMORY_KIB_MAX, MEMORY_KIB_MAX + 1, u64::MAX];
    Ok(match input.int_in_range(0_u8..=15)? {
        0 => *input.choose(&bounds)?,
        1 => input.arbitrary()?,
        2..=5 => input.int_in_range(0..=HARD_TOTAL)?,
        _ => input.int_in_range(0..=100)?,
    })
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_plans_makes_no_unsound_graph() {
    replay::replay("plans", 2_000, plans);
}
