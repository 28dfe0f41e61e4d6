//! What a random move chooses: who and what it is about, by the numbers of its dice.

use super::{Process, User, World};
use crate::due::power;
use crate::market::{can_give, clearings, random_leg, random_terms};
use ledger::operation::{
    Adopt, ChangeOwner, Clear, CreateCurrency, Fork, Fund, Grant, MakeExchange, MakeOffer, Nice,
    Renew, SetBase, TakeBack, Unfund,
};
use ledger::{
    BASE, Caller, CurrencyId, ExchangeId, Funding, Intent, Lease, Member, Mode, NewClient, Offer,
    ProcessIdentity, Resource, Rights, Subject, ThreadIdentity, TicketKind,
};
use rand_core::RngCore;
use rand_pcg::Pcg64Mcg;

/// Small numbers for a move to choose with.
pub(super) struct Dice(pub(super) Pcg64Mcg);

impl Dice {
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count.max(1) as u64) as usize
    }

    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(super) fn among<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        things.get(self.below(things.len())).cloned()
    }
}

impl World {
    pub(super) fn new_process(&self, uid: u32, gid: u32) -> NewClient {
        let pid = self.next_pid;
        let process = ProcessIdentity { pid, start_time_ticks: u64::from(pid) };
        NewClient::process(process, uid, gid)
    }

    /// A process, a thread or a cgroup, of the user more often than not.
    pub(super) fn member(&self, user: &User, gid: u32, dice: &mut Dice) -> NewClient {
        let whose = match dice.below(8) {
            0 => &self.users[dice.below(self.users.len())],
            _ => user,
        };
        let process = dice.among(&self.processes_of(whose.uid));
        let member = match (dice.below(6), process) {
            (0, _) => Member::Cgroup(dice.below(2 * self.users.len()) as u64),
            (1, _) if dice.one_in(4) => Member::Rest,
            (1 | 2, Some(process)) => {
                let tid = process.pid * 1000 + dice.below(3) as u32;
                let start_time_ticks = process.start_time_ticks;
                Member::Thread(ThreadIdentity { process, tid, start_time_ticks })
            }
            (_, Some(process)) => Member::Process(process),
            (_, None) => self.new_process(whose.uid, gid).member,
        };
        // As observed: nobody says whose it is but the kernel, and no process has a group that its
        // user is not in.
        let uid = self.uid_of(member).unwrap_or(whose.uid);
        let groups = &self.users[uid as usize].groups;
        NewClient { member, uid, gid: if groups.contains(&gid) { gid } else { groups[0] } }
    }

    pub(super) fn joined_member(&self, dice: &mut Dice) -> Option<NewClient> {
        let joined: Vec<Member> = self.ledger.joined().map(|(member, _)| member).collect();
        let member = dice.among(&joined)?;
        let uid = self.uid_of(member)?;
        Some(NewClient { member, uid, gid: uid })
    }

    pub(super) fn any_client(&self, dice: &mut Dice) -> Option<CurrencyId> {
        let clients: Vec<CurrencyId> = self.ledger.clients().map(|(_, id)| id).collect();
        dice.among(&clients)
    }

    /// A client on which the caller has a right, more often than not.
    pub(super) fn client_open_to(
        &self,
        caller: &Caller,
        needs: Rights,
        dice: &mut Dice,
    ) -> Option<CurrencyId> {
        let party = self.party(caller.uid);
        let may = |id: &CurrencyId| {
            let currency = self.ledger.currency(*id).expect("a client exists");
            caller.uid == 0 || power(currency, &party).contain(needs)
        };
        let open: Vec<CurrencyId> = self.ledger.clients().map(|(_, id)| id).filter(may).collect();
        if open.is_empty() || dice.one_in(6) { self.any_client(dice) } else { dice.among(&open) }
    }

    pub(super) fn offer(&self, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
        // Most have nothing to give.
        let parties: Vec<CurrencyId> =
            (0..6).filter_map(|_| self.open_to(caller, Rights::CHANGE, dice)).collect();
        let rich = parties.iter().find(|party| can_give(&self.ledger, **party));
        let party = *rich.or(parties.first())?;
        let terms = random_terms(&self.ledger, party, &mut dice.0)?;
        let until_s = dice.one_in(3).then(|| dice.below(9) as u64);
        let lease = (!dice.one_in(8)).then_some(Lease { offer_until_s: 1, exchange_until_s: 2 });
        Some(Intent::from(MakeOffer { offer: Offer { party, terms, until_s, lease } }))
    }

