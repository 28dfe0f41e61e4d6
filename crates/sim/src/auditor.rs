//! The auditor: holds the ledger and the valuation to theorems 1, 3 and 4 and to their own
//! books, against the [naive model](crate::model).

use crate::covers::covers;
use crate::fraction::Fraction;
use crate::model::{Model, Values};
use ledger::{
    AMOUNT_MAX, BACKERS_MAX, BASE, Change, Currency, CurrencyId, CurrencyKind, DEPTH_MAX, Good,
    ISSUED_MAX, Issued, LEGS_MAX, Ledger, Member, Misfit, Part, Resource, TRANSFER_AMOUNT,
    TRANSFERS_MAX, TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};
use valuation::{Graph, WHOLE};

/// What the auditor found wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Theorem 4.
    #[error("no cycle: the {0} tickets form one")]
    Cycle(Resource),
    /// Theorem 1, or a value that is not what the rules say.
    #[error("conservation: {0}")]
    Conservation(String),
    /// Theorem 3.
    #[error("reservation: {0}")]
    Reservation(String),
    /// Theorem 4 of exchanges, or isolation from them.
    #[error("exchange: {0}")]
    Exchange(String),
    /// The ledger's totals, indexes or limits.
    #[error("books: {0}")]
    Books(String),
    /// Snapshot, replay, undo or the incremental graph went another way.
    #[error("replay: {0}")]
    Replay(String),
}

impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Fault {
        Fault::Replay(misfit.to_string())
    }
}

macro_rules! hold {
    ($fault:ident, $condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(Fault::$fault(format!($($words)+)));
        }
    };
}

/// Family currencies and the policy's levels may lie below a path of [`DEPTH_MAX`].
const DEPTH_BEYOND: usize = 8;

/// Check one resource's graph, with `clients` active in it, against the model.
///
/// The bounds: each value falls short of the exact one by less than one part of [`WHOLE`] for
/// every division on the way to it; the active clients together by less than the number of
/// active tickets plus the number of currencies that issue them, and not at all where no
/// ticket is.
///
/// # Errors
/// The first fault.
pub fn audit_values(
    ledger: &Ledger,
    graph: &mut Graph,
    clients: &BTreeSet<CurrencyId>,
) -> Result<(), Fault> {
    let resource = graph.resource().clone();
    let model = Model::of(ledger, &resource).ok_or(Fault::Cycle(resource))?;
    audit_against(ledger, graph, clients, &model, &Sure::of(&model))
}

/// What does not depend on who is active.
#[derive(Clone, Debug)]
pub struct Sure {
    guaranteed: Values,
    reserved: Values,
    // What everybody would be sure of if nothing were exchanged, and whom that concerns.
    bare: Option<(Values, Vec<bool>)>,
}

impl Sure {
    /// A model's.
    pub fn of(model: &Model) -> Sure {
        let bare = model.trades().then(|| (model.bare().guaranteed(), model.concerned()));
        Sure { guaranteed: model.guaranteed(), reserved: model.reserved(), bare }
    }
}

