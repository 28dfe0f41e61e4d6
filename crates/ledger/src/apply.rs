//! What each authorised operation does, as a list of primitive changes.

use crate::{
    AMOUNT_MAX, Authorised, Authority, BASE, Caller, Change, Class, Currency, CurrencyId,
    CurrencyRecord, Exchange, Funding, Home, ISSUED_MAX, Intent, JOB_SHARE, Ledger, Loan, Member,
    Mode, Nature, NewClient, Placement, Placements, ProcessIdentity, Resource, Rights, SetLimit,
    Subject, TRANSFER_AMOUNT, Ticket, TicketId, TicketKind,
};
use std::collections::{BTreeMap, BTreeSet};

impl Ledger {
    /// Do what was authorised. Cannot fail.
    ///
    /// # Panics
    /// If the ledger was written to since the authorisation: a broken invariant of the caller.
    pub fn apply(&mut self, authorised: Authorised) -> Vec<Change> {
        assert_eq!(authorised.version, self.version(), "authorised for another version");
        let mut writer = Writer { ledger: self, changes: Vec::new() };
        writer.carry_out(authorised.authority, authorised.intent);
        writer.undo_uncovered();
        writer.changes
    }

    /// The pure currencies of an owner, in order of name.
    pub(crate) fn owned_pure(&self, uid: u32) -> impl Iterator<Item = CurrencyId> {
        self.names_of(uid).filter(|id| *id != BASE)
    }
}

pub(crate) struct Writer<'a> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) changes: Vec<Change>,
}

