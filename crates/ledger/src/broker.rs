//! The broker: may this caller do that? (paper 1, 3.2 and table 1)
//!
//! Every check that can fail is made here, so that [`Ledger::apply`] cannot.

use crate::refusal::letters;
use crate::{
    AMOUNT_MAX, Authority, BACKERS_MAX, BASE, CURRENCIES_PER_OWNER_MAX, Caller, Currency,
    CurrencyId, DEPTH_MAX, DiskLimit, Funding, GRANTS_MAX, HARD_TOTAL, ISSUED_MAX, Intent,
    LIMITS_MAX, Ledger, MEMORY_KIB_MAX, Member, NAME_LEN_MAX, Nature, NewClient, Placements,
    PolicyKey, Refusal, Resource, Rights, Subject, TRANSFERS_MAX, TicketKind,
};
use std::collections::BTreeSet;

/// An intent that the broker allowed, good for the ledger as it was then. Only [`decide`]
/// makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorised {
    pub(crate) authority: Authority,
    pub(crate) intent: Intent,
    pub(crate) version: u64,
}

impl Authorised {
    /// On whose authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// What.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }
}

/// Allow an intent, or say why not.
///
/// # Errors
/// A [`Refusal`]; the ledger is unchanged either way.
pub fn decide(
    ledger: &Ledger,
    authority: Authority,
    intent: Intent,
) -> Result<Authorised, Refusal> {
    let broker = Broker { ledger, authority: &authority };
    broker.check(&intent)?;
    Ok(Authorised { version: ledger.version(), authority, intent })
}

pub(crate) struct Broker<'a> {
    pub(crate) ledger: &'a Ledger,
    authority: &'a Authority,
}

