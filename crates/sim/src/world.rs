//! A small machine with users, groups, processes, a funding policy and a ledger, and random
//! moves upon it. A [`Move`] is a handful of numbers that find their meaning in the world that
//! they meet, so that any part of a sequence of moves is a sequence of moves.

use crate::due::{Party, power};
use crate::market::{can_give, clearings, random_leg, random_terms};
use ledger::{
    Authority, BASE, Caller, Change, Class, CurrencyId, DiskLimit, ExchangeId, Funding, Intent,
    Lease, Ledger, Member, Mode, NewClient, Offer, OfferId, Placement, Placements, PolicyKey,
    ProcessIdentity, Refusal, Resource, Rights, Subject, ThreadIdentity, TicketKind, decide,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};

/// One of the machine's people; uid 0 is the superuser and the system's owner.
#[derive(Clone, Debug)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Their groups, the first their own.
    pub groups: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    uid: u32,
    gid: u32,
}

/// How the policy funds users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    PerUser,
    PerGroup,
    UsersUnderGroups,
    Rules,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct World {
    /// Its ledger.
    pub ledger: Ledger,
    users: Vec<User>,
    processes: BTreeMap<ProcessIdentity, Process>,
    // Who joined whose client with the right to: what was arranged then may stay.
    invited: BTreeSet<(Member, CurrencyId)>,
    shape: Shape,
    generosity: u64,
    next_pid: u32,
}

/// A random move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    actor: u32,
    kind: u32,
    dice: u64,
}

/// What a move means in a world.
#[derive(Clone, Debug)]
pub struct Act {
    /// The user who does it or for whose process the system does it; 0 for the system's own.
    pub user: u32,
    /// On whose authority.
    pub authority: Authority,
    /// What.
    pub intent: Intent,
}

/// Small numbers for a move to choose with.
struct Dice(Pcg64Mcg);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count.max(1) as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn among<T: Clone>(&mut self, things: &[T]) -> Option<T> {
        things.get(self.below(things.len())).cloned()
    }
}

impl Move {
    /// The next of a seed's moves.
    pub fn random(rng: &mut impl RngCore) -> Move {
        Move { actor: rng.next_u32(), kind: rng.next_u32(), dice: rng.next_u64() }
    }

    /// The same actor's next: users act in runs.
    pub fn by_actor_of(self, other: Move) -> Move {
        Move { actor: other.actor, ..self }
    }

    /// Whether it is the superuser's change of the policy, which is no intent.
    pub fn changes_policy(self) -> bool {
        self.kind.is_multiple_of(50)
    }
}

impl World {
    /// A machine of a seed, with nothing but a system service on it.
    pub fn random(rng: &mut impl RngCore) -> World {
        let shapes = [Shape::PerUser, Shape::PerGroup, Shape::UsersUnderGroups, Shape::Rules];
        let count = 2 + rng.next_u32() % 3;
        let mut users = vec![User { uid: 0, groups: vec![0] }];
        for uid in 1..=count {
            let mut groups = vec![100 + rng.next_u32() % 3];
            for gid in 100..103 {
                if rng.next_u32().is_multiple_of(3) && !groups.contains(&gid) {
                    groups.push(gid);
                }
            }
            users.push(User { uid, groups });
        }
        World {
            ledger: Ledger::new(0, 0),
            users,
            processes: BTreeMap::new(),
            invited: BTreeSet::new(),
            shape: shapes[rng.next_u32() as usize % shapes.len()],
            generosity: 1 + u64::from(rng.next_u32() % 3),
            next_pid: 1,
        }
    }

    /// All that a user has, for [`dues`](crate::due::dues).
    pub fn party(&self, uid: u32) -> Party {
        let user = &self.users[uid as usize];
        let own = self.processes.iter().filter(|(_, process)| process.uid == uid);
        Party {
            uid,
            groups: user.groups.iter().copied().collect(),
            processes: own.map(|(identity, _)| *identity).collect(),
            paths: user.groups.iter().map(|gid| self.placements(uid, *gid)).collect(),
        }
    }