    pub(super) fn exchange(&self, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
        let mut legs = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let giver = self.open_to(caller, Rights::CHANGE, dice)?;
            legs.push(random_leg(&self.ledger, giver, self.any(dice)?, &mut dice.0)?);
        }
        Some(Intent::from(MakeExchange { legs, until_s: None }))
    }

    /// Mostly of somebody who has a lease, and of the caller where that is so.
    pub(super) fn renew(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
        let leased = self
            .ledger
            .exchanges()
            .flat_map(|(id, exchange)| exchange.leases.keys().map(move |party| (id, *party)));
        let all: Vec<(ExchangeId, CurrencyId)> = leased.collect();
        let theirs: Vec<(ExchangeId, CurrencyId)> = all
            .iter()
            .filter(|(_, party)| {
                self.ledger.currency(*party).is_some_and(|it| it.record.owner == user.uid)
            })
            .copied()
            .collect();
        let (exchange, party) = dice.among(&theirs).or_else(|| dice.among(&all))?;
        let party = if dice.one_in(6) { self.any(dice)? } else { party };
        let until_s = (!dice.one_in(8)).then(|| dice.below(9) as u64);
        Some(Intent::from(Renew { exchange, party, until_s }))
    }

    pub(super) fn clear(&self, dice: &mut Dice) -> Option<Intent> {
        let exchanges = clearings(&self.ledger, &mut dice.0);
        (!exchanges.is_empty()).then_some(Intent::from(Clear { exchanges }))
    }

    pub(super) fn take_back(&self, dice: &mut Dice) -> Option<Intent> {
        let lent = self.ledger.tickets().map(|(_, ticket)| ticket);
        let lent = lent.filter(|ticket| ticket.kind == TicketKind::Transfer);
        let lent: Vec<_> = lent.map(|ticket| (ticket.issuer, ticket.resource.clone())).collect();
        let (lender, resource) = dice.among(&lent)?;
        Some(Intent::from(TakeBack { lender, resource }))
    }

    pub(super) fn processes_of(&self, uid: u32) -> Vec<ProcessIdentity> {
        let own = self.processes.iter().filter(|(_, process)| process.uid == uid);
        own.map(|(identity, _)| *identity).collect()
    }

    /// As whom a process of the superuser goes on.
    pub(super) fn login(&self, dice: &mut Dice) -> (u32, u32) {
        let user = &self.users[dice.below(self.users.len())];
        (user.uid, user.groups[dice.below(user.groups.len())])
    }

    pub(super) fn any(&self, dice: &mut Dice) -> Option<CurrencyId> {
        let all: Vec<CurrencyId> = self.ledger.currencies().map(|c| c.id).collect();
        dice.among(&all)
    }

    pub(super) fn own_or_any(&self, user: &User, dice: &mut Dice) -> Option<CurrencyId> {
        let own = self.ledger.currencies().filter(|c| c.record.owner == user.uid);
        let own: Vec<CurrencyId> = own.map(|currency| currency.id).collect();
        if own.is_empty() || dice.one_in(6) { self.any(dice) } else { dice.among(&own) }
    }

    /// A currency on which the caller has a right, more often than not.
    pub(super) fn open_to(
        &self,
        caller: &Caller,
        needs: Rights,
        dice: &mut Dice,
    ) -> Option<CurrencyId> {
        let party = self.party(caller.uid);
        let open = self
            .ledger
            .currencies()
            .filter(|currency| caller.uid == 0 || power(currency, &party).contain(needs));
        let open: Vec<CurrencyId> = open.map(|currency| currency.id).collect();
        if open.is_empty() || dice.one_in(6) { self.any(dice) } else { dice.among(&open) }
    }

    pub(super) fn create(&self, user: &User, dice: &mut Dice) -> Intent {
        Intent::from(CreateCurrency {
            name: format!("c{}", dice.below(8)),
            owner: user.uid,
            group: dice.among(&user.groups).unwrap_or(0),
            mode: random_mode(dice),
        })
    }

    pub(super) fn change_owner(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
        let owner = self.users[dice.below(self.users.len())].uid;
        Some(Intent::from(ChangeOwner {
            currency: self.own_or_any(user, dice)?,
            owner: dice.one_in(2).then_some(owner),
            group: dice.one_in(2).then_some(100 + dice.below(3) as u32),
        }))
    }

    pub(super) fn grant(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
        let processes: Vec<ProcessIdentity> = self.processes.keys().copied().collect();
        let subject = match dice.below(3) {
            0 => Subject::Gid(100 + dice.below(3) as u32),
            1 if !processes.is_empty() => Subject::Process(dice.among(&processes)?),
            _ => Subject::Uid(self.users[dice.below(self.users.len())].uid),
        };
        let rights = random_rights(dice);
        Some(Intent::from(Grant { currency: self.own_or_any(user, dice)?, subject, rights }))
    }

    pub(super) fn fund(&self, user: &User, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
        // A third of the time: another amount on a ticket that there is.
        let tickets: Vec<_> = self.ledger.tickets().map(|(_, ticket)| ticket.clone()).collect();
        if dice.one_in(3)
            && let Some(ticket) = dice.among(&tickets)
        {
            let amount = match dice.below(4) {
                0 => ticket.amount / 2,
                1 => 0,
                2 => ticket.amount.saturating_mul(2),
                _ => random_amount(ticket.kind, dice),
            };
            let funding = Funding { resource: ticket.resource, kind: ticket.kind, amount };
            return Some(Intent::from(Fund {
                holder: ticket.holder,
                issuer: ticket.issuer,
                funding,
            }));
        }
        let issuer = match user.uid {
            0 if dice.one_in(2) => BASE,
            _ => self.open_to(caller, Rights::ISSUE, dice)?,
        };
        // Somebody's client a third of the time: what it holds is what its forks are about.
        let clients: Vec<CurrencyId> = self.ledger.clients().map(|(_, id)| id).collect();
        let holder = match dice.one_in(3) {
            true if !clients.is_empty() => dice.among(&clients)?,
            _ => self.open_to(caller, Rights::FUND, dice)?,
        };
        Some(Intent::from(Fund { holder, issuer, funding: random_funding(dice) }))
    }

    pub(super) fn unfund(&self, dice: &mut Dice) -> Option<Intent> {
        let tickets: Vec<_> = self.ledger.tickets().map(|(_, ticket)| ticket.clone()).collect();
        let ticket = dice.among(&tickets)?;
        let (holder, issuer) = (ticket.holder, ticket.issuer);
        Some(Intent::from(Unfund { holder, issuer, resource: ticket.resource, kind: ticket.kind }))
    }

    pub(super) fn adopt(
        &self,
        user: &User,
        caller: &Caller,
        gid: u32,
        dice: &mut Dice,
    ) -> Option<Intent> {
        let issuer = self.open_to(caller, Rights::ISSUE, dice)?;
        let funding = (0..dice.below(3)).map(|_| random_funding(dice)).collect();
        let (owner, gid) = match user.uid {
            0 => self.login(dice),
            uid => (uid, gid),
        };
        let client = match dice.below(3) {
            0 => self.member(user, gid, dice),
            _ => self.new_process(owner, gid),
        };
        Some(Intent::from(Adopt { client, issuer, funding }))
    }

    pub(super) fn nice(&self, user: &User, gid: u32, dice: &mut Dice) -> Intent {
        let process = dice.among(&self.processes_of(user.uid)).filter(|_| !dice.one_in(3));
        let client = match process {
            Some(process) => NewClient::process(process, user.uid, gid),
            None => self.new_process(user.uid, gid),
        };
        let resource = if dice.one_in(5) { Resource::MEMORY } else { Resource::CPU };
        let most = if dice.one_in(2) { 5 } else { 200 };
        let amount = 1 + dice.below(most) as u64;
        Intent::from(Nice { client, resource, amount })
    }

    pub(super) fn set_base(&self, user: &User, gid: u32, dice: &mut Dice) -> Intent {
        let whose = match user.uid {
            0 => self.users[dice.below(self.users.len())].clone(),
            _ => user.clone(),
        };
        let gid = if user.uid == 0 { whose.groups[0] } else { gid };
        let placements = self.placements(whose.uid, gid);
        Intent::from(SetBase { uid: whose.uid, placements, amount: dice.below(300) as u64 })
    }

    pub(super) fn fork(&self, parent: ProcessIdentity, dice: &mut Dice) -> Intent {
        let (uid, gid) = match self.processes[&parent] {
            // It may be somebody else's before it is seen.
            Process { uid: 0, .. } if dice.one_in(4) => self.login(dice),
            Process { uid, gid } => (uid, gid),
        };
        Intent::from(Fork { parent, child: self.new_process(uid, gid) })
    }
}

