//! The state, its indexes, and the one place that writes to it.

use crate::cover::{Touched, touched_by};
use crate::exchange::bad_legs;
use crate::trades::Trades;
use crate::{
    AMOUNT_MAX, BASE, Change, Currency, CurrencyId, CurrencyRecord, Exchange, ExchangeId,
    HARD_TOTAL, Home, ISSUED_MAX, Loan, MEMORY_KIB_MAX, Member, Mode, Nature, Offer, OfferId,
    PolicyKey, ProcessIdentity, Resource, Rights, TRANSFER_AMOUNT, Ticket, TicketId, TicketKind,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// All currencies and tickets of a machine.
///
/// Changed only by [`apply`](Ledger::apply), [`undo`](Ledger::undo) and
/// [`replay`](Ledger::replay), all of which write through one function that keeps the indexes.
///
/// Two ledgers are equal when they hold the same; how often they were written to, and which ids
/// come next, does not matter.
#[derive(Clone, Debug)]
pub struct Ledger {
    currencies: BTreeMap<CurrencyId, Currency>,
    pub(crate) tickets: BTreeMap<TicketId, Ticket>,
    homes: BTreeMap<PolicyKey, Home>,
    joined: BTreeMap<Member, CurrencyId>,
    pub(crate) trades: Trades,
    memory_kib: u64,
    next_currency: u64,
    next_ticket: u64,
    next_exchange: u64,
    next_offer: u64,
    version: u64,
    // Indexes, derived from the above.
    by_founder: BTreeMap<Member, CurrencyId>,
    by_client: BTreeSet<(CurrencyId, Member)>,
    by_name: BTreeMap<(u32, String), CurrencyId>,
    owned: BTreeMap<u32, usize>,
    lent: BTreeMap<(CurrencyId, Resource), u64>,
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Ledger) -> bool {
        self.currencies == other.currencies
            && self.tickets == other.tickets
            && self.homes == other.homes
            && self.joined == other.joined
            && self.trades == other.trades
            && self.memory_kib == other.memory_kib
            && self.by_founder == other.by_founder
            && self.by_client == other.by_client
            && self.by_name == other.by_name
            && self.owned == other.owned
            && self.lent == other.lent
    }
}

impl Eq for Ledger {}

/// A whole ledger, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Every currency, base included.
    pub currencies: Vec<(CurrencyId, CurrencyRecord)>,
    /// Every ticket.
    pub tickets: Vec<(TicketId, Ticket)>,
    /// Every currency that the policy keeps.
    pub homes: Vec<(PolicyKey, Home)>,
    /// Everybody who has joined a client.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<(Member, CurrencyId)>,
    /// Every exchange.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<(ExchangeId, Exchange)>,
    /// Every offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<(OfferId, Offer)>,
    /// How much memory base has to promise, in KiB; 0 while it was never told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub memory_kib: u64,
    /// The next unused cid.
    pub next_currency: u64,
    /// The next unused ticket id.
    pub next_ticket: u64,
    /// The next unused id of an exchange.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_exchange: u64,
    /// The next unused id of an offer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_offer: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A change that does not fit the ledger that it was to be replayed on: the record that it came
/// from is damaged or belongs to another ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change {index} does not fit: {why}")]
pub struct Misfit {
    /// Which of the changes.
    pub index: usize,
    /// What does not fit.
    pub why: String,
}

impl Ledger {
    /// A ledger with nothing but base, owned by uid `owner` and gid `group`, who is its
    /// superuser besides root.
    pub fn new(owner: u32, group: u32) -> Ledger {
        let mut ledger = Ledger::empty();
        ledger.write(Change::Currency {
            id: BASE,
            before: None,
            after: Some(Box::new(CurrencyRecord {
                name: "base".to_owned(),
                owner,
                group,
                mode: Mode::PRIVATE,
                grants: Vec::new(),
                limits: Default::default(),
                nature: Nature::Base,
            })),
        });
        ledger
    }

