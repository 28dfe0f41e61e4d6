//! The state, and what can be asked of it.

mod height;
mod replay;
mod write;

use crate::quota::Quotas;
use crate::trades::Trades;
use crate::work::Work;
use crate::{
    BASE, Change, Currency, CurrencyId, CurrencyKind, CurrencyRecord, ExchangeId, HARD_TOTAL, Home,
    Member, Mode, OfferId, Persons, PolicyKey, ProcessIdentity, Resource, Rights, Ticket, TicketId,
    TicketKind,
};
pub(crate) use height::{Below, Lift};
pub use replay::{Misfit, Snapshot};
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
    pub(crate) quotas: Quotas,
    lent: BTreeMap<(CurrencyId, Resource), u64>,
    pub(crate) work: Work,
    persons: Persons,
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
            && self.quotas == other.quotas
            && self.lent == other.lent
    }
}

impl Eq for Ledger {}

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
                kind: CurrencyKind::Base,
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
            quotas: Quotas::default(),
            lent: BTreeMap::new(),
            work: Work::default(),
            persons: Persons::default(),
        }
    }

    /// How often it was written to; an authorisation is good for one version only.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many tickets were looked at so far to decide and to do what was asked, where one operation may have to look at
    /// many: along the paths above and below a currency.
    pub fn work(&self) -> u64 {
        self.work.so_far()
    }

    /// How much memory base has to promise, in KiB; 0 while it was never told.
    pub fn memory_kib(&self) -> u64 {
        self.memory_kib
    }

    /// What a currency's hard tickets of a resource total: [`HARD_TOTAL`], but of base's memory
    /// what there is of it, in KiB, so that each of them is an amount (paper 1, 5.4), once that was
    /// told.
    pub fn hard_total(&self, issuer: CurrencyId, resource: &Resource) -> u64 {
        let is_amount = issuer == BASE && self.memory_kib > 0 && resource.is_amount();
        if is_amount { self.memory_kib } else { HARD_TOTAL }
    }

    /// A currency.
    #[inline]
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

    /// Which uids belong to whom, where limits count. No part of the state: the system says it.
    pub fn persons(&self) -> &Persons {
        &self.persons
    }

    /// Says which uids belong to whom from now on.
    pub fn set_persons(&mut self, persons: Persons) {
        self.persons = persons;
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