    /// What a move means here; `None` where it means nothing.
    pub fn act(&self, step: Move) -> Option<Act> {
        let mut dice = Dice(Pcg64Mcg::seed_from_u64(step.dice));
        let user = &self.users[step.actor as usize % self.users.len()];
        let process = dice.among(&self.processes_of(user.uid));
        let gid = dice.among(&user.groups)?;
        let caller = Caller { uid: user.uid, gid, groups: user.groups.clone(), process };
        let own = |intent| Some((Authority::Caller(caller.clone()), intent));
        let (authority, intent) = match step.kind % 50 {
            0 | 1 => own(self.create(user, &mut dice)),
            2 => own(Intent::DestroyCurrency { currency: self.any(&mut dice)? }),
            3 => own(Intent::ChangeMode {
                currency: self.own_or_any(user, &mut dice)?,
                mode: random_mode(&mut dice),
            }),
            4 => own(self.change_owner(user, &mut dice)?),
            5 | 6 => own(self.grant(user, &mut dice)?),
            7..=10 => own(self.fund(user, &caller, &mut dice)?),
            11 => own(self.unfund(&mut dice)?),
            12 => own(self.adopt(user, &caller, gid, &mut dice)?),
            13 => own(Intent::Release { client: self.any(&mut dice)? }),
            14 | 15 => own(self.nice(user, gid, &mut dice)),
            16 => own(self.set_base(user, gid, &mut dice)),
            17 => Some((
                Authority::System,
                Intent::Place {
                    client: self.new_process(user.uid, gid),
                    placements: self.placements(user.uid, gid),
                },
            )),
            18 | 19 => Some((Authority::System, self.fork(process?, &mut dice))),
            20 => Some((Authority::System, Intent::Exit { member: process?.into() })),
            21..=23 => own(Intent::Join {
                member: self.member(user, gid, &mut dice),
                client: self.client_open_to(&caller, Rights::ISSUE, &mut dice)?,
            }),
            25 => own(Intent::Leave { member: self.joined_member(&mut dice)? }),
            26 if dice.one_in(3) => own(Intent::LimitDisk {
                currency: self.own_or_any(user, &mut dice)?,
                resource: Resource::Disk("sda".to_owned()),
                limit: DiskLimit {
                    reads: (!dice.one_in(3)).then(|| dice.below(100) as u64),
                    ..DiskLimit::default()
                },
            }),
            26 => own(Intent::SetClass {
                client: self.client_open_to(&caller, Rights::CHANGE, &mut dice)?,
                class: if dice.one_in(2) { Class::Host } else { Class::Guest },
            }),
            27 | 28 => own(Intent::Transfer {
                lender: self.client_open_to(&caller, Rights::CHANGE, &mut dice)?,
                holder: self.any_client(&mut dice)?,
                resource: random_resource(&mut dice),
            }),
            29 => own(self.take_back(&mut dice)?),
            30 => {
                // A thread of the user's, or a cgroup.
                let member = self.member(user, gid, &mut dice).member;
                let theirs = self.uid_of(member) == Some(user.uid);
                (theirs && member.process().is_none())
                    .then_some((Authority::System, Intent::Exit { member }))
            }
            31 if dice.one_in(2) => own(Intent::SetMemory { kib: dice.below(3000) as u64 }),
            31 => {
                let member = if dice.one_in(2) { Member::Kernel } else { Member::Rest };
                own(Intent::Ensure { member, funding: vec![random_funding(&mut dice)] })
            }
            34..=38 => own(self.offer(&caller, &mut dice)?),
            39 => own(self.exchange(&caller, &mut dice)?),
            40..=42 => Some((Authority::System, self.clear(&mut dice)?)),
            43 => {
                let offers: Vec<OfferId> = self.ledger.offers().map(|(id, _)| id).collect();
                own(Intent::CancelOffer { offer: dice.among(&offers)? })
            }
            44 | 45 => {
                let all: Vec<ExchangeId> = self.ledger.exchanges().map(|(id, _)| id).collect();
                let end = Intent::EndExchange { exchange: dice.among(&all)? };
                // By a party, or as its time is over.
                if dice.one_in(2) { own(end) } else { Some((Authority::System, end)) }
            }
            24 | 46..=48 => own(self.renew(user, &mut dice)?),
            _ => {
                let (uid, gid) = match user.uid {
                    0 => self.login(&mut dice),
                    uid => (uid, gid),
                };
                let client = NewClient::process(process?, uid, gid);
                let placements = Some(self.placements(uid, gid));
                let placements = placements.filter(|_| !dice.one_in(4));
                Some((Authority::System, Intent::UserChanged { client, placements }))
            }
        }?;
        Some(Act { user: user.uid, authority, intent })
    }