    fn empty() -> Ledger {
        Ledger {
            currencies: BTreeMap::new(),
            tickets: BTreeMap::new(),
            homes: BTreeMap::new(),
            joined: BTreeMap::new(),
            trades: Trades::default(),
            memory_kib: 0,
            next_currency: 0,
            next_ticket: 0,
            next_exchange: 0,
            next_offer: 0,
            version: 0,
            by_founder: BTreeMap::new(),
            by_client: BTreeSet::new(),
            by_name: BTreeMap::new(),
            owned: BTreeMap::new(),
            lent: BTreeMap::new(),
        }
    }

    /// How often it was written to; an authorisation is good for one version only.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How much memory base has to promise, in KiB; 0 while it was never told.
    pub fn memory_kib(&self) -> u64 {
        self.memory_kib
    }

    /// What a currency's hard tickets of a resource total: [`HARD_TOTAL`], but of base's memory
    /// what there is of it, in KiB, so that each of them is an amount (paper 1, 5.4), once that was
    /// told.
    pub fn hard_total(&self, issuer: CurrencyId, resource: &Resource) -> u64 {
        match (issuer, resource) {
            (BASE, Resource::Memory) if self.memory_kib > 0 => self.memory_kib,
            _ => HARD_TOTAL,
        }
    }

    /// A currency.
    pub fn currency(&self, id: CurrencyId) -> Option<&Currency> {
        self.currencies.get(&id)
    }

    /// Every currency, in order of cid, base first.
    pub fn currencies(&self) -> impl Iterator<Item = &Currency> {
        self.currencies.values()
    }

    /// How many currencies there are, base and clients included.
    pub fn currency_count(&self) -> usize {
        self.currencies.len()
    }

    /// A ticket.
    pub fn ticket(&self, id: TicketId) -> Option<&Ticket> {
        self.tickets.get(&id)
    }

    /// Every ticket, oldest first.
    pub fn tickets(&self) -> impl Iterator<Item = (TicketId, &Ticket)> {
        self.tickets.iter().map(|(id, ticket)| (*id, ticket))
    }

    /// The tickets that a currency holds, oldest first.
    pub fn backing(&self, id: CurrencyId) -> impl Iterator<Item = (TicketId, &Ticket)> {
        let ids = self.currencies.get(&id).map(|currency| &currency.backing);
        ids.into_iter().flatten().map(|ticket| (*ticket, &self.tickets[ticket]))
    }

    /// The tickets that a currency has issued, oldest first.
    pub fn issued(&self, id: CurrencyId) -> impl Iterator<Item = (TicketId, &Ticket)> {
        let ids = self.currencies.get(&id).map(|currency| &currency.issued);
        ids.into_iter().flatten().map(|ticket| (*ticket, &self.tickets[ticket]))
    }

    /// The holder's ticket from an issuer.
    pub fn held(
        &self,
        holder: CurrencyId,
        issuer: CurrencyId,
        resource: &Resource,
        kind: TicketKind,
    ) -> Option<(TicketId, &Ticket)> {
        self.backing(holder).find(|(_, ticket)| {
            ticket.issuer == issuer && ticket.kind == kind && ticket.resource == *resource
        })
    }

    /// The client that a process has founded: its own, whatever it has joined since.
    pub fn client_of(&self, process: ProcessIdentity) -> Option<CurrencyId> {
        self.founded_by(&Member::Process(process))
    }

    /// The client that a member has founded.
    pub fn founded_by(&self, member: &Member) -> Option<CurrencyId> {
        self.by_founder.get(member).copied()
    }

    /// The client as part of which a member consumes now: the one that it has joined, or else
    /// founded.
    pub fn client_of_member(&self, member: &Member) -> Option<CurrencyId> {
        self.joined_by(member).or_else(|| self.founded_by(member))
    }

    /// The client that a member has joined.
    pub fn joined_by(&self, member: &Member) -> Option<CurrencyId> {
        self.joined.get(member).copied()
    }

    /// Everybody who has joined a client, in order of member.
    pub fn joined(&self) -> impl Iterator<Item = (Member, CurrencyId)> {
        self.joined.iter().map(|(member, id)| (*member, *id))
    }