/// [`audit_values`] with the model at hand.
///
/// # Errors
/// The first fault.
pub fn audit_against(
    ledger: &Ledger,
    graph: &mut Graph,
    clients: &BTreeSet<CurrencyId>,
    model: &Model,
    sure: &Sure,
) -> Result<(), Fault> {
    let now = model.now(clients);
    let Sure { guaranteed, reserved, bare } = sure;
    for values in [&now, guaranteed] {
        let negative = values.negative;
        hold!(Exchange, negative.is_none(), "{negative:?} is worth less than nothing");
    }
    let concerned = |place: usize| bare.as_ref().is_some_and(|(_, concerned)| concerned[place]);
    // The bound of each single value costs a walk: of large graphs only a sample is checked.
    let stride = ledger.currency_count() / 1000 + 1;
    let mut sum = 0;
    let mut exact_sum = Fraction::zero();
    for (index, currency) in ledger.currencies().enumerate() {
        let (id, place) = (currency.id, model.place(currency.id));
        let (value, sure) = (graph.value(id), graph.guaranteed(id));
        hold!(
            Replay,
            graph.is_active(id) == now.is_active(place),
            "{id} is active: {}, by the rules: {}",
            graph.is_active(id),
            now.is_active(place)
        );
        if index % stride == 0 {
            near("value", id, value, model, &now, place)?;
            near("guaranteed value", id, sure, model, guaranteed, place)?;
        }
        hold!(
            Reservation,
            concerned(place) || reserved.value(place) <= guaranteed.value(place),
            "{id} has {} reserved and is sure of {}",
            reserved.value(place),
            guaranteed.value(place)
        );
        if let Some((bare, concerned)) = bare {
            hold!(
                Exchange,
                concerned[place] || bare.value(place) == guaranteed.value(place),
                "bystander {id} is sure of {}, without exchanges of {}",
                guaranteed.value(place),
                bare.value(place)
            );
            hold!(
                Exchange,
                !now.is_active(place) || now.with_sunk(place) >= *guaranteed.value(place),
                "{id} is worth {}, below its sure {}",
                now.value(place),
                guaranteed.value(place)
            );
        } else if now.is_active(place) {
            hold!(Reservation, value >= sure, "{id} is worth {value}, below its sure {sure}");
        }
        if currency.is_client() {
            hold!(
                Books,
                graph.is_funded(id) == model.is_funded(id),
                "{id} is funded: {}",
                graph.is_funded(id)
            );
            sum += value;
            exact_sum = exact_sum.plus(now.value(place));
        }
    }
    hold!(Conservation, sum <= WHOLE, "active clients are worth {sum} of {WHOLE} parts");
    let root = model.place(BASE);
    if now.is_active(root) && model.keeps_back() {
        hold!(Conservation, exact_sum <= Fraction::one(), "the rules give away {exact_sum}");
    } else if now.is_active(root) {
        hold!(Conservation, exact_sum == Fraction::one(), "the rules give away {exact_sum}");
        let (tickets, issuers) = model.active_tickets(&now);
        let bound = model.bound_of_all(&now, tickets + issuers);
        hold!(
            Conservation,
            WHOLE - sum < bound,
            "{} parts were lost by {tickets} active tickets of {issuers} issuers",
            WHOLE - sum
        );
    } else {
        hold!(Conservation, exact_sum.is_zero() && sum == 0, "{sum} parts from nowhere");
    }
    let listed: BTreeSet<CurrencyId> = graph.active_clients().collect();
    hold!(Replay, listed == *clients, "active clients are {listed:?}, not {clients:?}");
    Ok(())
}

fn near(
    what: &str,
    id: CurrencyId,
    value: u64,
    model: &Model,
    values: &Values,
    place: usize,
) -> Result<(), Fault> {
    let exact = parts(values.value(place));
    let bound = model.divisions(values, place);
    let high = Fraction::new(value, 1);
    let low = Fraction::new(value + bound, 1);
    hold!(
        Conservation,
        high <= exact && (exact < low || high == exact),
        "the {what} of {id} is {value}, exactly {exact}, bound {bound}"
    );
    Ok(())
}

fn parts(fraction: &Fraction) -> Fraction {
    fraction.times(WHOLE, 1)
}

/// Check that a graph that followed every change is the one that the ledger gives from scratch, and
/// the one that its own facts give.
///
/// # Errors
/// The first fault.
pub fn audit_increments(
    ledger: &Ledger,
    graph: &mut Graph,
    clients: &BTreeSet<CurrencyId>,
) -> Result<(), Fault> {
    let mut fresh = Graph::of(ledger, graph.resource().clone());
    for client in clients {
        fresh.set_active(*client, true);
    }
    let told = Graph::from_facts(&graph.facts());
    let mut told = told.map_err(|error| Fault::Replay(error.to_string()))?;
    for currency in ledger.currencies() {
        let id = currency.id;
        let kept = (graph.is_active(id), graph.value(id), graph.guaranteed(id));
        let anew = (fresh.is_active(id), fresh.value(id), fresh.guaranteed(id));
        hold!(Replay, kept == anew, "{id}: (active, value, sure) {kept:?}, from scratch {anew:?}");
        let told = (told.is_active(id), told.value(id), told.guaranteed(id));
        hold!(
            Replay,
            kept == told,
            "{id}: (active, value, sure) {kept:?}, from its facts {told:?}"
        );
    }
    Ok(())
}

