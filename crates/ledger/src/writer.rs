//! Carries out authorised operations: what they have in common, in primitive changes.

use crate::{
    AMOUNT_MAX, Authority, BASE, Change, Class, Currency, CurrencyId, CurrencyKind, CurrencyRecord,
    Funding, ISSUED_MAX, Ledger, Loan, Member, Mode, NewClient, Ticket, TicketId, TicketKind,
};
use std::collections::BTreeMap;

/// The ledger while an operation is done, and what was changed so far.
pub(crate) struct Writer<'a> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) authority: &'a Authority,
    pub(crate) changes: Vec<Change>,
}

impl Writer<'_> {
    /// Let a member join a client, or be where it belongs.
    pub(crate) fn join(&mut self, member: Member, after: Option<CurrencyId>) {
        let before = self.ledger.joined_by(&member);
        if before != after {
            self.write(Change::Member { member, before, after });
        }
    }

    /// All who have joined a client are where they belong.
    pub(crate) fn dismiss(&mut self, client: CurrencyId) {
        let members: Vec<Member> = self.ledger.members(client).collect();
        members.into_iter().for_each(|member| self.join(member, None));
    }

    pub(crate) fn take_back_all(&mut self, lender: CurrencyId) {
        let lent: Vec<TicketId> = self
            .ledger
            .issued(lender)
            .filter(|(_, ticket)| ticket.kind == TicketKind::Transfer)
            .map(|(id, _)| id)
            .collect();
        lent.into_iter().for_each(|ticket| self.revoke(ticket));
    }

    pub(crate) fn owner_of_base(&self) -> (u32, u32) {
        let base = self.ledger.currency(BASE).expect("base exists");
        (base.record.owner, base.record.group)
    }

    /// What an issuer has room for in place of a ticket of `before`: a policy cannot be refused,
    /// so it gets what is left.
    pub(crate) fn fit(&self, issuer: CurrencyId, funding: &Funding, before: u64) -> Funding {
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

    pub(crate) fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, funding: &Funding) {
        let Funding { resource, kind, amount } = funding.clone();
        match self.ledger.held(holder, issuer, &resource, kind) {
            Some((ticket, _)) => self.set_amount(ticket, amount),
            None => self.issue(Ticket { issuer, holder, resource, kind, amount }),
        }
    }

    pub(crate) fn issue(&mut self, ticket: Ticket) {
        let id = self.ledger.fresh_ticket();
        self.write(Change::Ticket { id, before: None, after: Some(ticket) });
    }

    pub(crate) fn set_amount(&mut self, id: TicketId, amount: u64) {
        let before = self.ledger.ticket(id).expect("the ticket exists").clone();
        if before.amount != amount {
            let after = Some(Ticket { amount, ..before.clone() });
            self.write(Change::Ticket { id, before: Some(before), after });
        }
    }

    pub(crate) fn revoke(&mut self, id: TicketId) {
        let ticket = self.ledger.ticket(id).expect("the ticket exists").clone();
        let issuer = ticket.issuer;
        self.write(Change::Ticket { id, before: Some(ticket), after: None });
        let idle = |currency: &Currency| currency.is_job() && currency.issued.is_empty();
        if self.ledger.currency(issuer).is_some_and(idle) {
            self.destroy(issuer);
        }
    }

    pub(crate) fn revoke_all(&mut self, holder: CurrencyId, which: impl Fn(&Ticket) -> bool) {
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
    pub(crate) fn destroy(&mut self, id: CurrencyId) {
        self.end_trades_of(id);
        self.revoke_all(id, |_| true);
        self.take_back_all(id);
        self.dismiss(id);
        let record = self.ledger.currency(id).expect("it exists").record.clone();
        if let CurrencyKind::Job { loans } = &record.kind {
            for Loan { lender, resource, amount } in loans {
                let held = self.ledger.held(*lender, BASE, resource, TicketKind::Soft);
                if let Some((ticket, held)) = held {
                    let amount = (held.amount + amount).min(AMOUNT_MAX);
                    self.set_amount(ticket, amount);
                }
            }
        }
        if record.kind == CurrencyKind::Pure {
            let home = self.ledger.homes().find(|(_, home)| home.currency == id);
            if let Some((key, home)) = home.map(|(key, home)| (key.clone(), home.clone())) {
                self.write(Change::Home { key, before: Some(home), after: None });
            }
        }
        self.write(Change::Currency { id, before: Some(Box::new(record)), after: None });
    }

    pub(crate) fn new_client(
        &mut self,
        client: NewClient,
        placed: bool,
        class: Class,
    ) -> CurrencyId {
        self.create(CurrencyRecord {
            name: String::new(),
            owner: client.uid,
            group: client.gid,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: BTreeMap::new(),
            kind: CurrencyKind::Client { founder: client.member, placed, class },
        })
    }

    pub(crate) fn create_job(&mut self, owner: u32, group: u32, loans: Vec<Loan>) -> CurrencyId {
        self.create(CurrencyRecord {
            name: String::new(),
            owner,
            group,
            mode: Mode::PRIVATE,
            grants: Vec::new(),
            limits: BTreeMap::new(),
            kind: CurrencyKind::Job { loans },
        })
    }

    pub(crate) fn create(&mut self, record: CurrencyRecord) -> CurrencyId {
        let id = self.ledger.fresh_currency();
        self.write(Change::Currency { id, before: None, after: Some(Box::new(record)) });
        id
    }

    pub(crate) fn edit(&mut self, id: CurrencyId, how: impl FnOnce(&mut CurrencyRecord)) {
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