    /// Try an act.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn perform(&mut self, act: &Act) -> Result<Vec<Change>, Refusal> {
        let authorised = decide(&self.ledger, act.authority.clone(), act.intent.clone())?;
        self.invite(act);
        let changes = self.ledger.apply(authorised);
        match &act.intent {
            Intent::Join { member: client, .. }
            | Intent::Adopt { client, .. }
            | Intent::Nice { client, .. }
            | Intent::Place { client, .. }
            | Intent::Fork { child: client, .. }
            | Intent::UserChanged { client, .. } => {
                if let Some(process) = client.member.process() {
                    self.next_pid = self.next_pid.max(process.pid + 1);
                    let now = Process { uid: client.uid, gid: client.gid };
                    if matches!(act.intent, Intent::Join { .. } | Intent::Adopt { .. }) {
                        self.processes.entry(process).or_insert(now);
                    } else {
                        self.processes.insert(process, now);
                    }
                }
            }
            Intent::Exit { member: Member::Process(process) } => {
                self.processes.remove(process);
            }
            _ => {}
        }
        // A released process lives on, unmanaged; of no more interest here.
        let known: BTreeSet<ProcessIdentity> = self
            .ledger
            .clients()
            .chain(self.ledger.joined())
            .filter_map(|(member, _)| member.within_process())
            .collect();
        self.processes.retain(|process, _| known.contains(process));
        self.invited.retain(|(member, client)| self.ledger.joined_by(member) == Some(*client));
        Ok(changes)
    }

    /// Remember who may be where by right, as reckoned here.
    fn invite(&mut self, act: &Act) {
        match &act.intent {
            Intent::Join { member, client } => {
                let currency = self.ledger.currency(*client);
                let own = member.uid == act.user;
                let may = |it| own && power(it, &self.party(act.user)).contain(Rights::ISSUE);
                if act.user == 0 || currency.is_some_and(may) {
                    self.invited.insert((member.member, *client));
                }
            }
            Intent::Fork { parent, child } => {
                let uid = self.processes.get(parent).map(|process| process.uid);
                let parent = Member::Process(*parent);
                let Some(client) = self.ledger.joined_by(&parent) else { return };
                let currency = self.ledger.currency(client).expect("what was joined exists");
                // Another user's child is let in only where that user may go by themselves.
                let as_parent = uid == Some(child.uid) && self.invited.contains(&(parent, client));
                let may = || power(currency, &self.party(child.uid)).contain(Rights::ISSUE);
                if as_parent || may() {
                    self.invited.insert((child.member, client));
                }
            }
            Intent::UserChanged { client, .. } => {
                let process = client.member.within_process();
                let before = process.and_then(|process| self.processes.get(&process));
                if before.is_none_or(|before| before.uid != client.uid) {
                    let own = self.ledger.founded_by(&client.member);
                    self.invited.retain(|(member, id)| {
                        member.within_process() != process && Some(*id) != own
                    });
                }
            }
            _ => {}
        }
    }

    /// A member that consumes as part of a client that is not its user's, and that its user was
    /// never let into; in words.
    pub fn trespasser(&self) -> Option<(u32, String)> {
        let threads = self.ledger.clients().filter(|(member, _)| member.process().is_none());
        self.ledger.joined().chain(threads).find_map(|(member, client)| {
            let uid = self.uid_of(member)?;
            let owner = self.ledger.currency(client)?.record.owner;
            let by_right = uid == 0 || uid == owner || self.invited.contains(&(member, client));
            (!by_right).then(|| (uid, format!("{member} of uid {uid} is in {client} of {owner}")))
        })
    }

    /// Whose a member is.
    fn uid_of(&self, member: Member) -> Option<u32> {
        match member {
            Member::Cgroup(id) => Some(self.users[id as usize % self.users.len()].uid),
            Member::Kernel | Member::Rest => Some(0),
            _ => self.processes.get(&member.within_process()?).map(|process| process.uid),
        }
    }

    /// The superuser changes the policy's amounts; every currency that it keeps follows, as a
    /// process of each user comes and goes.
    pub fn change_policy(&mut self, step: Move) -> Vec<Change> {
        self.generosity = 1 + step.dice % 4;
        let mut changes = Vec::new();
        for user in self.users.clone() {
            for gid in user.groups {
                let client = self.new_process(user.uid, gid);
                let placements = self.placements(user.uid, gid);
                let member = client.member;
                for intent in [Intent::Place { client, placements }, Intent::Exit { member }] {
                    let act = Act { user: 0, authority: Authority::System, intent };
                    changes.extend(self.perform(&act).expect("the system may"));
                }
            }
        }
        changes
    }

    /// Who competes: every client with even odds.
    pub fn random_activity(&self, rng: &mut impl RngCore) -> BTreeSet<CurrencyId> {
        let some = |_: &CurrencyId| rng.next_u32().is_multiple_of(2);
        self.ledger.clients().map(|(_, id)| id).filter(some).collect()
    }

    fn placements(&self, uid: u32, gid: u32) -> Placements {
        let n = self.generosity;
        let soft = |resource, amount| Funding { resource, kind: TicketKind::Soft, amount };
        let hard = |resource, amount| Funding { resource, kind: TicketKind::Hard, amount };
        let level = |key: PolicyKey, owner, group, mode: &str, funding| Placement {
            name: key.to_string().replace(':', "-"),
            key,
            owner,
            group,
            mode: mode.parse().expect("a mode"),
            funding,
        };
        let of_user = || {
            let mut funding = vec![soft(Resource::Cpu, 50 * n * u64::from(uid))];
            if uid.is_multiple_of(2) {
                funding.push(hard(Resource::Cpu, 50 * n));
                funding.push(soft(Resource::Memory, 7));
            }
            level(
                PolicyKey::User(uid),
                uid,
                self.users[uid as usize].groups[0],
                "fci--i---",
                funding,
            )
        };
        let of_group = || {
            let funding = vec![soft(Resource::Cpu, 100 * n), hard(Resource::Memory, 100)];
            level(PolicyKey::Group(gid), 0, gid, "fci------", funding)
        };
        let levels = match self.shape {
            _ if uid == 0 => {
                let rule = PolicyKey::Rule("system".to_owned());
                vec![level(rule, 0, 0, "fci------", vec![hard(Resource::Cpu, 200)])]
            }
            Shape::PerUser => vec![of_user()],
            Shape::PerGroup => vec![of_group()],
            Shape::UsersUnderGroups => vec![of_group(), of_user()],
            Shape::Rules if uid.is_multiple_of(2) => vec![of_user()],
            Shape::Rules => {
                let rule = PolicyKey::Rule("batch".to_owned());
                vec![level(rule, 0, gid, "fci--i---", vec![soft(Resource::Cpu, 30 * n)])]
            }
        };
        Placements { levels, process: vec![soft(Resource::Cpu, 10), soft(Resource::Memory, 1)] }
    }

    fn new_process(&self, uid: u32, gid: u32) -> NewClient {
        let pid = self.next_pid;
        let process = ProcessIdentity { pid, start_time_ticks: u64::from(pid) };
        NewClient::process(process, uid, gid)
    }

    /// A process, a thread or a cgroup, of the user more often than not.
    fn member(&self, user: &User, gid: u32, dice: &mut Dice) -> NewClient {
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

    fn joined_member(&self, dice: &mut Dice) -> Option<NewClient> {
        let joined: Vec<Member> = self.ledger.joined().map(|(member, _)| member).collect();
        let member = dice.among(&joined)?;
        let uid = self.uid_of(member)?;
        Some(NewClient { member, uid, gid: uid })
    }

    fn any_client(&self, dice: &mut Dice) -> Option<CurrencyId> {
        let clients: Vec<CurrencyId> = self.ledger.clients().map(|(_, id)| id).collect();
        dice.among(&clients)
    }

    /// A client on which the caller has a right, more often than not.
    fn client_open_to(
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

    fn offer(&self, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
        // Most have nothing to give.
        let parties: Vec<CurrencyId> =
            (0..6).filter_map(|_| self.open_to(caller, Rights::CHANGE, dice)).collect();
        let rich = parties.iter().find(|party| can_give(&self.ledger, **party));
        let party = *rich.or(parties.first())?;
        let terms = random_terms(&self.ledger, party, &mut dice.0)?;
        let until_s = dice.one_in(3).then(|| dice.below(9) as u64);
        let lease = (!dice.one_in(8)).then_some(Lease { offer_until_s: 1, exchange_until_s: 2 });
        Some(Intent::Offer { offer: Offer { party, terms, until_s, lease } })
    }

    fn exchange(&self, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
        let mut legs = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let giver = self.open_to(caller, Rights::CHANGE, dice)?;
            legs.push(random_leg(&self.ledger, giver, self.any(dice)?, &mut dice.0)?);
        }
        Some(Intent::Exchange { legs, until_s: None })
    }

    /// Mostly of somebody who has a lease, and of the caller where that is so.
    fn renew(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
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
        Some(Intent::Renew { exchange, party, until_s })
    }

    fn clear(&self, dice: &mut Dice) -> Option<Intent> {
        let exchanges = clearings(&self.ledger, &mut dice.0);
        (!exchanges.is_empty()).then_some(Intent::Clear { exchanges })
    }

    fn take_back(&self, dice: &mut Dice) -> Option<Intent> {
        let lent = self.ledger.tickets().map(|(_, ticket)| ticket);
        let lent = lent.filter(|ticket| ticket.kind == TicketKind::Transfer);
        let lent: Vec<_> = lent.map(|ticket| (ticket.issuer, ticket.resource.clone())).collect();
        let (lender, resource) = dice.among(&lent)?;
        Some(Intent::TakeBack { lender, resource })
    }

    fn processes_of(&self, uid: u32) -> Vec<ProcessIdentity> {
        let own = self.processes.iter().filter(|(_, process)| process.uid == uid);
        own.map(|(identity, _)| *identity).collect()
    }

    /// As whom a process of the superuser goes on.
    fn login(&self, dice: &mut Dice) -> (u32, u32) {
        let user = &self.users[dice.below(self.users.len())];
        (user.uid, user.groups[dice.below(user.groups.len())])
    }

    fn any(&self, dice: &mut Dice) -> Option<CurrencyId> {
        let all: Vec<CurrencyId> = self.ledger.currencies().map(|c| c.id).collect();
        dice.among(&all)
    }

    fn own_or_any(&self, user: &User, dice: &mut Dice) -> Option<CurrencyId> {
        let own = self.ledger.currencies().filter(|c| c.record.owner == user.uid);
        let own: Vec<CurrencyId> = own.map(|currency| currency.id).collect();
        if own.is_empty() || dice.one_in(6) { self.any(dice) } else { dice.among(&own) }
    }

    /// A currency on which the caller has a right, more often than not.
    fn open_to(&self, caller: &Caller, needs: Rights, dice: &mut Dice) -> Option<CurrencyId> {
        let party = self.party(caller.uid);
        let open = self
            .ledger
            .currencies()
            .filter(|currency| caller.uid == 0 || power(currency, &party).contain(needs));
        let open: Vec<CurrencyId> = open.map(|currency| currency.id).collect();
        if open.is_empty() || dice.one_in(6) { self.any(dice) } else { dice.among(&open) }
    }

    fn create(&self, user: &User, dice: &mut Dice) -> Intent {
        Intent::CreateCurrency {
            name: format!("c{}", dice.below(8)),
            owner: user.uid,
            group: dice.among(&user.groups).unwrap_or(0),
            mode: random_mode(dice),
        }
    }

    fn change_owner(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
        let owner = self.users[dice.below(self.users.len())].uid;
        Some(Intent::ChangeOwner {
            currency: self.own_or_any(user, dice)?,
            owner: dice.one_in(2).then_some(owner),
            group: dice.one_in(2).then_some(100 + dice.below(3) as u32),
        })
    }

    fn grant(&self, user: &User, dice: &mut Dice) -> Option<Intent> {
        let processes: Vec<ProcessIdentity> = self.processes.keys().copied().collect();
        let subject = match dice.below(3) {
            0 => Subject::Gid(100 + dice.below(3) as u32),
            1 if !processes.is_empty() => Subject::Process(dice.among(&processes)?),
            _ => Subject::Uid(self.users[dice.below(self.users.len())].uid),
        };
        let rights = random_rights(dice);
        Some(Intent::Grant { currency: self.own_or_any(user, dice)?, subject, rights })
    }

    fn fund(&self, user: &User, caller: &Caller, dice: &mut Dice) -> Option<Intent> {
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
            return Some(Intent::Fund { holder: ticket.holder, issuer: ticket.issuer, funding });
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
        Some(Intent::Fund { holder, issuer, funding: random_funding(dice) })
    }

    fn unfund(&self, dice: &mut Dice) -> Option<Intent> {
        let tickets: Vec<_> = self.ledger.tickets().map(|(_, ticket)| ticket.clone()).collect();
        let ticket = dice.among(&tickets)?;
        let (holder, issuer) = (ticket.holder, ticket.issuer);
        Some(Intent::Unfund { holder, issuer, resource: ticket.resource, kind: ticket.kind })
    }

    fn adopt(&self, user: &User, caller: &Caller, gid: u32, dice: &mut Dice) -> Option<Intent> {
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
        Some(Intent::Adopt { client, issuer, funding })
    }

    fn nice(&self, user: &User, gid: u32, dice: &mut Dice) -> Intent {
        let process = dice.among(&self.processes_of(user.uid)).filter(|_| !dice.one_in(3));
        let client = match process {
            Some(process) => NewClient::process(process, user.uid, gid),
            None => self.new_process(user.uid, gid),
        };
        let resource = if dice.one_in(5) { Resource::Memory } else { Resource::Cpu };
        let most = if dice.one_in(2) { 5 } else { 200 };
        let amount = 1 + dice.below(most) as u64;
        Intent::Nice { client, resource, amount }
    }

    fn set_base(&self, user: &User, gid: u32, dice: &mut Dice) -> Intent {
        let whose = match user.uid {
            0 => self.users[dice.below(self.users.len())].clone(),
            _ => user.clone(),
        };
        let gid = if user.uid == 0 { whose.groups[0] } else { gid };
        let placements = self.placements(whose.uid, gid);
        Intent::SetBase { uid: whose.uid, placements, amount: dice.below(300) as u64 }
    }

    fn fork(&self, parent: ProcessIdentity, dice: &mut Dice) -> Intent {
        let (uid, gid) = match self.processes[&parent] {
            // It may be somebody else's before it is seen.
            Process { uid: 0, .. } if dice.one_in(4) => self.login(dice),
            Process { uid, gid } => (uid, gid),
        };
        Intent::Fork { parent, child: self.new_process(uid, gid) }
    }
}