/// Check the ledger's totals, indexes and limits by counting again.
///
/// # Errors
/// The first fault.
pub fn audit_books(ledger: &Ledger) -> Result<(), Fault> {
    let mut backing: BTreeMap<CurrencyId, Vec<_>> = BTreeMap::new();
    let mut issued: BTreeMap<CurrencyId, Vec<_>> = BTreeMap::new();
    let mut totals: BTreeMap<(CurrencyId, Resource), Issued> = BTreeMap::new();
    let mut held = BTreeSet::new();
    for (id, ticket) in ledger.tickets() {
        backing.entry(ticket.holder).or_default().push(id);
        issued.entry(ticket.issuer).or_default().push(id);
        let total = totals.entry((ticket.issuer, ticket.resource.clone())).or_default();
        total.tickets += 1;
        let most = match ticket.kind {
            TicketKind::Soft => {
                total.soft += ticket.amount;
                AMOUNT_MAX
            }
            TicketKind::Hard => {
                total.hard += ticket.amount;
                ledger.hard_total(ticket.issuer, &ticket.resource)
            }
            TicketKind::Transfer => TRANSFER_AMOUNT,
        };
        hold!(Books, ticket.amount <= most, "ticket {} has {}", id.0, ticket.amount);
        let one = (ticket.holder, ticket.issuer, ticket.resource.clone(), ticket.kind);
        hold!(Books, held.insert(one), "ticket {} is a second of its kind", id.0);
    }
    for ((issuer, resource), total) in &totals {
        let kept = ledger.currency(*issuer).map(|currency| currency.issued_of(resource));
        hold!(Books, kept == Some(*total), "{issuer} counts {kept:?} of {resource}: {total:?}");
        hold!(
            Books,
            total.soft <= ISSUED_MAX && total.hard <= ledger.hard_total(*issuer, resource),
            "{issuer} has issued {total:?} of {resource}"
        );
    }
    let mut lent: BTreeMap<(CurrencyId, Resource), u64> = BTreeMap::new();
    let mut names = BTreeSet::new();
    let mut clients = Vec::new();
    for currency in ledger.currencies() {
        let (id, record) = (currency.id, &currency.record);
        let own = |all: &BTreeMap<CurrencyId, Vec<_>>| all.get(&id).cloned().unwrap_or_default();
        hold!(Books, currency.backing.iter().copied().eq(own(&backing)), "what {id} holds");
        hold!(Books, currency.issued.iter().copied().eq(own(&issued)), "what {id} has issued");
        match &record.kind {
            CurrencyKind::Base => {
                hold!(Books, id == BASE && currency.backing.is_empty(), "{id} is no base");
            }
            CurrencyKind::Pure => {}
            CurrencyKind::Job { loans } => {
                hold!(Books, !currency.issued.is_empty(), "job {id} funds nobody");
                let mut whole: BTreeMap<&Resource, u64> = BTreeMap::new();
                for loan in loans {
                    *lent.entry((loan.lender, loan.resource.clone())).or_default() += loan.amount;
                    *whole.entry(&loan.resource).or_default() += loan.amount;
                }
                for (resource, amount) in whole {
                    let kept = ledger.held(id, BASE, resource, TicketKind::Soft);
                    let kept = kept.map(|(_, ticket)| ticket.amount);
                    hold!(Books, kept == Some(amount), "job {id} was lent {amount}, has {kept:?}");
                }
            }
            CurrencyKind::Client { founder, .. } => {
                let mut lends = BTreeSet::new();
                for (_, ticket) in ledger.issued(id) {
                    let fits = ticket.kind == TicketKind::Transfer
                        && ticket.amount == TRANSFER_AMOUNT
                        && ledger.currency(ticket.holder).is_some_and(Currency::is_client);
                    hold!(Books, fits, "client {id} issues {ticket:?}");
                    hold!(Books, lends.insert(&ticket.resource), "{id} lends to two");
                }
                hold!(Books, ledger.founded_by(founder) == Some(id), "{founder} is not {id}");
                clients.push((*founder, id));
            }
        }
        if matches!(record.kind, CurrencyKind::Base | CurrencyKind::Pure) {
            let named = ledger.named(record.owner, &record.name);
            hold!(Books, named == Some(id), "{} names {named:?}, not {id}", record.name);
            hold!(Books, names.insert((record.owner, &record.name)), "two {}", record.name);
        }
        let (transfers, backers): (Vec<_>, Vec<_>) =
            ledger.backing(id).partition(|(_, ticket)| ticket.kind == TicketKind::Transfer);
        hold!(Books, backers.len() <= BACKERS_MAX, "{id} holds too many tickets");
        hold!(Books, transfers.len() <= TRANSFERS_MAX, "too many lend to {id}");
    }
    clients.sort_unstable();
    hold!(Books, ledger.clients().eq(clients), "the index of founders");
    let mut joined: BTreeMap<CurrencyId, Vec<Member>> = BTreeMap::new();
    for (member, client) in ledger.joined() {
        let is_client = ledger.currency(client).is_some_and(Currency::is_client);
        hold!(Books, is_client, "{member} has joined {client}, no client");
        hold!(Books, ledger.founded_by(&member) != Some(client), "{member} joined its own");
        let now = ledger.client_of_member(&member);
        hold!(Books, now == Some(client), "{member} is in {now:?}, not {client}");
        joined.entry(client).or_default().push(member);
    }
    for currency in ledger.currencies() {
        let listed = joined.remove(&currency.id).unwrap_or_default();
        hold!(Books, ledger.members(currency.id).eq(listed), "the members of {}", currency.id);
    }
    for ((lender, resource), amount) in lent {
        let kept = ledger.lent(lender, &resource);
        hold!(Books, kept == amount, "{lender} lent {amount} {resource}, counted {kept}");
    }
    for (key, home) in ledger.homes() {
        let pure = ledger.currency(home.currency).map(|c| c.record.kind == CurrencyKind::Pure);
        hold!(Books, pure == Some(true), "{key} is kept by {}", home.currency);
    }
    audit_trades(ledger)?;
    audit_quotas(ledger)?;
    audit_depth(ledger)
}