impl Broker<'_> {
    fn check(&self, intent: &Intent) -> Result<(), Refusal> {
        match intent {
            Intent::CreateCurrency { name, owner, group, .. } => {
                self.check_create(name, *owner, *group)
            }
            Intent::DestroyCurrency { currency } => {
                let currency = self.pure(*currency, "be destroyed")?;
                self.must_have(currency, Rights::CHANGE)?;
                self.unless_home(currency, "destroy a currency that the funding policy keeps")?;
                match currency.issued.len() {
                    0 => Ok(()),
                    holders => Err(Refusal::StillFunds { currency: currency.id, holders }),
                }
            }
            Intent::ChangeMode { currency, .. } => {
                self.owner_of(self.currency(*currency)?, "change the mode")
            }
            Intent::ChangeOwner { currency, owner, group } => {
                self.check_owner_change(*currency, *owner, *group)
            }
            Intent::Grant { currency, subject, .. } => {
                let currency = self.currency(*currency)?;
                self.owner_of(currency, "grant rights")?;
                let grants = &currency.record.grants;
                let known = grants.iter().any(|(other, _)| other == subject);
                if !known && grants.len() >= GRANTS_MAX {
                    return Err(Refusal::TooManyGrants(currency.id));
                }
                if let Subject::Process(process) = subject
                    && self.ledger.client_of(*process).is_none()
                {
                    return Err(Refusal::UnknownProcess(*process));
                }
                Ok(())
            }
            Intent::Fund { holder, issuer, funding } => self.check_fund(*holder, *issuer, funding),
            Intent::Unfund { holder, issuer, resource, kind } => {
                let unknown = || Refusal::UnknownTicket {
                    holder: *holder,
                    issuer: *issuer,
                    resource: resource.clone(),
                };
                if *kind == TicketKind::Transfer {
                    return Err(Refusal::TransferKind);
                }
                let (to, from) = (self.currency(*holder)?, self.currency(*issuer)?);
                self.ledger.held(*holder, *issuer, resource, *kind).ok_or_else(unknown)?;
                self.unless_lent(to, *issuer)?;
                self.may_take(to, from)
            }
            Intent::Adopt { client, issuer, funding } => {
                self.own_member(client)?;
                self.particular(client.member, "be adopted; the daemon makes it a client")?;
                self.not_yet_client(client)?;
                let issuer = self.issuer(*issuer)?;
                self.must_have(issuer, Rights::ISSUE)?;
                if funding.len() > BACKERS_MAX {
                    return Err(Refusal::TooManyBackers(self.ledger.fresh_currency()));
                }
                if self.ledger.depth(issuer.id) >= DEPTH_MAX {
                    return Err(Refusal::TooDeep(self.ledger.fresh_currency()));
                }
                funding.iter().try_for_each(|funding| self.room(issuer, funding, 0))
            }
            Intent::Release { client } => {
                let currency = self.client(*client)?;
                match currency.record.nature {
                    Nature::Client { placed: true, .. } => {
                        self.superuser("release a process that the funding policy placed")
                    }
                    _ => self.must_have(currency, Rights::CHANGE),
                }
            }
            Intent::Join { member, client } => self.check_join(member, *client),
            Intent::Leave { member } => {
                let joined = self.ledger.joined_by(&member.member);
                let joined = self.currency(joined.ok_or(Refusal::NotJoined(member.member))?)?;
                if self.rights(joined).contain(Rights::CHANGE) {
                    return Ok(());
                }
                self.own_member(member)
            }
            Intent::SetClass { client, .. } => self.owner_or(self.client(*client)?, Rights::CHANGE),
            Intent::LimitDisk { currency, resource, limit } => {
                self.check_limit(*currency, resource, limit)
            }
            Intent::Transfer { lender, holder, resource } => {
                self.check_transfer(*lender, *holder, resource)
            }
            Intent::TakeBack { lender, resource } => {
                self.owner_or(self.client(*lender)?, Rights::CHANGE)?;
                let (lender, resource) = (*lender, resource.clone());
                match self.ledger.transfer_of(lender, &resource) {
                    Some(_) => Ok(()),
                    None => Err(Refusal::NotLent { lender, resource }),
                }
            }
            Intent::Ensure { member, funding } => {
                self.superuser("fund the kernel's threads, or the processes that nobody manages")?;
                if !member.outlives_boot() {
                    let what = "be ensured; it can be adopted";
                    return Err(Refusal::BadMember { member: *member, what });
                }
                if funding.iter().all(in_range_of_base) {
                    return Ok(());
                }
                Err(Refusal::BadPlacement {
                    name: member.to_string(),
                    why: "its amounts are out of range".to_owned(),
                })
            }
            Intent::SetMemory { kib } => self.check_memory(*kib),
            Intent::Offer { offer } => self.check_offer(offer),
            Intent::CancelOffer { offer } => self.check_cancel(*offer),
            Intent::Exchange { legs, .. } => self.check_exchange(legs),
            Intent::Clear { exchanges } => self.check_clear(exchanges),
            Intent::EndExchange { exchange } => self.check_end(*exchange),
            Intent::Renew { exchange, party, .. } => self.check_renew(*exchange, *party),
            Intent::Nice { client, resource, amount } => self.check_nice(client, resource, *amount),
            Intent::SetBase { uid, placements, amount } => {
                self.check_set_base(*uid, placements, *amount)
            }
            Intent::Place { client, placements } => {
                self.system("place processes")?;
                self.process(client)?;
                self.not_yet_client(client)?;
                check_placements(placements)
            }
            Intent::Fork { parent, child } => {
                self.system("report forks")?;
                self.process(child)?;
                self.not_yet_client(child)?;
                if let Some(client) = self.ledger.joined_by(&child.member) {
                    return Err(Refusal::AlreadyClient { member: child.member, client });
                }
                let known = self.ledger.client_of_member(&Member::Process(*parent));
                known.ok_or(Refusal::UnknownProcess(*parent)).map(drop)
            }
            Intent::Exit { member } => {
                self.system("report exits")?;
                self.particular(*member, "be gone before the machine is")?;
                self.known(*member)
            }
            Intent::UserChanged { client, placements } => {
                self.system("report changes of user")?;
                self.process(client)?;
                self.known(client.member)?;
                placements.iter().try_for_each(check_placements)
            }
        }
    }

    fn check_create(&self, name: &str, owner: u32, group: u32) -> Result<(), Refusal> {
        if let Authority::Caller(caller) = self.authority
            && !self.is_superuser()
        {
            if caller.uid != owner || !in_group(caller, group) {
                return Err(Refusal::NotSelf { owner, group });
            }
            self.room_for_another(owner)?;
        }
        if !is_name(name) {
            return Err(Refusal::BadName(name.to_owned()));
        }
        match self.ledger.named(owner, name) {
            None => Ok(()),
            Some(currency) => Err(Refusal::NameTaken { owner, name: name.to_owned(), currency }),
        }
    }

    fn check_limit(
        &self,
        currency: CurrencyId,
        resource: &Resource,
        limit: &DiskLimit,
    ) -> Result<(), Refusal> {
        let currency = self.currency(currency)?;
        self.owner_of(currency, "limit its use of a disk")?;
        let bad = |why: &str| Err(Refusal::BadLimit(why.to_owned()));
        if !matches!(resource, Resource::Disk(_)) {
            return bad("only disks have limits");
        }
        if currency.id == BASE {
            return bad("base is all there is; limit currencies or clients");
        }
        if let Some(why) = limit.wrong() {
            return Err(Refusal::BadLimit(why));
        }
        let limits = &currency.record.limits;
        match limits.get(resource) {
            Some(set) if set.by_superuser => {
                self.superuser("change a limit that the superuser has set")
            }
            None if !limit.is_none() && limits.len() >= LIMITS_MAX => {
                Err(Refusal::BadLimit(crate::disk_limit::too_many()))
            }
            _ => Ok(()),
        }
    }

    fn check_owner_change(
        &self,
        currency: CurrencyId,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Result<(), Refusal> {
        let currency = self.pure(currency, "change hands")?;
        let record = &currency.record;
        if let Some(owner) = owner.filter(|owner| *owner != record.owner) {
            self.superuser("give a currency to another user")?;
            if let Some(other) = self.ledger.named(owner, &record.name) {
                let name = record.name.clone();
                return Err(Refusal::NameTaken { owner, name, currency: other });
            }
        }
        self.owner_of(currency, "change the group")?;
        match (self.authority, group) {
            (Authority::Caller(caller), Some(group))
                if !self.is_superuser() && !in_group(caller, group) =>
            {
                Err(Refusal::NotSelf { owner: record.owner, group })
            }
            _ => Ok(()),
        }
    }

    fn check_fund(
        &self,
        holder: CurrencyId,
        issuer: CurrencyId,
        funding: &Funding,
    ) -> Result<(), Refusal> {
        if holder == BASE {
            return Err(Refusal::BaseHolds);
        }
        if funding.kind == TicketKind::Transfer {
            return Err(Refusal::TransferKind);
        }
        let (to, from) = (self.currency(holder)?, self.issuer(issuer)?);
        let held = self.ledger.held(holder, issuer, &funding.resource, funding.kind);
        let before = held.map_or(0, |(_, ticket)| ticket.amount);
        self.unless_lent(to, issuer)?;
        if held.is_some() && funding.amount < before {
            return self.may_take(to, from);
        }
        self.must_have(to, Rights::FUND)?;
        self.must_have(from, Rights::ISSUE)?;
        self.room(from, funding, before)?;
        if held.is_none() {
            if self.ledger.funds(holder, issuer) {
                return Err(Refusal::Cycle { holder, issuer });
            }
            if self.held_besides_transfers(holder).count() >= BACKERS_MAX {
                return Err(Refusal::TooManyBackers(holder));
            }
            if self.ledger.depth(issuer) + 1 + self.ledger.height(holder) > DEPTH_MAX {
                return Err(Refusal::TooDeep(holder));
            }
        }
        Ok(())
    }

    fn check_nice(
        &self,
        client: &NewClient,
        resource: &Resource,
        asked: u64,
    ) -> Result<(), Refusal> {
        let Authority::Caller(caller) = self.authority else {
            return Err(Refusal::NotSuperuser("be niced; a caller must ask for it"));
        };
        self.own_member(client)?;
        self.particular(client.member, "be niced; fund its client")?;
        if self.ledger.joined_by(&client.member).is_some() {
            let what = "be niced while it is part of another client; let it leave first";
            return Err(Refusal::BadMember { member: client.member, what });
        }
        if asked == 0 {
            return Err(Refusal::NiceNothing);
        }
        if asked > AMOUNT_MAX {
            return Err(Refusal::AmountTooLarge(asked));
        }
        if !self.is_superuser() {
            self.room_for_another(caller.uid)?;
        }
        if let Some(id) = self.ledger.founded_by(&client.member) {
            let others = self.held_besides_transfers(id).filter(|t| t.resource != *resource);
            if others.count() >= BACKERS_MAX {
                return Err(Refusal::TooManyBackers(id));
            }
        }
        let available = self.ledger.lenders(caller.uid, resource).map(|(_, _, spare)| spare).sum();
        if asked > available {
            let (uid, resource) = (caller.uid, resource.clone());
            return Err(Refusal::NothingToLend { uid, resource, available, asked });
        }
        Ok(())
    }

    fn check_set_base(
        &self,
        uid: u32,
        placements: &Placements,
        amount: u64,
    ) -> Result<(), Refusal> {
        check_placements(placements)?;
        let level = &placements.levels[0];
        let own = level.key == PolicyKey::User(uid);
        let given = level.funding.iter().find(|funding| {
            own && funding.resource == Resource::Cpu && funding.kind == TicketKind::Soft
        });
        let given = given.ok_or(Refusal::NoOwnHome(uid))?.amount;
        if !self.is_superuser() && (self.uid() != Some(uid) || amount > given) {
            return Err(Refusal::AboveDefault { given });
        }
        if amount == 0 {
            // Whoever did it to themselves could not undo it: their shell is frozen too.
            self.superuser("freeze all processes of a user")?;
        }
        let home = self.ledger.home(&level.key).map(|home| home.currency);
        if let Some(home) = home {
            self.owner_of(self.currency(home)?, "set the base tickets")?;
        }
        let lent = home.map_or(0, |home| self.ledger.lent(home, &Resource::Cpu));
        if lent > 0 && amount <= lent {
            return Err(Refusal::BelowLent { uid, lent });
        }
        let held =
            home.and_then(|home| self.ledger.held(home, BASE, &Resource::Cpu, TicketKind::Soft));
        let before = held.map_or(0, |(_, ticket)| ticket.amount);
        let (resource, kind) = (Resource::Cpu, TicketKind::Soft);
        self.room(self.currency(BASE)?, &Funding { resource, kind, amount }, before)
    }

    /// To use a client's share is to spend its tickets: its owner may, and who may issue them.
    fn check_join(&self, member: &NewClient, client: CurrencyId) -> Result<(), Refusal> {
        self.own_member(member)?;
        let member = member.member;
        if member.outlives_boot() {
            self.superuser("move the kernel's threads, or the processes that nobody manages")?;
        }
        if self.ledger.founded_by(&member) == Some(client) {
            let what = "join the client that it founded; let it leave the one that it has joined";
            return Err(Refusal::BadMember { member, what });
        }
        self.owner_or(self.client(client)?, Rights::ISSUE)
    }

    fn check_transfer(
        &self,
        lender: CurrencyId,
        holder: CurrencyId,
        resource: &Resource,
    ) -> Result<(), Refusal> {
        let from = self.client(lender)?;
        self.client(holder)?;
        self.owner_or(from, Rights::CHANGE)?;
        if let Some((_, ticket)) = self.ledger.transfer_of(lender, resource) {
            let (holder, resource) = (ticket.holder, resource.clone());
            return Err(Refusal::AlreadyLent { lender, holder, resource });
        }
        if self.ledger.funds(holder, lender) {
            return Err(Refusal::Cycle { holder, issuer: lender });
        }
        let transfers = self.ledger.backing(holder).filter(|(_, t)| t.kind == TicketKind::Transfer);
        if transfers.count() >= TRANSFERS_MAX {
            return Err(Refusal::TooManyTransfers(holder));
        }
        if self.ledger.depth(lender) + 1 + self.ledger.height(holder) > DEPTH_MAX {
            return Err(Refusal::TooDeep(holder));
        }
        Ok(())
    }

    fn held_besides_transfers(&self, holder: CurrencyId) -> impl Iterator<Item = &crate::Ticket> {
        let held = self.ledger.backing(holder).map(|(_, ticket)| ticket);
        held.filter(|ticket| ticket.kind != TicketKind::Transfer)
    }

    pub(crate) fn currency(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        self.ledger.currency(id).ok_or(Refusal::UnknownCurrency(id))
    }

    fn client(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        if currency.is_client() { Ok(currency) } else { Err(Refusal::NotClient(id)) }
    }

    fn issuer(&self, id: CurrencyId) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        if currency.is_client() { Err(Refusal::ClientIssues(id)) } else { Ok(currency) }
    }

    fn pure(&self, id: CurrencyId, what: &'static str) -> Result<&Currency, Refusal> {
        let currency = self.currency(id)?;
        let is = match currency.record.nature {
            Nature::Pure => return Ok(currency),
            Nature::Base => "base",
            Nature::Job { .. } => "a job",
            Nature::Client { .. } => "a client",
        };
        Err(Refusal::NotPure { currency: id, is, what })
    }

    fn uid(&self) -> Option<u32> {
        match self.authority {
            Authority::System => None,
            Authority::Caller(caller) => Some(caller.uid),
        }
    }

    pub(crate) fn is_superuser(&self) -> bool {
        self.uid().is_none_or(|uid| self.ledger.is_superuser(uid))
    }

    fn superuser(&self, what: &'static str) -> Result<(), Refusal> {
        if self.is_superuser() { Ok(()) } else { Err(Refusal::NotSuperuser(what)) }
    }

    pub(crate) fn system(&self, what: &'static str) -> Result<(), Refusal> {
        match self.authority {
            Authority::System => Ok(()),
            Authority::Caller(_) => Err(Refusal::NotSuperuser(what)),
        }
    }

    fn rights(&self, currency: &Currency) -> Rights {
        match self.authority {
            Authority::System => Rights::ALL,
            Authority::Caller(caller) => self.ledger.rights(caller, currency),
        }
    }

    fn must_have(&self, currency: &Currency, needs: Rights) -> Result<(), Refusal> {
        if self.rights(currency).contain(needs) {
            return Ok(());
        }
        Err(Refusal::forbidden(self.uid().unwrap_or(0), letters(needs), currency))
    }

    /// Table 1, last row: `c` on the holder or `i` on the issuer.
    fn may_take(&self, holder: &Currency, issuer: &Currency) -> Result<(), Refusal> {
        let may = self.rights(holder).contain(Rights::CHANGE)
            || self.rights(issuer).contain(Rights::ISSUE);
        let needs = || format!("c, or i on {}", issuer.id);
        if may { Ok(()) } else { Err(Refusal::forbidden(self.uid().unwrap_or(0), needs(), holder)) }
    }

    fn owner_of(&self, currency: &Currency, what: &'static str) -> Result<(), Refusal> {
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

    fn own_member(&self, client: &NewClient) -> Result<(), Refusal> {
        match self.uid() {
            Some(uid) if !self.is_superuser() && uid != client.uid => {
                let (member, owner) = (client.member, client.uid);
                Err(Refusal::NotYours { member, owner, uid })
            }
            _ => Ok(()),
        }
    }

    /// Not all of the kernel, or all that is left.
    fn particular(&self, member: Member, what: &'static str) -> Result<(), Refusal> {
        if member.outlives_boot() { Err(Refusal::BadMember { member, what }) } else { Ok(()) }
    }

    fn process(&self, client: &NewClient) -> Result<(), Refusal> {
        let member = client.member;
        let what = "be placed, be born or change hands as a process does";
        member.process().ok_or(Refusal::BadMember { member, what }).map(drop)
    }

    fn known(&self, member: Member) -> Result<(), Refusal> {
        let threads = member.process().is_some_and(|it| !self.ledger.threads_of(it).is_empty());
        if threads || self.ledger.client_of_member(&member).is_some() {
            return Ok(());
        }
        Err(Refusal::UnknownMember(member))
    }

    fn not_yet_client(&self, client: &NewClient) -> Result<(), Refusal> {
        let member = client.member;
        match self.ledger.founded_by(&member) {
            None => Ok(()),
            Some(client) => Err(Refusal::AlreadyClient { member, client }),
        }
    }

    fn unless_home(&self, currency: &Currency, what: &'static str) -> Result<(), Refusal> {
        let kept = self.ledger.homes().any(|(_, home)| home.currency == currency.id);
        if kept { self.superuser(what) } else { Ok(()) }
    }

    fn unless_lent(&self, holder: &Currency, issuer: CurrencyId) -> Result<(), Refusal> {
        match &holder.record.nature {
            Nature::Job { loans } if issuer == BASE && !loans.is_empty() => {
                Err(Refusal::Lent(holder.id))
            }
            _ => Ok(()),
        }
    }

    fn room_for_another(&self, owner: u32) -> Result<(), Refusal> {
        let full = self.ledger.owned_by(owner) >= CURRENCIES_PER_OWNER_MAX;
        if full { Err(Refusal::TooManyCurrencies(owner)) } else { Ok(()) }
    }

    /// Whether the issuer's totals allow a ticket of that amount in place of `before`.
    fn room(&self, issuer: &Currency, funding: &Funding, before: u64) -> Result<(), Refusal> {
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
                match (amount > left, issuer, &resource) {
                    (false, ..) => Ok(()),
                    (true, BASE, Resource::Memory) => {
                        Err(Refusal::MemoryExhausted { total, left, amount })
                    }
                    _ => Err(Refusal::HardExhausted { issuer, resource, left, amount }),
                }
            }
            TicketKind::Transfer => Err(Refusal::TransferKind),
            TicketKind::Soft => Ok(()),
        }
    }

    fn check_memory(&self, kib: u64) -> Result<(), Refusal> {
        self.superuser("say how much memory there is to promise")?;
        let base = self.currency(BASE)?;
        let issued = base.issued_of(&Resource::Memory).hard;
        match kib {
            0 => Err(Refusal::BadMemory(kib)),
            kib if kib > MEMORY_KIB_MAX => Err(Refusal::BadMemory(kib)),
            kib if kib < issued => Err(Refusal::MemoryPromised { issued, kib }),
            _ => Ok(()),
        }
    }
}