fn random_rights(dice: &mut Dice) -> Rights {
    let letters = ["", "f", "c", "i", "fc", "fi", "ci", "fci", "f", "i"];
    letters[dice.below(letters.len())].parse().expect("rights")
}

fn random_mode(dice: &mut Dice) -> Mode {
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

fn random_amount(kind: TicketKind, dice: &mut Dice) -> u64 {
    let soft = [0, 1, 2, 3, 5, 10, 50, 100, 1000, ledger::AMOUNT_MAX, ledger::AMOUNT_MAX + 1];
    let hard = [0, 1, 50, 100, 200, 300, 500, 1000, 1001];
    match kind {
        TicketKind::Soft if dice.one_in(8) => soft[dice.below(soft.len())],
        TicketKind::Soft => soft[dice.below(soft.len() - 2)],
        TicketKind::Hard => hard[dice.below(hard.len())],
        TicketKind::Transfer => ledger::TRANSFER_AMOUNT,
    }
}

fn random_funding(dice: &mut Dice) -> Funding {
    let kind = if dice.one_in(4) { TicketKind::Hard } else { TicketKind::Soft };
    let resource = random_resource(dice);
    Funding { resource, kind, amount: random_amount(kind, dice) }
}

fn random_resource(dice: &mut Dice) -> Resource {
    if dice.one_in(4) { Resource::Memory } else { Resource::Cpu }
}
