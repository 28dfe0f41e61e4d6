//! The broker: may this caller do that? (paper 1, 3.2 and table 1) What the checks of several
//! operations have in common.

use crate::refusal::letters;
use crate::{
    AMOUNT_MAX, Authority, BASE, Currency, CurrencyId, CurrencyKind, Funding, ISSUED_MAX, Ledger,
    Member, NewClient, Part, Refusal, Rights, TicketKind,
};

/// Answers what a caller may do, on the ledger as it is.
pub(crate) struct Broker<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) authority: &'a Authority,
}

impl Broker<'_> {
    pub(crate) fn held_besides_transfers(
        &self,
        holder: CurrencyId,
    ) -> impl Iterator<Item = &crate::Ticket> {
        let held = self.ledger.backing(holder).map(|(_, ticket)| ticket);
        held.filter(|ticket| ticket.kind != TicketKind::Transfer)
    }

    pub(crate) fn currency(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        self.ledger.currency(id).ok_or(Refusal::UnknownCurrency(id))
    }

    pub(crate) fn client(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        if currency.is_client() { Ok(currency) } else { Err(Refusal::NotClient(id)) }
    }

    pub(crate) fn issuer(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        if currency.is_client() { Err(Refusal::ClientIssues(id)) } else { Ok(currency) }
    }

    /// A currency that can exchange tickets.
    pub(crate) fn trader(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        if id == BASE { Err(Refusal::BaseTrades) } else { self.currency(id) }
    }

    pub(crate) fn pure(&self, id: CurrencyId, what: &'static str) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        let is = match currency.record.kind {
            CurrencyKind::Pure => return Ok(currency),
            CurrencyKind::Base => "base",
            CurrencyKind::Job { .. } => "a job",
            CurrencyKind::Client { .. } => "a client",
        };
        Err(Refusal::NotPure { currency: id, is, what })
    }

    pub(crate) fn uid(&self) -> Option<u32> {
        match self.authority {
            Authority::System => None,
            Authority::Caller(caller) => Some(caller.uid),
        }
    }

    pub(crate) fn is_superuser(&self) -> bool {
        self.uid().is_none_or(|uid| self.ledger.is_superuser(uid))
    }

    pub(crate) fn superuser(&self, what: &'static str) -> Result<(), Refusal> {
        if self.is_superuser() { Ok(()) } else { Err(Refusal::NotSuperuser(what)) }
    }

    pub(crate) fn system(&self, what: &'static str) -> Result<(), Refusal> {
        match self.authority {
            Authority::System => Ok(()),
            Authority::Caller(_) => Err(Refusal::NotSuperuser(what)),
        }
    }

    pub(crate) fn rights(&self, currency: &Currency) -> Rights {
        match self.authority {
            Authority::System => Rights::ALL,
            Authority::Caller(caller) => self.ledger.rights(caller, currency),
        }
    }

    pub(crate) fn must_have(&self, currency: &Currency, needs: Rights) -> Result<(), Refusal> {
        if self.rights(currency).contain(needs) {
            return Ok(());
        }
        Err(Refusal::forbidden(self.uid().unwrap_or(0), letters(needs), currency))
    }

    /// Table 1, last row: `c` on the holder or `i` on the issuer.
    pub(crate) fn may_take(&self, holder: &Currency, issuer: &Currency) -> Result<(), Refusal> {
        let may = self.rights(holder).contain(Rights::CHANGE)
            || self.rights(issuer).contain(Rights::ISSUE);
        let needs = || format!("c, or i on {}", issuer.id);
        if may { Ok(()) } else { Err(Refusal::forbidden(self.uid().unwrap_or(0), needs(), holder)) }
    }

    pub(crate) fn owner_of(&self, currency: &Currency, what: &'static str) -> Result<(), Refusal> {
        let owner = currency.record.owner;
        if self.is_superuser() || self.uid() == Some(owner) {
            return Ok(());
        }
        Err(Refusal::NotOwner { currency: currency.id, owner, what })
    }

    pub(crate) fn owner_or(&self, currency: &Currency, needs: Rights) -> Result<(), Refusal> {
        if self.uid() == Some(currency.record.owner) {
            return Ok(());
        }
        self.must_have(currency, needs)
    }

    /// Whether whoever asks may give to a currency. A gift takes up some of what its owner may have of gifts, and of the
    /// depth of what it lends on.
    pub(crate) fn consents(&self, receiver: &Currency) -> Result<(), Refusal> {
        self.owner_or(receiver, Rights::FUND)
    }

    pub(crate) fn own_member(&self, client: &NewClient) -> Result<(), Refusal> {
        match self.uid() {
            Some(uid) if !self.is_superuser() && uid != client.uid => {
                let (member, owner) = (client.member, client.uid);
                Err(Refusal::NotYours { member, owner, uid })
            }
            _ => Ok(()),
        }
    }

    /// Not all of the kernel, or all that is left.
    pub(crate) fn particular(&self, member: Member, what: &'static str) -> Result<(), Refusal> {
        if member.outlives_boot() { Err(Refusal::BadMember { member, what }) } else { Ok(()) }
    }

    pub(crate) fn process(&self, client: &NewClient) -> Result<(), Refusal> {
        let member = client.member;
        let what = "be placed, be born or change hands as a process does";
        member.process().ok_or(Refusal::BadMember { member, what }).map(drop)
    }

    pub(crate) fn known(&self, member: Member) -> Result<(), Refusal> {
        let threads = member.process().is_some_and(|it| !self.ledger.threads_of(it).is_empty());
        if threads || self.ledger.client_of_member(&member).is_some() {
            return Ok(());
        }
        Err(Refusal::UnknownMember(member))
    }

    pub(crate) fn not_yet_client(&self, client: &NewClient) -> Result<(), Refusal> {
        let member = client.member;
        match self.ledger.founded_by(&member) {
            None => Ok(()),
            Some(client) => Err(Refusal::AlreadyClient { member, client }),
        }
    }

    pub(crate) fn unless_lent(&self, holder: &Currency, issuer: CurrencyId) -> Result<(), Refusal> {
        match &holder.record.kind {
            CurrencyKind::Job { loans } if issuer == BASE && !loans.is_empty() => {
                Err(Refusal::Lent(holder.id))
            }
            _ => Ok(()),
        }
    }

    /// Whether an owner may have `more` of a part of the ledger. The superuser may give anybody more.
    pub(crate) fn quota(&self, owner: u32, part: Part, more: usize) -> Result<(), Refusal> {
        self.quota_of_moved(None, owner, part, more)
    }

    /// Whether an owner may have `more` of a part that another owner has now, or nobody.
    pub(crate) fn quota_of_moved(
        &self,
        before: Option<u32>,
        after: u32,
        part: Part,
        more: usize,
    ) -> Result<(), Refusal> {
        let persons = self.ledger.persons();
        let is_own = before.is_some_and(|before| persons.of(before) == persons.of(after));
        if more == 0 || is_own || self.is_superuser() || self.ledger.is_superuser(after) {
            return Ok(());
        }
        self.within_quota(part, after, self.ledger.owned_by(after, part) + more)?;
        if before.is_some_and(|before| !self.ledger.is_superuser(before)) {
            return Ok(());
        }
        self.within_quota_in_all(part, self.ledger.owned_in_all(part) + more)
    }

    pub(crate) fn within_quota(&self, part: Part, owner: u32, count: usize) -> Result<(), Refusal> {
        let most = self.ledger.quota(part).per_person;
        let uid = self.ledger.persons().of(owner);
        if count > most { Err(Refusal::QuotaOfPerson { uid, part, most }) } else { Ok(()) }
    }

    pub(crate) fn within_quota_in_all(&self, part: Part, count: usize) -> Result<(), Refusal> {
        let most = self.ledger.quota(part).in_all;
        if count > most { Err(Refusal::QuotaInAll { part, most }) } else { Ok(()) }
    }

    /// Whether there is room for a new client of a member, with so many tickets.
    pub(crate) fn quota_of_client(
        &self,
        client: &NewClient,
        tickets: usize,
    ) -> Result<(), Refusal> {
        let members = usize::from(client.member.process().is_none());
        self.quota(client.uid, Part::Member, members)?;
        self.quota(client.uid, Part::Ticket, tickets)
    }

    /// Whether the issuer's totals allow a ticket of that amount in place of `before`.
    pub(crate) fn room(
        &self,
        issuer: &Currency,
        funding: &Funding,
        before: u64,
    ) -> Result<(), Refusal> {
        let issued = issuer.issued_of(&funding.resource);
        let (issuer, amount, resource) = (issuer.id, funding.amount, funding.resource.clone());
        match funding.kind {
            TicketKind::Soft if amount > AMOUNT_MAX => Err(Refusal::AmountTooLarge(amount)),
            TicketKind::Soft if issued.soft - before + amount > ISSUED_MAX => {
                let issued = issued.soft - before;
                Err(Refusal::IssuedTooMuch { issuer, resource, issued, amount })
            }
            TicketKind::Hard => {
                let total = self.ledger.hard_total(issuer, &resource);
                let left = total.saturating_sub(issued.hard - before);
                match (amount > left, issuer, resource.is_amount()) {
                    (false, ..) => Ok(()),
                    (true, BASE, true) if self.ledger.memory_kib() == 0 => {
                        Err(Refusal::NoMemory { amount })
                    }
                    (true, BASE, true) => Err(Refusal::MemoryExhausted { total, left, amount }),
                    _ => Err(Refusal::HardExhausted { issuer, resource, left, amount }),
                }
            }
            TicketKind::Transfer => Err(Refusal::TransferKind),
            TicketKind::Soft => Ok(()),
        }
    }
}