/// Check that the books of exchanges add up, and that who gives covers it.
fn audit_trades(ledger: &Ledger) -> Result<(), Fault> {
    let mut given: BTreeMap<(CurrencyId, Good), u64> = BTreeMap::new();
    let mut received = given.clone();
    let mut parties: BTreeMap<CurrencyId, BTreeSet<_>> = BTreeMap::new();
    let mut goods = BTreeSet::new();
    for (id, exchange) in ledger.exchanges() {
        let count = exchange.legs.len();
        hold!(Books, (1..=LEGS_MAX).contains(&count), "{id} has {count} legs");
        for leg in &exchange.legs {
            *given.entry((leg.giver, leg.good.clone())).or_default() += leg.amount;
            *received.entry((leg.receiver, leg.good.clone())).or_default() += leg.amount;
            parties.entry(leg.giver).or_default().insert(id);
            parties.entry(leg.receiver).or_default().insert(id);
            goods.insert(leg.good.clone());
        }
    }
    for good in goods {
        let covers = covers(ledger, &good);
        for currency in ledger.currencies().filter(|currency| currency.id != BASE) {
            let id = currency.id;
            let sum = |all: &BTreeMap<(CurrencyId, Good), u64>| {
                all.get(&(id, good.clone())).copied().unwrap_or(0)
            };
            let (gives, gets) = (sum(&given), sum(&received));
            let kept = (ledger.given(id, &good), ledger.received(id, &good));
            hold!(Books, kept == (gives, gets), "{id} gives {kept:?} {good}, not {gives}");
            let (cover, kept) = (covers[&id].parts, ledger.cover(id, &good));
            hold!(Exchange, cover == kept, "{id} covers {cover} {good}, counted {kept}");
            let covered = gives == 0 || u128::from(gives) << 32 <= cover;
            hold!(Exchange, covered, "{id} gives {gives} {good}, covers {cover} >> 32");
        }
    }
    let mut offers: BTreeMap<CurrencyId, BTreeSet<_>> = BTreeMap::new();
    for (id, offer) in ledger.offers() {
        hold!(Books, offer.terms.check().is_ok(), "{id} makes no sense");
        offers.entry(offer.party).or_default().insert(id);
    }
    for currency in ledger.currencies() {
        let id = currency.id;
        let own = parties.remove(&id).unwrap_or_default();
        hold!(Books, ledger.exchanges_of(id).map(|it| it.0).eq(own), "the exchanges of {id}");
        let own = offers.remove(&id).unwrap_or_default();
        hold!(Books, ledger.offers_of(id).map(|it| it.0).eq(own), "the offers of {id}");
    }
    hold!(Books, parties.is_empty() && offers.is_empty(), "somebody unknown trades");
    Ok(())
}