impl Ledger {
    /// The soft base tickets of a uid's own currencies that nice may take from: currency,
    /// ticket, and how many can be spared (one must remain).
    pub(crate) fn lenders(
        &self,
        uid: u32,
        resource: &Resource,
    ) -> impl Iterator<Item = (CurrencyId, crate::TicketId, u64)> {
        // What the policy keeps for a group or a rule is not its owner's own (paper 1, 5.6).
        let shared: BTreeSet<CurrencyId> = self
            .homes()
            .filter(|(key, _)| **key != PolicyKey::User(uid))
            .map(|(_, home)| home.currency)
            .collect();
        let own = self.owned_pure(uid).filter(move |id| !shared.contains(id));
        own.filter_map(move |id| {
            let (ticket, held) = self.held(id, BASE, resource, TicketKind::Soft)?;
            (held.amount > 1).then(|| (id, ticket, held.amount - 1))
        })
    }
}

fn in_group(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

fn is_name(name: &str) -> bool {
    let first = name.chars().next();
    let first = first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let rest = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
    first && name.len() <= NAME_LEN_MAX && name.chars().all(rest) && name != "base"
}

fn in_range(funding: &Funding) -> bool {
    match funding.kind {
        TicketKind::Soft => funding.amount <= AMOUNT_MAX,
        TicketKind::Hard => funding.amount <= HARD_TOTAL,
        TicketKind::Transfer => false,
    }
}

/// The first level of a path is funded from base, whose hard tickets of memory are an amount.
fn in_range_of_base(funding: &Funding) -> bool {
    let is_amount = funding.kind == TicketKind::Hard && funding.resource == Resource::Memory;
    if is_amount { funding.amount <= MEMORY_KIB_MAX } else { in_range(funding) }
}

fn check_placements(placements: &Placements) -> Result<(), Refusal> {
    let bad = |name: &str, why: &str| {
        Err(Refusal::BadPlacement { name: name.to_owned(), why: why.to_owned() })
    };
    if placements.levels.is_empty() {
        return bad("", "the path from base has no level");
    }
    for (depth, level) in placements.levels.iter().enumerate() {
        if !is_name(&level.name) {
            return bad(&level.name, "that is no name for a currency");
        }
        let in_range = if depth == 0 { in_range_of_base } else { in_range };
        if !level.funding.iter().all(in_range) {
            return bad(&level.name, "its amounts are out of range");
        }
    }
    if !placements.process.iter().all(in_range) {
        return bad(&placements.levels[0].name, "the amounts of its processes are out of range");
    }
    Ok(())
}
