//! The fuzz targets `kernel_memory`, what the scheduler's memory and its trace may say, and `plans`, its half of encoding.

use crate::abi::{EDGES_MAX, GIVERS_MAX, SLOTS_MAX, STEP_SOFT, STEPS_MAX, types};
use crate::account::{Account, integrate};
use crate::encode::{Bank, Members, completed, encode};
use crate::session::{Exit, text};
use crate::slots::{Slots, debt_ns};
use crate::topology::parse_list;
use crate::trace::{event_of, raw_event};
use arbitrary::{Result, Unstructured};
use enforcer::Plan;
use ledger::CurrencyId;
use std::collections::BTreeMap;

/// Reads what the scheduler may have written, look after look.
pub fn kernel_memory(bytes: &[u8]) {
    if let Some(raw) = raw_event(bytes) {
        let _ = event_of(raw, CurrencyId(u64::from(raw.slot)));
    }
    if let Ok(list) = std::str::from_utf8(bytes) {
        let _ = parse_list(list);
    }
    let mut input = Unstructured::new(bytes);
    let mut slots = Slots::new(8);
    let mut accounts = BTreeMap::new();
    for id in 1..=3 {
        let slot = slots.give(CurrencyId(id), 0, |_| true).expect("there is room").slot;
        accounts.insert(CurrencyId(id), Account::new(slot));
    }
    while !input.is_empty() && look(&mut input, &mut accounts, &mut slots).is_ok() {}
}

fn look(
    input: &mut Unstructured<'_>,
    accounts: &mut BTreeMap<CurrencyId, Account>,
    slots: &mut Slots,
) -> Result<()> {
    let id = CurrencyId(input.int_in_range(1..=3)?);
    let account = accounts.get_mut(&id).expect("it was put there");
    match input.int_in_range(0..=4)? {
        0 | 1 => {
            let client = client(input)?;
            account.read(&client);
            slots.owe(id, debt_ns(client.charged_ns, client.due_ns));
            let _ = (account.used_ns(), account.promised_ns(), account.wins());
        }
        2 => account.carry_over(),
        3 => {
            let [elapsed, draws, first, second] = numbers(input)?;
            let value_of = |id: CurrencyId, _: &Account| match id.0 {
                1 => Some(first % (valuation::WHOLE / 2)),
                2 => Some(second % (valuation::WHOLE / 2)),
                _ => None,
            };
            integrate(accounts, input.int_in_range(0..=9)?, elapsed, draws, value_of);
            let promised = accounts.values().map(|it| u128::from(it.promised())).sum::<u128>();
            assert!(promised <= 9 * u128::from(policy::ONE_SEAT));
        }
        _ => {
            slots.take_debt(id);
            let said: [i8; 32] = input.arbitrary()?;
            let (kind, code, message) = (input.arbitrary()?, input.arbitrary()?, text(&said));
            let exit = Exit { kind, code, reason: String::new(), message };
            let _ = (exit.wants_restart(), exit.to_string());
        }
    }
    Ok(())
}

fn numbers<const N: usize>(input: &mut Unstructured<'_>) -> Result<[u64; N]> {
    input.arbitrary()
}

fn client(input: &mut Unstructured<'_>) -> Result<types::client> {
    let [used_ns, due_ns, charged_ns, wins] = numbers(input)?;
    let (runnable, lingers) = (input.arbitrary()?, input.arbitrary()?);
    let rest = types::client::default();
    Ok(types::client { used_ns, due_ns, charged_ns, wins, runnable, lingers, ..rest })
}

/// Takes inputs whose first byte is odd: encodes the plan, if it is one; nothing that is encoded leads out of its bank.
pub fn plans(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    if kind % 2 == 0 {
        return;
    }
    let Ok(plan) = postcard::from_bytes::<Plan>(rest) else { return };
    let plan = completed(plan);
    let mut slots = Slots::new(SLOTS_MAX);
    for view in plan.cpu().nodes().filter(|view| view.id != ledger::BASE) {
        slots.give(view.id, 0, |_| true).expect("there are fewer than slots");
    }
    check(&encode(&plan, &slots));
    let members = Members::of(&plan, &slots);
    let all = members.processes.values().chain(members.threads.values()).map(|(_, slot)| slot);
    let all = all.chain(members.cgroups.values()).chain([&members.kernel, &members.rest]);
    assert!(all.copied().all(|slot| (slot as usize) < slots.end()));
}

fn check(bank: &Bank) {
    let (slots, steps) = (bank.nodes.len() as u32, bank.paths.len() as u32);
    assert!(bank.nodes.len() <= SLOTS_MAX && bank.edges.len() <= EDGES_MAX);
    assert!(bank.paths.len() <= STEPS_MAX && bank.givers.len() <= GIVERS_MAX);
    assert!(bank.edges.iter().all(|edge| edge.issuer < slots));
    let within = |first: u32, count: u32, end: u32| {
        count == 0 || first.checked_add(count).is_some_and(|last| last <= end)
    };
    for (slot, node) in bank.nodes.iter().enumerate() {
        assert!(within(node.first_edge, node.edges, bank.edges.len() as u32));
        assert!(within(node.first_step, node.steps, steps));
        let mut path = bank.paths.iter().skip(node.first_step as usize).take(node.steps as usize);
        assert!(path.clone().all(|slot| *slot < slots));
        assert!(
            path.next_back().is_none_or(|last| *last as usize == slot),
            "its own is at the end"
        );
        // Base's counts all givers, and lists none.
        if slot > 0 {
            assert!(within(node.first_giver, node.givers, steps));
            let list = bank.paths.iter().skip(node.first_giver as usize);
            let mut list = list.take(node.givers as usize);
            assert!(list.all(|giver| (*giver as usize) < bank.givers.len()));
        }
    }
    for giver in bank.givers.iter() {
        assert!(within(giver.first_step, giver.steps, steps));
        let way = bank.paths.iter().skip(giver.first_step as usize).take(giver.steps as usize);
        assert!(way.copied().all(|step| step & !STEP_SOFT < slots));
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_kernel_memory_does_no_harm() {
    replay::replay("kernel_memory", 4_000, kernel_memory);
}

#[test]
fn the_corpus_of_plans_is_encoded_within_its_bank() {
    replay::replay("plans", 4_000, plans);
}