    /// Those who have joined one client.
    pub fn members(&self, client: CurrencyId) -> impl Iterator<Item = Member> {
        // A process with the least numbers is the least member.
        let least = ProcessIdentity { pid: 0, start_time_ticks: 0 };
        self.by_client
            .range((client, Member::Process(least))..)
            .map_while(move |(id, member)| (*id == client).then_some(*member))
    }

    /// Every client and its founder, in order of founder.
    pub fn clients(&self) -> impl Iterator<Item = (Member, CurrencyId)> {
        self.by_founder.iter().map(|(founder, id)| (*founder, *id))
    }

    /// Every client that a process has founded, in order of process.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessIdentity, CurrencyId)> {
        self.by_founder
            .iter()
            .map_while(|(founder, id)| founder.process().map(|process| (process, *id)))
    }

    /// The threads of a process that have founded or joined a client.
    pub(crate) fn threads_of(&self, process: ProcessIdentity) -> BTreeSet<Member> {
        let thread = |tid, start_time_ticks| {
            Member::Thread(crate::ThreadIdentity { process, tid, start_time_ticks })
        };
        let all = thread(0, 0)..=thread(u32::MAX, u64::MAX);
        let founders = self.by_founder.range(all.clone()).map(|(member, _)| *member);
        founders.chain(self.joined.range(all).map(|(member, _)| *member)).collect()
    }

    /// The ticket by which a client has lent its own to another.
    pub fn transfer_of(
        &self,
        lender: CurrencyId,
        resource: &Resource,
    ) -> Option<(TicketId, &Ticket)> {
        self.issued(lender)
            .find(|(_, ticket)| ticket.kind == TicketKind::Transfer && ticket.resource == *resource)
    }

    /// An owner's pure currency by name.
    pub fn named(&self, owner: u32, name: &str) -> Option<CurrencyId> {
        self.by_name.get(&(owner, name.to_owned())).copied()
    }

    /// The currency that the funding policy keeps for a key.
    pub fn home(&self, key: &PolicyKey) -> Option<&Home> {
        self.homes.get(key)
    }

    /// Every currency that the funding policy keeps.
    pub fn homes(&self) -> impl Iterator<Item = (&PolicyKey, &Home)> {
        self.homes.iter()
    }

    /// How many of its soft base tickets a currency has lent to jobs.
    pub fn lent(&self, lender: CurrencyId, resource: &Resource) -> u64 {
        self.lent.get(&(lender, resource.clone())).copied().unwrap_or(0)
    }

    /// The named currencies of an owner, in order of name.
    pub(crate) fn names_of(&self, owner: u32) -> impl Iterator<Item = CurrencyId> {
        self.by_name
            .range((owner, String::new())..)
            .map_while(move |((uid, _), id)| (*uid == owner).then_some(*id))
    }

    /// How many pure currencies and jobs a uid owns.
    pub(crate) fn owned_by(&self, uid: u32) -> usize {
        self.owned.get(&uid).copied().unwrap_or(0)
    }

    /// Whether `from` issues, over any number of currencies, tickets that fund `to`.
    pub(crate) fn funds(&self, from: CurrencyId, to: CurrencyId) -> bool {
        let leaf = self.currencies.get(&from).is_none_or(|currency| currency.issued.is_empty());
        if from == to || leaf {
            return from == to;
        }
        let mut seen = BTreeSet::from([to]);
        let mut open = vec![to];
        while let Some(id) = open.pop() {
            for (_, ticket) in self.backing(id) {
                if ticket.issuer == from {
                    return true;
                }
                if seen.insert(ticket.issuer) {
                    open.push(ticket.issuer);
                }
            }
        }
        false
    }

    /// The longest path from base, in currencies above it.
    pub(crate) fn depth(&self, id: CurrencyId) -> usize {
        self.longest(id, &mut BTreeMap::new(), &|ledger, id| {
            ledger.backing(id).map(|(_, ticket)| ticket.issuer).collect()
        })
    }

    /// The longest path to a leaf, in currencies below it.
    pub(crate) fn height(&self, id: CurrencyId) -> usize {
        self.longest(id, &mut BTreeMap::new(), &|ledger, id| {
            ledger.issued(id).map(|(_, ticket)| ticket.holder).collect()
        })
    }

    // Recursion is bounded: no path is longer than DEPTH_MAX and a few job currencies.
    fn longest(
        &self,
        id: CurrencyId,
        known: &mut BTreeMap<CurrencyId, usize>,
        next: &dyn Fn(&Ledger, CurrencyId) -> Vec<CurrencyId>,
    ) -> usize {
        if let Some(length) = known.get(&id) {
            return *length;
        }
        let length = next(self, id)
            .into_iter()
            .map(|neighbour| 1 + self.longest(neighbour, known, next))
            .max()
            .unwrap_or(0);
        known.insert(id, length);
        length
    }

    pub(crate) fn fresh_currency(&self) -> CurrencyId {
        CurrencyId(self.next_currency)
    }

    pub(crate) fn fresh_ticket(&self) -> TicketId {
        TicketId(self.next_ticket)
    }

    pub(crate) fn fresh_exchange(&self) -> ExchangeId {
        ExchangeId(self.next_exchange)
    }

    pub(crate) fn fresh_offer(&self) -> OfferId {
        OfferId(self.next_offer)
    }

    /// Undo what [`apply`](Ledger::apply) did, given its changes in their order.
    pub fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            self.write(change.inverse());
        }
    }

    /// Do again what was done, from the changes that were written down.
    ///
    /// # Errors
    /// [`Misfit`] where a change does not fit; the ledger is then half changed and of no use.
    pub fn replay(&mut self, changes: Vec<Change>) -> Result<(), Misfit> {
        let last = changes.len().saturating_sub(1);
        let mut touched = Touched::new();
        for (index, change) in changes.into_iter().enumerate() {
            self.fits(&change).map_err(|why| Misfit { index, why })?;
            let change = std::slice::from_ref(&change);
            touched.append(&mut touched_by(self, change));
            self.write(change[0].clone());
            touched.append(&mut touched_by(self, change));
        }
        // Not before the end: what an operation uncovers it undoes itself.
        match self.first_uncovered(&touched) {
            None => Ok(()),
            Some((id, good)) => {
                let why = format!("currency {id} gives more {} than it covers", good.resource);
                Err(Misfit { index: last, why })
            }
        }
    }

    fn fits(&self, change: &Change) -> Result<(), String> {
        let known = |id: &CurrencyId| self.currencies.contains_key(id);
        match change {
            Change::Currency { id, before, after } => {
                let now = self.currencies.get(id);
                if now.map(|currency| &currency.record) != before.as_deref() {
                    return Err(format!("currency {id} is not what it was"));
                }
                let bare = |currency: &Currency| {
                    currency.backing.is_empty()
                        && currency.issued.is_empty()
                        && self.members(*id).next().is_none()
                        && !self.trades.concern(*id)
                };
                match after {
                    None if !now.is_some_and(bare) => {
                        return Err(format!("currency {id} is removed with tickets or members"));
                    }
                    None => {}
                    Some(record) => {
                        let leaf = matches!(record.nature, Nature::Client { .. });
                        if now.is_some_and(|currency| currency.is_client() != leaf) {
                            return Err(format!("currency {id} becomes or ceases to be a client"));
                        }
                        self.record_fits(*id, record)?;
                    }
                }
            }
            Change::Memory { before, after } => {
                let issued =
                    self.currencies.get(&BASE).map(|base| base.issued_of(&Resource::Memory));
                let issued = issued.map_or(0, |issued| issued.hard);
                if *before != self.memory_kib {
                    return Err("the memory of base is not what it was".to_owned());
                }
                let never_told = if *after == 0 { HARD_TOTAL } else { *after };
                if *after > MEMORY_KIB_MAX || issued > never_told {
                    return Err(format!("base cannot have {after} KiB of memory"));
                }
            }
            Change::Ticket { id, before, after } => {
                if self.tickets.get(id) != before.as_ref() {
                    return Err(format!("ticket {} is not what it was", id.0));
                }
                if let Some(ticket) = after {
                    self.ticket_fits(*id, before.as_ref(), ticket)?;
                }
            }
            Change::Exchange { id, before, after } => {
                if self.exchange(*id) != before.as_ref() {
                    return Err(format!("{id} is not what it was"));
                }
                if let Some(exchange) = after {
                    self.exchange_fits(*id, exchange)?;
                }
            }
            Change::Offer { id, before, after } => {
                if self.offer(*id) != before.as_deref() {
                    return Err(format!("{id} is not what it was"));
                }
                let same = |offer: &Offer| before.as_ref().is_none_or(|it| it.party == offer.party);
                let party = |id: &CurrencyId| *id != BASE && known(id);
                if let Some(offer) = after.as_deref()
                    && !(offer.terms.check().is_ok() && party(&offer.party) && same(offer))
                {
                    return Err(format!("{id} is none that can be made"));
                }
            }
            Change::Home { key, before, after } => {
                if self.homes.get(key) != before.as_ref() {
                    return Err(format!("the policy's currency for {key} is not what it was"));
                }
                if after.as_ref().is_some_and(|home| !known(&home.currency)) {
                    return Err(format!("the policy's currency for {key} is unknown"));
                }
            }
            Change::Member { member, before, after } => {
                if self.joined_by(member) != *before {
                    return Err(format!("{member} is not in the client that it was in"));
                }
                let client = |id| self.currencies.get(id).is_some_and(Currency::is_client);
                if after.as_ref().is_some_and(|id| !client(id)) {
                    return Err(format!("{member} joins what is no client"));
                }
                if after.is_some() && *after == self.founded_by(member) {
                    return Err(format!("{member} joins the client that it founded"));
                }
            }
        }
        Ok(())
    }

    fn record_fits(&self, id: CurrencyId, record: &CurrencyRecord) -> Result<(), String> {
        let taken = match &record.nature {
            Nature::Client { founder, .. } => self.founded_by(founder),
            Nature::Base | Nature::Pure => self.named(record.owner, &record.name),
            Nature::Job { .. } => None,
        };
        if let Some(other) = taken.filter(|other| *other != id) {
            return Err(format!("currency {id} has the name or founder of {other}"));
        }
        if (id == BASE) != (record.nature == Nature::Base) {
            return Err(format!("currency {id} is not the one base"));
        }
        Ok(())
    }

    fn exchange_fits(&self, id: ExchangeId, exchange: &Exchange) -> Result<(), String> {
        if let Some(why) = bad_legs(&exchange.legs) {
            return Err(format!("{id} cannot be: {why}"));
        }
        let known = |party: &CurrencyId| *party != BASE && self.currencies.contains_key(party);
        let parties = exchange.parties();
        if !parties.iter().all(known) {
            return Err(format!("{id} is between currencies that cannot exchange"));
        }
        match exchange.leases.keys().all(|party| parties.contains(party)) {
            true => Ok(()),
            false => Err(format!("{id} has a lease of somebody who takes no part in it")),
        }
    }

    fn ticket_fits(
        &self,
        id: TicketId,
        before: Option<&Ticket>,
        ticket: &Ticket,
    ) -> Result<(), String> {
        let Ticket { issuer, holder, resource, kind, amount } = ticket;
        let joinable = |from: &Currency, to: &Currency| match kind {
            TicketKind::Transfer => from.is_client() && to.is_client(),
            TicketKind::Soft | TicketKind::Hard => !from.is_client() && to.id != BASE,
        };
        let (from, to) = match (self.currencies.get(issuer), self.currencies.get(holder)) {
            (Some(from), Some(to)) if joinable(from, to) => (from, to),
            _ => return Err(format!("ticket {} joins currencies that cannot be joined", id.0)),
        };
        let other = self.held(*holder, *issuer, resource, *kind);
        if other.is_some_and(|(other, _)| other != id) {
            return Err(format!("ticket {} is a second of its kind", id.0));
        }
        let same = before
            .filter(|old| (old.issuer, &old.resource, old.kind) == (*issuer, resource, *kind));
        let freed = same.map_or(0, |old| old.amount);
        let issued = from.issued_of(resource);
        let (most, left) = match kind {
            TicketKind::Soft => (AMOUNT_MAX, ISSUED_MAX - (issued.soft - freed)),
            TicketKind::Hard => {
                let total = self.hard_total(from.id, resource);
                (total, total.saturating_sub(issued.hard - freed))
            }
            TicketKind::Transfer => {
                let lent = self.transfer_of(from.id, resource);
                if *amount != TRANSFER_AMOUNT || lent.is_some_and(|(other, _)| other != id) {
                    return Err(format!("ticket {} lends what cannot be lent", id.0));
                }
                (TRANSFER_AMOUNT, TRANSFER_AMOUNT)
            }
        };
        if *amount > most.min(left) {
            return Err(format!("ticket {} has {amount}, more than its issuer may", id.0));
        }
        let moved = before.is_none_or(|old| (old.issuer, old.holder) != (*issuer, *holder));
        if moved && self.funds(to.id, *issuer) {
            return Err(format!("ticket {} closes a cycle", id.0));
        }
        Ok(())
    }

    /// The whole state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            currencies: self.currencies.values().map(|c| (c.id, c.record.clone())).collect(),
            tickets: self.tickets.iter().map(|(id, ticket)| (*id, ticket.clone())).collect(),
            homes: self.homes.iter().map(|(key, home)| (key.clone(), home.clone())).collect(),
            joined: self.joined().collect(),
            exchanges: self.exchanges().map(|(id, exchange)| (id, exchange.clone())).collect(),
            offers: self.offers().map(|(id, offer)| (id, offer.clone())).collect(),
            memory_kib: self.memory_kib,
            next_currency: self.next_currency,
            next_ticket: self.next_ticket,
            next_exchange: self.next_exchange,
            next_offer: self.next_offer,
        }
    }

    /// The ledger that a snapshot was taken of.
    ///
    /// # Errors
    /// [`Misfit`] where the snapshot contradicts itself.
    pub fn restore(snapshot: Snapshot) -> Result<Ledger, Misfit> {
        let Snapshot { currencies, tickets, homes, joined, exchanges, offers, .. } = snapshot;
        let Snapshot { memory_kib, next_currency, next_ticket, .. } = snapshot;
        let Snapshot { next_exchange, next_offer, .. } = snapshot;
        let currencies = currencies.into_iter().map(|(id, record)| Change::Currency {
            id,
            before: None,
            after: Some(Box::new(record)),
        });
        let tickets = tickets.into_iter().map(|(id, ticket)| Change::Ticket {
            id,
            before: None,
            after: Some(ticket),
        });
        let homes = homes.into_iter().map(|(key, home)| Change::Home {
            key,
            before: None,
            after: Some(home),
        });
        let joined = joined.into_iter().map(|(member, id)| Change::Member {
            member,
            before: None,
            after: Some(id),
        });
        let exchanges = exchanges.into_iter().map(|(id, exchange)| Change::Exchange {
            id,
            before: None,
            after: Some(exchange),
        });
        let offers = offers.into_iter().map(|(id, offer)| Change::Offer {
            id,
            before: None,
            after: Some(Box::new(offer)),
        });
        let mut ledger = Ledger::empty();
        // Before the tickets that it bounds.
        ledger.replay(vec![Change::Memory { before: 0, after: memory_kib }])?;
        let trades = exchanges.chain(offers);
        ledger
            .replay(currencies.chain(tickets).chain(homes).chain(joined).chain(trades).collect())?;
        if !ledger.currencies.contains_key(&BASE) {
            return Err(Misfit { index: 0, why: "there is no base".to_owned() });
        }
        ledger.next_currency = ledger.next_currency.max(next_currency);
        ledger.next_ticket = ledger.next_ticket.max(next_ticket);
        ledger.next_exchange = ledger.next_exchange.max(next_exchange);
        ledger.next_offer = ledger.next_offer.max(next_offer);
        Ok(ledger)
    }

    /// The one place where the ledger changes.
    pub(crate) fn write(&mut self, change: Change) {
        self.version += 1;
        match change {
            Change::Currency { id, before, after } => {
                if let Some(record) = before.as_deref() {
                    self.unindex(id, record);
                }
                match after {
                    Some(record) => {
                        self.index(id, &record);
                        self.next_currency = self.next_currency.max(id.0 + 1);
                        if let Some(before) = &before {
                            self.trades.change_owner(id, before.owner, record.owner);
                        }
                        match self.currencies.get_mut(&id) {
                            Some(currency) => currency.record = *record,
                            None => {
                                let currency = Currency {
                                    id,
                                    record: *record,
                                    backing: BTreeSet::new(),
                                    issued: BTreeSet::new(),
                                    totals: BTreeMap::new(),
                                };
                                self.currencies.insert(id, currency);
                            }
                        }
                    }
                    None => {
                        let gone = self.currencies.remove(&id).expect("a removed currency exists");
                        assert!(gone.backing.is_empty() && gone.issued.is_empty());
                        assert!(!self.trades.concern(id), "gone without its exchanges");
                    }
                }
            }
            Change::Ticket { id, before, after } => {
                if let Some(ticket) = &before {
                    self.detach(id, ticket);
                }
                match after {
                    Some(ticket) => {
                        self.attach(id, &ticket);
                        self.next_ticket = self.next_ticket.max(id.0 + 1);
                        self.tickets.insert(id, ticket);
                    }
                    None => {
                        self.tickets.remove(&id);
                    }
                }
            }
            Change::Home { key, after, .. } => match after {
                Some(home) => {
                    self.homes.insert(key, home);
                }
                None => {
                    self.homes.remove(&key);
                }
            },
            Change::Member { member, before, after } => {
                if let Some(client) = before {
                    self.by_client.remove(&(client, member));
                    self.joined.remove(&member);
                }
                if let Some(client) = after {
                    self.by_client.insert((client, member));
                    self.joined.insert(member, client);
                }
            }
            Change::Exchange { id, before, after } => {
                self.next_exchange = self.next_exchange.max(id.0 + 1);
                let legs = before.iter().chain(&after).flat_map(|exchange| &exchange.legs);
                let givers: BTreeSet<_> =
                    legs.map(|leg| (leg.giver, leg.good.resource.clone())).collect();
                let led: Vec<bool> = givers.iter().map(|key| self.trades.is_lead(key)).collect();
                let currencies = &self.currencies;
                let owner_of = |id: CurrencyId| currencies.get(&id).map_or(0, |it| it.record.owner);
                self.trades.set_exchange(id, owner_of, after);
                for (key, led) in givers.iter().zip(led) {
                    let leads = self.trades.is_lead(key);
                    if leads != led {
                        self.relead(key.0, &key.1, leads);
                    }
                }
            }
            Change::Offer { id, before, after } => {
                self.next_offer = self.next_offer.max(id.0 + 1);
                let party = before.iter().chain(&after).map(|offer| offer.party).next();
                let party = party.and_then(|party| self.currencies.get(&party));
                let owner = party.map_or(0, |currency| currency.record.owner);
                self.trades.set_offer(id, owner, after.map(|offer| *offer));
            }
            Change::Memory { after, .. } => self.memory_kib = after,
        }
    }

    fn index(&mut self, id: CurrencyId, record: &CurrencyRecord) {
        match &record.nature {
            Nature::Client { founder, .. } => {
                self.by_founder.insert(*founder, id);
            }
            Nature::Base | Nature::Pure => {
                self.by_name.insert((record.owner, record.name.clone()), id);
            }
            Nature::Job { loans } => {
                for Loan { lender, resource, amount } in loans {
                    *self.lent.entry((*lender, resource.clone())).or_default() += amount;
                }
            }
        }
        if !matches!(record.nature, Nature::Client { .. }) {
            *self.owned.entry(record.owner).or_default() += 1;
        }
    }

    fn unindex(&mut self, id: CurrencyId, record: &CurrencyRecord) {
        match &record.nature {
            Nature::Client { founder, .. } => {
                self.by_founder.remove(founder);
            }
            Nature::Base | Nature::Pure => {
                let gone = self.by_name.remove(&(record.owner, record.name.clone()));
                debug_assert_eq!(gone, Some(id));
            }
            Nature::Job { loans } => {
                for Loan { lender, resource, amount } in loans {
                    subtract(&mut self.lent, (*lender, resource.clone()), *amount);
                }
            }
        }
        if !matches!(record.nature, Nature::Client { .. }) {
            let left = self.owned.get_mut(&record.owner).expect("the owner was counted");
            *left -= 1;
            if *left == 0 {
                self.owned.remove(&record.owner);
            }
        }
    }

    fn attach(&mut self, id: TicketId, ticket: &Ticket) {
        let holder = self.currencies.get_mut(&ticket.holder).expect("the holder exists");
        holder.backing.insert(id);
        let issuer = self.currencies.get_mut(&ticket.issuer).expect("the issuer exists");
        issuer.issued.insert(id);
        let totals = issuer.totals.entry(ticket.resource.clone()).or_default();
        totals.tickets += 1;
        match ticket.kind {
            TicketKind::Soft => totals.soft += ticket.amount,
            TicketKind::Hard => totals.hard += ticket.amount,
            TicketKind::Transfer => {}
        }
        self.lead(id, ticket, true);
    }

    /// A ticket has come or gone that may lead to a giver.
    fn lead(&mut self, id: TicketId, ticket: &Ticket, comes: bool) {
        let Ticket { issuer, holder, resource, kind, .. } = ticket;
        let leads = *issuer != BASE
            && *kind != TicketKind::Transfer
            && self.trades.is_lead(&(*holder, resource.clone()));
        if leads && self.trades.lead(*issuer, resource, id, comes) {
            self.relead(*issuer, resource, comes);
        }
    }

    fn detach(&mut self, id: TicketId, ticket: &Ticket) {
        self.lead(id, ticket, false);
        let holder = self.currencies.get_mut(&ticket.holder).expect("the holder exists");
        holder.backing.remove(&id);
        let issuer = self.currencies.get_mut(&ticket.issuer).expect("the issuer exists");
        issuer.issued.remove(&id);
        let totals = issuer.totals.get_mut(&ticket.resource).expect("what was issued was counted");
        match ticket.kind {
            TicketKind::Soft => totals.soft -= ticket.amount,
            TicketKind::Hard => totals.hard -= ticket.amount,
            TicketKind::Transfer => {}
        }
        totals.tickets -= 1;
        if totals.tickets == 0 {
            issuer.totals.remove(&ticket.resource);
        }
    }

    /// The rights of uid, gid, groups and process on a currency, by its mode and grants: as with
    /// files, the owner has the owner's rights and no others. The superuser has all.
    pub(crate) fn rights(&self, caller: &crate::Caller, currency: &Currency) -> Rights {
        if self.is_superuser(caller.uid) {
            return Rights::ALL;
        }
        let record = &currency.record;
        let member = |gid: u32| caller.gid == gid || caller.groups.contains(&gid);
        let by_mode = if caller.uid == record.owner {
            record.mode.owner()
        } else if member(record.group) {
            record.mode.group()
        } else {
            record.mode.others()
        };
        let granted = record.grants.iter().filter(|(subject, _)| match subject {
            crate::Subject::Uid(uid) => *uid == caller.uid,
            crate::Subject::Gid(gid) => member(*gid),
            crate::Subject::Process(process) => Some(*process) == caller.process,
        });
        granted.fold(by_mode, |all, (_, rights)| all.union(*rights))
    }

    /// Whether a uid overrides the checks: root, or the owner of base (a private allotd's).
    pub fn is_superuser(&self, uid: u32) -> bool {
        uid == 0 || self.currencies.get(&BASE).is_some_and(|base| base.record.owner == uid)
    }
}

fn subtract<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, amount: u64) {
    let left = sums.get_mut(&key).expect("what was added is there");
    *left -= amount;
    if *left == 0 {
        sums.remove(&key);
    }
}
