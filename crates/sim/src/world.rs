//! A small machine with users, groups, processes, a funding policy and a ledger, and random
//! moves upon it. A [`Move`] is a handful of numbers that find their meaning in the world that
//! they meet, so that any part of a sequence of moves is a sequence of moves.

mod choices;

use crate::due::{Party, power};
use choices::{Dice, random_funding, random_mode, random_resource};
use ledger::operation::{
    Adopt, CancelOffer, ChangeMode, Clear, ClientOperation, DestroyCurrency, EndExchange, Ensure,
    Exit, Fork, JobOperation, Join, Leave, LimitDisk, MembershipOperation, Nice, Place,
    PlacementOperation, ProcessOperation, Release, SetClass, SetMemory, Transfer, UserChanged,
};
use ledger::{
    Authority, Caller, Change, Class, CurrencyId, DiskLimit, ExchangeId, Funding, Intent, Ledger,
    Member, NewClient, OfferId, Part, Persons, Placement, Placements, PolicyKey, ProcessIdentity,
    Quota, Refusal, Resource, Rights, TicketKind, decide,
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
        let mut ledger = Ledger::new(0, 0);
        let mut dice = Dice(Pcg64Mcg::seed_from_u64(rng.next_u64()));
        if dice.one_in(4) {
            set_small_quotas(&mut ledger, &mut dice);
        }
        World {
            ledger,
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
            2 => own(Intent::from(DestroyCurrency { currency: self.any(&mut dice)? })),
            3 => own(Intent::from(ChangeMode {
                currency: self.own_or_any(user, &mut dice)?,
                mode: random_mode(&mut dice),
            })),
            4 => own(self.change_owner(user, &mut dice)?),
            5 | 6 => own(self.grant(user, &mut dice)?),
            7..=10 => own(self.fund(user, &caller, &mut dice)?),
            11 => own(self.unfund(&mut dice)?),
            12 => own(self.adopt(user, &caller, gid, &mut dice)?),
            13 => own(Intent::from(Release { client: self.any(&mut dice)?, named: true })),
            14 | 15 => own(self.nice(user, gid, &mut dice)),
            16 => own(self.set_base(user, gid, &mut dice)),
            17 => Some((
                Authority::System,
                Intent::from(Place {
                    client: self.new_process(user.uid, gid),
                    placements: self.placements(user.uid, gid),
                }),
            )),
            18 | 19 => Some((Authority::System, self.fork(process?, &mut dice))),
            20 => Some((Authority::System, Intent::from(Exit { member: process?.into() }))),
            21..=23 => own(Intent::from(Join {
                member: self.member(user, gid, &mut dice),
                client: self.client_open_to(&caller, Rights::ISSUE, &mut dice)?,
            })),
            25 => own(Intent::from(Leave { member: self.joined_member(&mut dice)? })),
            26 if dice.one_in(3) => own(Intent::from(LimitDisk {
                currency: self.own_or_any(user, &mut dice)?,
                resource: Resource::disk("sda"),
                limit: DiskLimit {
                    reads: (!dice.one_in(3)).then(|| dice.below(100) as u64),
                    ..DiskLimit::default()
                },
            })),
            26 => own(Intent::from(SetClass {
                client: self.client_open_to(&caller, Rights::CHANGE, &mut dice)?,
                class: if dice.one_in(2) { Class::Host } else { Class::Guest },
            })),
            27 | 28 => own(Intent::from(Transfer {
                lender: self.client_open_to(&caller, Rights::CHANGE, &mut dice)?,
                holder: self.any_client(&mut dice)?,
                resource: random_resource(&mut dice),
            })),
            29 => own(self.take_back(&mut dice)?),
            30 => {
                // A thread of the user's, or a cgroup.
                let member = self.member(user, gid, &mut dice).member;
                let theirs = self.uid_of(member) == Some(user.uid);
                (theirs && member.process().is_none())
                    .then_some((Authority::System, Intent::from(Exit { member })))
            }
            31 if dice.one_in(2) => own(Intent::from(SetMemory { kib: dice.below(3000) as u64 })),
            31 => {
                let member = if dice.one_in(2) { Member::Kernel } else { Member::Rest };
                own(Intent::from(Ensure { member, funding: vec![random_funding(&mut dice)] }))
            }
            34..=38 => own(self.offer(&caller, &mut dice)?),
            39 => own(self.exchange(&caller, &mut dice)?),
            40..=42 => Some((Authority::System, self.clear(&mut dice)?)),
            43 => {
                let offers: Vec<OfferId> = self.ledger.offers().map(|(id, _)| id).collect();
                own(Intent::from(CancelOffer { offer: dice.among(&offers)? }))
            }
            44 | 45 => {
                let all: Vec<ExchangeId> = self.ledger.exchanges().map(|(id, _)| id).collect();
                let end = Intent::from(EndExchange { exchange: dice.among(&all)? });
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
                Some((Authority::System, Intent::from(UserChanged { client, placements })))
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
        if let Some(client) = newcomer(&act.intent)
            && let Some(process) = client.member.process()
        {
            self.next_pid = self.next_pid.max(process.pid + 1);
            let now = Process { uid: client.uid, gid: client.gid };
            if Join::of(&act.intent).is_some() || Adopt::of(&act.intent).is_some() {
                self.processes.entry(process).or_insert(now);
            } else {
                self.processes.insert(process, now);
            }
        }
        if let Some(Exit { member: Member::Process(process) }) = Exit::of(&act.intent) {
            self.processes.remove(process);
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
            Intent::Membership(MembershipOperation::Join(Join { member, client })) => {
                let currency = self.ledger.currency(*client);
                let own = member.uid == act.user;
                let may = |it| own && power(it, &self.party(act.user)).contain(Rights::ISSUE);
                if act.user == 0 || currency.is_some_and(may) {
                    self.invited.insert((member.member, *client));
                }
            }
            Intent::Process(ProcessOperation::Fork(Fork { parent, child })) => {
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
            Intent::Process(ProcessOperation::UserChanged(UserChanged { client, .. })) => {
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

    /// How much of each part of the ledger the person of a user has, and all have together.
    pub fn owned(&self, uid: u32) -> Vec<(Part, usize, usize)> {
        let count = |part| (part, self.ledger.owned_by(uid, part), self.ledger.owned_in_all(part));
        Part::ALL.map(count).to_vec()
    }

    /// What an act has brought somebody beyond a quota, in words; `had` is what each user [owned](World::owned)
    /// before. The policy's currencies and forks, which nobody asks for, may be beyond it.
    pub fn beyond_quota(&self, act: &Act, had: &[Vec<(Part, usize, usize)>]) -> Option<String> {
        let asked =
            matches!(act.authority, Authority::Caller(_)) || Clear::of(&act.intent).is_some();
        if !asked || act.user == 0 || matches!(act.intent, Intent::Placement(_)) {
            return None;
        }
        let ordinary = self.users.iter().skip(1).zip(&had[1..]);
        ordinary.flat_map(|(user, had)| had.iter().map(move |had| (user.uid, *had))).find_map(
            |(uid, (part, own, all))| {
                let quota = self.ledger.quota(part);
                let now = self.ledger.owned_by(uid, part);
                let in_all = self.ledger.owned_in_all(part);
                let beyond = now > own.max(quota.per_person) || in_all > all.max(quota.in_all);
                beyond.then(|| {
                    format!("uid {uid} has {now} of {in_all} {part}, not at most {quota:?}")
                })
            },
        )
    }

    /// The users, the superuser first.
    pub fn uids(&self) -> impl Iterator<Item = u32> {
        self.users.iter().map(|user| user.uid)
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
                for intent in
                    [Intent::from(Place { client, placements }), Intent::from(Exit { member })]
                {
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

    /// Where the policy puts a user: it names everybody.
    pub(crate) fn placements(&self, uid: u32, gid: u32) -> Placements {
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
            limits: BTreeMap::new(),
        };
        let of_user = || {
            let mut funding = vec![soft(Resource::CPU, 50 * n * u64::from(uid))];
            if uid.is_multiple_of(2) {
                funding.push(hard(Resource::CPU, 50 * n));
                funding.push(soft(Resource::MEMORY, 7));
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
            let funding = vec![soft(Resource::CPU, 100 * n), hard(Resource::MEMORY, 100)];
            level(PolicyKey::Group(gid), 0, gid, "fci------", funding)
        };
        let levels = match self.shape {
            _ if uid == 0 => {
                let rule = PolicyKey::Rule("system".to_owned());
                vec![level(rule, 0, 0, "fci------", vec![hard(Resource::CPU, 200)])]
            }
            Shape::PerUser => vec![of_user()],
            Shape::PerGroup => vec![of_group()],
            Shape::UsersUnderGroups => vec![of_group(), of_user()],
            Shape::Rules if uid.is_multiple_of(2) => vec![of_user()],
            Shape::Rules => {
                let rule = PolicyKey::Rule("batch".to_owned());
                vec![level(rule, 0, gid, "fci--i---", vec![soft(Resource::CPU, 30 * n)])]
            }
        };
        Placements { levels, process: vec![soft(Resource::CPU, 10), soft(Resource::MEMORY, 1)] }
    }
}

/// Quotas that a sequence of moves may reach, and two uids of one person.
fn set_small_quotas(ledger: &mut Ledger, dice: &mut Dice) {
    for part in Part::ALL {
        let per_person = 1 + dice.below(8);
        ledger.set_quota(part, Quota { per_person, in_all: per_person + dice.below(8) });
    }
    if dice.one_in(2) {
        ledger.set_persons(Persons::of_ranges([(2..=2, 1)]));
    }
}

/// The process, thread or cgroup of which an intent tells whose it is.
pub(crate) fn newcomer(intent: &Intent) -> Option<&NewClient> {
    match intent {
        Intent::Membership(MembershipOperation::Join(Join { member: client, .. }))
        | Intent::Client(ClientOperation::Adopt(Adopt { client, .. }))
        | Intent::Job(JobOperation::Nice(Nice { client, .. }))
        | Intent::Placement(PlacementOperation::Place(Place { client, .. }))
        | Intent::Process(ProcessOperation::Fork(Fork { child: client, .. }))
        | Intent::Process(ProcessOperation::UserChanged(UserChanged { client, .. })) => {
            Some(client)
        }
        _ => None,
    }
}