impl Writer<'_> {
    fn carry_out(&mut self, authority: Authority, intent: Intent) {
        match intent {
            Intent::CreateCurrency { name, owner, group, mode } => {
                self.create(CurrencyRecord {
                    name,
                    owner,
                    group,
                    mode,
                    grants: Vec::new(),
                    limits: BTreeMap::new(),
                    nature: Nature::Pure,
                });
            }
            Intent::DestroyCurrency { currency } => self.destroy(currency),
            Intent::ChangeMode { currency, mode } => {
                self.edit(currency, |record| record.mode = mode);
            }
            Intent::ChangeOwner { currency, owner, group } => {
                let now = self.ledger.currency(currency).expect("it exists").record.owner;
                if owner.is_some_and(|owner| owner != now) {
                    self.end_trades_of(currency);
                }
                self.edit(currency, |record| {
                    record.owner = owner.unwrap_or(record.owner);
                    record.group = group.unwrap_or(record.group);
                });
            }
            Intent::Grant { currency, subject, rights } => self.grant(currency, subject, rights),
            Intent::Fund { holder, issuer, funding } => self.fund(holder, issuer, &funding),
            Intent::Unfund { holder, issuer, resource, kind } => {
                if let Some((ticket, _)) = self.ledger.held(holder, issuer, &resource, kind) {
                    self.revoke(ticket);
                }
            }
            Intent::Adopt { client, issuer, funding } => {
                let id = self.new_client(client, false, Class::Host);
                funding.iter().for_each(|funding| self.fund(id, issuer, funding));
            }
            Intent::Release { client } => self.destroy(client),
            Intent::Join { member, client } => self.join(member.member, Some(client)),
            Intent::Leave { member } => self.join(member.member, None),
            Intent::SetClass { client, class } => self.edit(client, |record| {
                if let Nature::Client { class: now, .. } = &mut record.nature {
                    *now = class;
                }
            }),
            Intent::LimitDisk { currency, resource, limit } => {
                let by_superuser = match authority {
                    Authority::System => true,
                    Authority::Caller(caller) => self.ledger.is_superuser(caller.uid),
                };
                self.edit(currency, |record| match limit.is_none() {
                    true => drop(record.limits.remove(&resource)),
                    false => {
                        record.limits.insert(resource, SetLimit { limit, by_superuser });
                    }
                });
            }
            Intent::Transfer { lender, holder, resource } => {
                let (kind, amount) = (TicketKind::Transfer, TRANSFER_AMOUNT);
                self.issue(Ticket { issuer: lender, holder, resource, kind, amount });
            }
            Intent::TakeBack { lender, resource } => {
                let (ticket, _) =
                    self.ledger.transfer_of(lender, &resource).expect("the broker found it");
                self.revoke(ticket);
            }
            Intent::Ensure { member, funding } => {
                if self.ledger.founded_by(&member).is_none() {
                    let (uid, gid) = self.owner_of_base();
                    let client = NewClient { member, uid, gid };
                    let id = self.new_client(client, true, Class::Host);
                    for funding in &funding {
                        let funding = self.fit(BASE, funding, 0);
                        self.fund(id, BASE, &funding);
                    }
                }
            }
            Intent::SetMemory { kib } => {
                let before = self.ledger.memory_kib();
                if before != kib {
                    self.write(Change::Memory { before, after: kib });
                }
            }
            Intent::Offer { offer } => self.list_offer(offer),
            Intent::CancelOffer { offer } => self.cancel_offer(offer),
            Intent::Exchange { legs, until_s } => {
                self.exchange(Exchange { until_s, ..Exchange::of(legs) });
            }
            Intent::Clear { exchanges } => self.clear(exchanges),
            Intent::EndExchange { exchange } => self.end_exchange(exchange),
            Intent::Renew { exchange, party, until_s } => self.renew(exchange, party, until_s),
            Intent::Nice { client, resource, amount } => {
                let Authority::Caller(caller) = authority else {
                    unreachable!("the broker lets only callers be niced")
                };
                self.nice(&caller, client, resource, amount);
            }
            Intent::SetBase { placements, amount, .. } => {
                let home = self.ensure_level(BASE, &placements.levels[0]);
                let amount = amount - self.ledger.lent(home, &Resource::Cpu);
                let (resource, kind) = (Resource::Cpu, TicketKind::Soft);
                self.fund(home, BASE, &Funding { resource, kind, amount });
            }
            Intent::Place { client, placements } => {
                let id = self.new_client(client, true, Class::Host);
                self.place(id, &placements);
            }
            Intent::Fork { parent, child } => {
                self.fork(parent, child);
                self.join_as_parent(parent, child);
            }
            Intent::Exit { member } => {
                if let Some(process) = member.process() {
                    self.end_threads(process);
                }
                self.end(member);
            }
            Intent::UserChanged { client, placements } => {
                self.change_user(client, placements.as_ref());
            }
        }
    }

    fn change_user(&mut self, client: NewClient, placements: Option<&Placements>) {
        let own = self.ledger.founded_by(&client.member);
        let owner = own.map(|id| self.ledger.currency(id).expect("it exists").record.owner);
        if owner != Some(client.uid) {
            self.join(client.member, None);
            self.end_threads(client.member.process().expect("the broker found a process"));
            if let Some(id) = own {
                self.dismiss(id);
                self.take_back_all(id);
                self.end_trades_of(id);
            }
        }
        let Some(id) = own else { return };
        self.edit(id, |record| {
            record.owner = client.uid;
            record.group = client.gid;
        });
        if let Some(placements) = placements {
            self.revoke_all(id, |ticket| ticket.kind != TicketKind::Transfer);
            self.edit(id, |record| {
                if let Nature::Client { placed, .. } = &mut record.nature {
                    *placed = true;
                }
            });
            self.place(id, placements);
        }
    }

    /// Let a member join a client, or be where it belongs.
    fn join(&mut self, member: Member, after: Option<CurrencyId>) {
        let before = self.ledger.joined_by(&member);
        if before != after {
            self.write(Change::Member { member, before, after });
        }
    }

    /// A child is tagged as its parent (paper 2, 2.5), unless it has become somebody else's who
    /// might not join that client themselves.
    fn join_as_parent(&mut self, parent: ProcessIdentity, child: NewClient) {
        let Some(id) = self.ledger.joined_by(&Member::Process(parent)) else { return };
        let client = self.ledger.currency(id).expect("what was joined exists");
        let own = self.ledger.client_of(parent).and_then(|id| self.ledger.currency(id));
        let as_parent = own.is_some_and(|own| own.record.owner == child.uid);
        let caller = Caller { uid: child.uid, gid: child.gid, groups: Vec::new(), process: None };
        let may = child.uid == client.record.owner || self.may_surely_issue(&caller, client);
        if as_parent || may {
            self.join(child.member, Some(id));
        }
    }

    /// A member is gone.
    fn end(&mut self, member: Member) {
        self.join(member, None);
        if let Some(client) = self.ledger.founded_by(&member) {
            self.destroy(client);
        }
    }

    fn end_threads(&mut self, process: ProcessIdentity) {
        for thread in self.ledger.threads_of(process) {
            self.end(thread);
        }
    }

    /// All who have joined a client are where they belong.
    fn dismiss(&mut self, client: CurrencyId) {
        let members: Vec<Member> = self.ledger.members(client).collect();
        members.into_iter().for_each(|member| self.join(member, None));
    }

    fn take_back_all(&mut self, lender: CurrencyId) {
        let lent: Vec<TicketId> = self
            .ledger
            .issued(lender)
            .filter(|(_, ticket)| ticket.kind == TicketKind::Transfer)
            .map(|(id, _)| id)
            .collect();
        lent.into_iter().for_each(|ticket| self.revoke(ticket));
    }

    fn owner_of_base(&self) -> (u32, u32) {
        let base = self.ledger.currency(BASE).expect("base exists");
        (base.record.owner, base.record.group)
    }

    /// Paper 1, 5.6: a new currency for the job, funded with the requested base tickets, which
    /// the caller's own currencies lack meanwhile.
    fn nice(&mut self, caller: &Caller, client: NewClient, resource: Resource, amount: u64) {
        let lenders: Vec<_> = self.ledger.lenders(caller.uid, &resource).collect();
        let mut wanted = amount;
        let mut loans = Vec::new();
        for (lender, ticket, spare) in lenders {
            let amount = spare.min(wanted);
            if amount > 0 {
                let left = self.ledger.ticket(ticket).expect("a lender's ticket").amount - amount;
                self.set_amount(ticket, left);
                loans.push(Loan { lender, resource: resource.clone(), amount });
                wanted -= amount;
            }
        }
        assert_eq!(wanted, 0, "the broker counted what can be lent");
        let job = self.create_job(caller.uid, caller.gid, loans);
        self.fund(job, BASE, &soft(&resource, amount));
        let id = match self.ledger.founded_by(&client.member) {
            Some(id) => id,
            None => self.new_client(client, false, Class::Host),
        };
        self.fund(id, job, &soft(&resource, JOB_SHARE));
        self.revoke_all(id, |ticket| {
            let funds = ticket.kind != TicketKind::Transfer && ticket.issuer != job;
            funds && ticket.resource == resource
        });
    }

    /// A child is funded by every issuer that funds its parent (paper 1, footnote 3). Where the
    /// child's user may not issue, its ticket must come out of the parent's, or a fork would
    /// dilute the issuer's others: the parent's ticket then backs a job currency that funds
    /// both. What others have lent the parent is not the child's. A guest's child is a guest, and a
    /// limited one's has the same limits.
    fn fork(&mut self, parent: ProcessIdentity, child: NewClient) {
        let Some(parent) = self.ledger.client_of(parent) else { return };
        let (placed, class) = match self.ledger.currency(parent).map(|c| &c.record.nature) {
            Some(Nature::Client { placed, class, .. }) => (*placed, *class),
            _ => unreachable!("a process's currency is a client"),
        };
        let caller = Caller {
            uid: child.uid,
            gid: child.gid,
            groups: Vec::new(),
            process: self.ledger.currency(parent).and_then(|currency| currency.process()),
        };
        let held: Vec<(TicketId, Ticket)> = self
            .ledger
            .backing(parent)
            .filter(|(_, ticket)| ticket.kind != TicketKind::Transfer)
            .map(|(id, ticket)| (id, ticket.clone()))
            .collect();
        let id = self.new_client(child, placed, class);
        let limits = self.ledger.currency(parent).map(|currency| currency.record.limits.clone());
        self.edit(id, |record| record.limits = limits.unwrap_or_default());
        let mut shared = Vec::new();
        for (ticket_id, ticket) in held {
            if self.may_inflate(&caller, &ticket) {
                self.issue(Ticket { holder: id, ..ticket });
            } else {
                shared.push((ticket_id, ticket));
            }
        }
        if shared.is_empty() {
            return;
        }
        let (owner, group) = self.owner_of_base();
        let family = self.create_job(owner, group, Vec::new());
        let resources: BTreeSet<Resource> =
            shared.iter().map(|(_, ticket)| ticket.resource.clone()).collect();
        for (ticket_id, ticket) in shared {
            self.write(Change::Ticket {
                id: ticket_id,
                after: Some(Ticket { holder: family, ..ticket.clone() }),
                before: Some(ticket),
            });
        }
        for resource in resources {
            self.fund(parent, family, &soft(&resource, JOB_SHARE));
            self.fund(id, family, &soft(&resource, JOB_SHARE));
        }
    }

    /// Whether the child may have a ticket like its parent's besides. In a family yes: it is
    /// there to be shared. A niced job is its owner's, like any currency: others whom that
    /// funds share what they hold.
    fn may_inflate(&self, caller: &Caller, ticket: &Ticket) -> bool {
        let issuer = self.ledger.currency(ticket.issuer).expect("an issuer exists");
        let family = match &issuer.record.nature {
            Nature::Job { loans } => loans.is_empty(),
            _ => false,
        };
        let allowed = family || self.may_surely_issue(caller, issuer);
        let room = issuer.issued_of(&ticket.resource).soft + ticket.amount <= ISSUED_MAX;
        allowed && room && ticket.kind == TicketKind::Soft
    }

    /// Whether `i` is a caller's whose supplementary groups are not known: it must not hang on
    /// them, either way.
    fn may_surely_issue(&self, caller: &Caller, currency: &Currency) -> bool {
        let member = Caller { groups: vec![currency.record.group], ..caller.clone() };
        let may = |caller| self.ledger.rights(caller, currency).contain(Rights::ISSUE);
        may(caller) && may(&member)
    }

    fn place(&mut self, client: CurrencyId, placements: &Placements) {
        let last =
            placements.levels.iter().fold(BASE, |issuer, level| self.ensure_level(issuer, level));
        for funding in &placements.process {
            let funding = self.fit(last, funding, 0);
            self.fund(client, last, &funding);
        }
    }

    /// The currency of one level of the policy's path, made where it is missing. Its tickets
    /// follow the policy where nobody has set them otherwise.
    fn ensure_level(&mut self, issuer: CurrencyId, level: &Placement) -> CurrencyId {
        let known = self.ledger.home(&level.key).cloned();
        let id = match &known {
            Some(home) => home.currency,
            None => self.create(CurrencyRecord {
                name: self.free_name(level.owner, &level.name),
                owner: level.owner,
                group: level.group,
                mode: level.mode,
                grants: Vec::new(),
                limits: BTreeMap::new(),
                nature: Nature::Pure,
            }),
        };
        let home = Home { currency: id, given: level.funding.clone() };
        if known.as_ref() == Some(&home) {
            return id;
        }
        let given = known.as_ref().map_or(&[][..], |home| &home.given);
        let amount_in = |list: &[Funding], wanted: &Funding| {
            let same =
                |other: &&Funding| other.resource == wanted.resource && other.kind == wanted.kind;
            list.iter().find(same).map(|funding| funding.amount)
        };
        for old in given.iter().filter(|old| amount_in(&level.funding, old).is_none()) {
            if let Some((ticket, held)) = self.ledger.held(id, issuer, &old.resource, old.kind)
                && held.amount == old.amount
            {
                self.revoke(ticket);
            }
        }
        for new in &level.funding {
            let held = self.ledger.held(id, issuer, &new.resource, new.kind);
            let lendable = issuer == BASE && new.kind == TicketKind::Soft;
            let lent = if lendable { self.ledger.lent(id, &new.resource) } else { 0 };
            let untouched = match (held, amount_in(given, new)) {
                (None, None) => !self.ledger.funds(id, issuer),
                (Some((_, ticket)), Some(amount)) => ticket.amount + lent == amount,
                _ => false,
            };
            if untouched {
                let before = held.map_or(0, |(_, ticket)| ticket.amount);
                let amount = new.amount.saturating_sub(lent).max(lent.min(1));
                let wanted = Funding { amount, ..new.clone() };
                let fitted = self.fit(issuer, &wanted, before);
                self.fund(id, issuer, &fitted);
            }
        }
        self.write(Change::Home { key: level.key.clone(), before: known, after: Some(home) });
        id
    }

    /// What an issuer has room for in place of a ticket of `before`: a policy cannot be refused,
    /// so it gets what is left.
    fn fit(&self, issuer: CurrencyId, funding: &Funding, before: u64) -> Funding {
        let issued = self.ledger.currency(issuer).expect("it exists").issued_of(&funding.resource);
        let left = match funding.kind {
            TicketKind::Soft => ISSUED_MAX - (issued.soft - before),
            TicketKind::Hard => {
                let total = self.ledger.hard_total(issuer, &funding.resource);
                total.saturating_sub(issued.hard - before)
            }
            TicketKind::Transfer => unreachable!("the broker knows no such placement"),
        };
        Funding { amount: funding.amount.min(left), ..funding.clone() }
    }

    fn free_name(&self, owner: u32, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| self.ledger.named(owner, name).is_none())
            .expect("some number is free")
    }

    fn grant(&mut self, currency: CurrencyId, subject: Subject, rights: Rights) {
        self.edit(currency, |record| {
            record.grants.retain(|(other, _)| *other != subject);
            if rights != Rights::NONE {
                record.grants.push((subject, rights));
                record.grants.sort_by_key(|(subject, _)| *subject);
            }
        });
    }

    fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, funding: &Funding) {
        let Funding { resource, kind, amount } = funding.clone();
        match self.ledger.held(holder, issuer, &resource, kind) {
            Some((ticket, _)) => self.set_amount(ticket, amount),
            None => self.issue(Ticket { issuer, holder, resource, kind, amount }),
        }
    }

    fn issue(&mut self, ticket: Ticket) {
        let id = self.ledger.fresh_ticket();
        self.write(Change::Ticket { id, before: None, after: Some(ticket) });
    }

    fn set_amount(&mut self, id: TicketId, amount: u64) {
        let before = self.ledger.ticket(id).expect("the ticket exists").clone();
        if before.amount != amount {
            let after = Some(Ticket { amount, ..before.clone() });
            self.write(Change::Ticket { id, before: Some(before), after });
        }
    }

    fn revoke(&mut self, id: TicketId) {
        let ticket = self.ledger.ticket(id).expect("the ticket exists").clone();
        let issuer = ticket.issuer;
        self.write(Change::Ticket { id, before: Some(ticket), after: None });
        let idle = |currency: &Currency| currency.is_job() && currency.issued.is_empty();
        if self.ledger.currency(issuer).is_some_and(idle) {
            self.destroy(issuer);
        }
    }

    fn revoke_all(&mut self, holder: CurrencyId, which: impl Fn(&Ticket) -> bool) {
        let tickets: Vec<TicketId> = self
            .ledger
            .backing(holder)
            .filter(|(_, ticket)| which(ticket))
            .map(|(id, _)| id)
            .collect();
        tickets.into_iter().for_each(|ticket| self.revoke(ticket));
    }

    /// Remove a currency that funds nobody, or a client with its transfers, its exchanges and all
    /// who joined it. What a job was lent goes back to currencies that still hold the ticket it was taken
    /// from.
    fn destroy(&mut self, id: CurrencyId) {
        self.end_trades_of(id);
        self.revoke_all(id, |_| true);
        self.take_back_all(id);
        self.dismiss(id);
        let record = self.ledger.currency(id).expect("it exists").record.clone();
        if let Nature::Job { loans } = &record.nature {
            for Loan { lender, resource, amount } in loans {
                let held = self.ledger.held(*lender, BASE, resource, TicketKind::Soft);
                if let Some((ticket, held)) = held {
                    let amount = (held.amount + amount).min(AMOUNT_MAX);
                    self.set_amount(ticket, amount);
                }
            }
        }
        if record.nature == Nature::Pure {
            let home = self.ledger.homes().find(|(_, home)| home.currency == id);
            if let Some((key, home)) = home.map(|(key, home)| (key.clone(), home.clone())) {
                self.write(Change::Home { key, before: Some(home), after: None });
            }
        }
        self.write(Change::Currency { id, before: Some(Box::new(record)), after: None });
    }

    fn new_client(&mut self, client: NewClient, placed: bool, class: Class) -> CurrencyId {
        self.create(CurrencyRecord {
            name: String::new(),
            owner: client.uid,
            group: client.gid,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: BTreeMap::new(),
            nature: Nature::Client { founder: client.member, placed, class },
        })
    }

    fn create_job(&mut self, owner: u32, group: u32, loans: Vec<Loan>) -> CurrencyId {
        self.create(CurrencyRecord {
            name: String::new(),
            owner,
            group,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: BTreeMap::new(),
            nature: Nature::Job { loans },
        })
    }

    fn create(&mut self, record: CurrencyRecord) -> CurrencyId {
        let id = self.ledger.fresh_currency();
        self.write(Change::Currency { id, before: None, after: Some(Box::new(record)) });
        id
    }

    fn edit(&mut self, id: CurrencyId, how: impl FnOnce(&mut CurrencyRecord)) {
        let before = self.ledger.currency(id).expect("it exists").record.clone();
        let mut after = before.clone();
        how(&mut after);
        if after != before {
            let (before, after) = (Some(Box::new(before)), Some(Box::new(after)));
            self.write(Change::Currency { id, before, after });
        }
    }

    pub(crate) fn write(&mut self, change: Change) {
        self.ledger.write(change.clone());
        self.changes.push(change);
    }
}

fn soft(resource: &Resource, amount: u64) -> Funding {
    Funding { resource: resource.clone(), kind: TicketKind::Soft, amount }
}