pub(super) fn random_rights(dice: &mut Dice) -> Rights {
    let letters = ["", "f", "c", "i", "fc", "fi", "ci", "fci", "f", "i"];
    letters[dice.below(letters.len())].parse().expect("rights")
}

pub(super) fn random_mode(dice: &mut Dice) -> Mode {
    if dice.one_in(3) {
        return Mode::PRIVATE;
    }
    if dice.one_in(6) {
        // A group that may less than others.
        return Mode::new(Rights::ALL, Rights::NONE, Rights::ALL);
    }
    let owner = if dice.one_in(4) { random_rights(dice) } else { Rights::ALL };
    Mode::new(owner, random_rights(dice), random_rights(dice))
}

pub(super) fn random_amount(kind: TicketKind, dice: &mut Dice) -> u64 {
    let soft = [0, 1, 2, 3, 5, 10, 50, 100, 1000, ledger::AMOUNT_MAX, ledger::AMOUNT_MAX + 1];
    let hard = [0, 1, 50, 100, 200, 300, 500, 1000, 1001];
    match kind {
        TicketKind::Soft if dice.one_in(8) => soft[dice.below(soft.len())],
        TicketKind::Soft => soft[dice.below(soft.len() - 2)],
        TicketKind::Hard => hard[dice.below(hard.len())],
        TicketKind::Transfer => ledger::TRANSFER_AMOUNT,
    }
}

pub(super) fn random_funding(dice: &mut Dice) -> Funding {
    let kind = if dice.one_in(4) { TicketKind::Hard } else { TicketKind::Soft };
    let resource = random_resource(dice);
    Funding { resource, kind, amount: random_amount(kind, dice) }
}

pub(super) fn random_resource(dice: &mut Dice) -> Resource {
    if dice.one_in(4) { Resource::MEMORY } else { Resource::CPU }
}