/// Check that what each owner has of each part of the ledger was counted, and what all have.
fn audit_quotas(ledger: &Ledger) -> Result<(), Fault> {
    let owner = |id: CurrencyId| ledger.currency(id).map_or(0, |it| it.record.owner);
    let mut parts: Vec<(u32, Part)> = Vec::new();
    for currency in ledger.currencies() {
        let record = &currency.record;
        parts.extend(record.grants.iter().map(|_| (record.owner, Part::Grant)));
        match &record.kind {
            CurrencyKind::Client { founder, .. } if founder.process().is_some() => {}
            CurrencyKind::Client { .. } => parts.push((record.owner, Part::Member)),
            _ => parts.push((record.owner, Part::Currency)),
        }
    }
    parts.extend(ledger.tickets().map(|(_, ticket)| (owner(ticket.holder), Part::Ticket)));
    let joined = ledger.joined().filter(|(member, _)| member.process().is_none());
    parts.extend(joined.map(|(_, client)| (owner(client), Part::Member)));
    parts.extend(ledger.offers().map(|(_, offer)| (owner(offer.party), Part::Offer)));
    let givers = ledger.exchanges().flat_map(|(_, exchange)| exchange.givers());
    parts.extend(givers.map(|giver| (owner(giver), Part::Exchange)));
    let mut counts: BTreeMap<(u32, Part), usize> = BTreeMap::new();
    for (owner, part) in parts {
        *counts.entry((owner, part)).or_default() += 1;
    }
    let owners: BTreeSet<u32> = counts.keys().map(|(owner, _)| *owner).collect();
    for part in Part::ALL {
        let count = |owner: u32| counts.get(&(owner, part)).copied().unwrap_or(0);
        let ordinary = owners.iter().filter(|owner| !ledger.is_superuser(**owner));
        let (sum, kept) = (ordinary.copied().map(count).sum::<usize>(), ledger.owned_in_all(part));
        hold!(Books, sum == kept, "all have {sum} {part}, counted {kept}");
        for owner in &owners {
            let person = ledger.persons().of(*owner);
            let own = owners.iter().filter(|other| ledger.persons().of(**other) == person);
            let (sum, kept) =
                (own.copied().map(count).sum::<usize>(), ledger.owned_by(*owner, part));
            hold!(Books, sum == kept, "uid {owner} has {sum} {part}, counted {kept}");
        }
    }
    Ok(())
}

fn audit_depth(ledger: &Ledger) -> Result<(), Fault> {
    // As many rounds as the longest allowed path: what still grows then is deeper, or a cycle.
    let mut depth: BTreeMap<CurrencyId, usize> = BTreeMap::new();
    for _ in 0..=DEPTH_MAX + DEPTH_BEYOND {
        let mut grown = false;
        for (_, ticket) in ledger.tickets() {
            let below = depth.get(&ticket.issuer).copied().unwrap_or(0) + 1;
            let known = depth.entry(ticket.holder).or_default();
            if *known < below {
                *known = below;
                grown = true;
            }
        }
        if !grown {
            return Ok(());
        }
    }
    Err(Fault::Books("a path from base is too long, or a cycle".to_owned()))
}

/// Check that a snapshot is the whole ledger, and that the changes since its beginning are.
///
/// # Errors
/// The first fault.
pub fn audit_copies(ledger: &Ledger, start: &Ledger, changes: &[Change]) -> Result<(), Fault> {
    let restored = Ledger::restore(ledger.snapshot())?;
    hold!(Replay, restored == *ledger, "the snapshot restores another ledger");
    let mut replayed = start.clone();
    replayed.replay(changes.to_vec())?;
    hold!(Replay, replayed == *ledger, "the changes replay to another ledger");
    replayed.undo(changes.to_vec());
    hold!(Replay, replayed == *start, "the changes undone are not the beginning");
    Ok(())
}
