//! The order of what happens and what is asked: whether the kernel's event or a user's request reaches the keeper first
//! changes no outcome.
//!
//! Users act as in the [adversary](crate::adversary), but what happens to their processes happens at once and is told
//! later. Each event is followed by a few requests, in both orders: told before them, and still on its way when they
//! come. Afterwards it is told again and everybody is looked at, as a sweep does. Both orders must answer the same and
//! lead to the same ledger; and whoever the policy names is a client, unless the superuser has released it.

use crate::adversary::{MOVES, moves};
use crate::world::{Act, World, newcomer};
use ledger::operation::{Exit, Fork, Join, Place, Release, UserChanged};
use ledger::{
    Authority, Change, CurrencyKind, Intent, JoinedAs, Member, NewClient, ProcessIdentity, Sighting,
};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};

/// The most requests that follow an event.
const ASKED_MAX: usize = 3;

/// Something that happened to a process.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It was born of a parent, or came from elsewhere.
    Born { client: NewClient, parent: Option<ProcessIdentity> },
    /// It has other ids.
    Changed { client: NewClient },
    /// It ended.
    Ended { process: ProcessIdentity },
}

impl Event {
    /// What the system reports by an act, if that is something that happens to a process.
    fn of(act: &Act) -> Option<Event> {
        let ended = |it: &Exit| it.member.process().map(|process| Event::Ended { process });
        if act.authority != Authority::System {
            return None;
        }
        let intent = &act.intent;
        Place::of(intent)
            .map(|it| Event::Born { client: it.client, parent: None })
            .or(Fork::of(intent)
                .map(|it| Event::Born { client: it.child, parent: Some(it.parent) }))
            .or(UserChanged::of(intent).map(|it| Event::Changed { client: it.client }))
            .or(Exit::of(intent).and_then(ended))
    }
}

/// A world in which events are told late.
#[derive(Clone)]
struct Machine {
    world: World,
    /// The processes that live, and whose each is.
    living: BTreeMap<ProcessIdentity, NewClient>,
    untold: Vec<Event>,
    joined_as: JoinedAs,
    released: BTreeSet<ProcessIdentity>,
    /// Requests wait until all that happened before has been told.
    catches_up: bool,
}

impl Machine {
    fn happens(&mut self, event: Event) {
        match event {
            Event::Born { client, .. } | Event::Changed { client } => {
                let process = client.member.process().expect("an event is a process's");
                self.living.insert(process, client);
            }
            Event::Ended { process } => {
                self.living.remove(&process);
            }
        }
        self.untold.push(event);
    }

    fn tell_all(&mut self) {
        std::mem::take(&mut self.untold).into_iter().for_each(|event| self.tell(event));
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::Born { client, parent } => self.see(client.member, parent),
            Event::Changed { client } => self.see(client.member, None),
            Event::Ended { process } => {
                self.observe(Exit { member: process.into() }.into());
                self.released.remove(&process);
            }
        }
    }

    /// Looks at a process, if it lives.
    fn see(&mut self, member: Member, parent: Option<ProcessIdentity>) {
        let Some(client) = member.process().and_then(|it| self.living.get(&it)).copied() else {
            return;
        };
        let ledger = &self.world.ledger;
        let is_known = ledger.client_of_member(&member).is_some();
        if !is_known && self.released.contains(&member.process().expect("a process")) {
            return;
        }
        let place = |uid, gid| Some(self.world.placements(uid, gid));
        if let Some(intent) = (Sighting { client, parent }).meaning(ledger, &self.joined_as, place)
        {
            self.observe(intent);
        }
    }

    fn sweep(&mut self) {
        let everybody: Vec<Member> = self.living.keys().map(|it| (*it).into()).collect();
        everybody.into_iter().for_each(|member| self.see(member, None));
    }

    fn observe(&mut self, intent: Intent) {
        let _ = self.perform(&Act { user: 0, authority: Authority::System, intent });
    }

    /// Answers whether it was done.
    fn ask(&mut self, act: &Act) -> bool {
        if self.catches_up {
            self.tell_all();
        }
        self.perform(act)
    }

    fn perform(&mut self, act: &Act) -> bool {
        let Ok(changes) = self.world.perform(act) else { return false };
        let intent = &act.intent;
        let who = Join::of(intent).map(|it| it.member).or(Fork::of(intent).map(|it| it.child));
        let joins = |change: &Change| matches!(change, Change::Member { after: Some(_), .. });
        if let Some(process) = who.and_then(|client| client.member.process())
            && changes.iter().any(joins)
        {
            self.joined_as.insert(process, who.expect("just seen").uid);
        }
        if Release::of(intent).is_some() {
            self.released.extend(changes.iter().filter_map(|change| match change {
                Change::Currency { before: Some(record), after: None, .. } => match record.kind {
                    CurrencyKind::Client { founder, .. } => founder.process(),
                    _ => None,
                },
                _ => None,
            }));
        }
        true
    }

    /// A process that the policy names and that nobody manages, although no superuser released it.
    fn escaped(&self) -> Option<&NewClient> {
        let free = |(process, _): &(&ProcessIdentity, &NewClient)| {
            self.world.ledger.client_of(**process).is_none() && !self.released.contains(process)
        };
        self.living.iter().find(free).map(|(_, client)| client)
    }
}

/// A sequence in which an order mattered, or somebody escaped.
#[derive(Clone, Debug, thiserror::Error)]
#[error("seed {seed}, after {event}: {what}\nasked: {asked:#?}")]
pub struct Mattered {
    /// The seed of the world.
    pub seed: u64,
    /// What had happened.
    pub event: String,
    /// What was asked then.
    pub asked: Vec<Act>,
    /// What came of it.
    pub what: String,
}

/// Plays a seed's sequence. Answers how many pairs of an event and a request were played in both orders.
///
/// # Errors
/// When an order mattered.
pub fn play(seed: u64) -> Result<u64, Box<Mattered>> {
    play_with(seed, true)
}

/// As [`play`], with requests that do not wait for what is still to be told.
///
/// # Errors
/// As [`play`].
pub fn play_without_catching_up(seed: u64) -> Result<u64, Box<Mattered>> {
    play_with(seed, false)
}

fn play_with(seed: u64, catches_up: bool) -> Result<u64, Box<Mattered>> {
    let mut machine = Machine {
        world: World::random(&mut Pcg64Mcg::seed_from_u64(seed)),
        living: BTreeMap::new(),
        untold: Vec::new(),
        joined_as: JoinedAs::new(),
        released: BTreeSet::new(),
        catches_up,
    };
    let steps = moves(seed, MOVES);
    let mut pairs = 0;
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| !step.changes_policy()) {
        let Some(act) = machine.world.act(*step) else { continue };
        let mut late = machine.clone();
        let mut asked = Vec::new();
        let happened = Event::of(&act).or_else(|| birth(&act, &machine));
        if let Some(event) = happened {
            machine.happens(event);
            late.happens(event);
        }
        machine.tell_all();
        if Event::of(&act).is_none() {
            asked.push(act);
        }
        // The same people go on, as those who see what has happened.
        let next = steps[index + 1..].iter().filter(|step| !step.changes_policy());
        let mut answers = Vec::new();
        for act in &asked {
            answers.push(machine.ask(act));
        }
        for step in next.take(if happened.is_some() { ASKED_MAX } else { 0 }) {
            let Some(act) = machine.world.act(step.by_actor_of(steps[index])) else { continue };
            if Event::of(&act).is_none() && birth(&act, &machine).is_none() {
                answers.push(machine.ask(&act));
                asked.push(act);
            }
        }
        let found: Vec<bool> = asked.iter().map(|act| late.ask(act)).collect();
        pairs += if happened.is_some() { asked.len() as u64 } else { 0 };
        late.tell_all();
        happened.iter().for_each(|event| late.tell(*event));
        late.sweep();
        machine.sweep();
        let mattered = |what: String| {
            let (event, asked) = (format!("{happened:?}"), asked.clone());
            Box::new(Mattered { seed, event, asked, what })
        };
        if answers != found {
            return Err(mattered(format!("told first: {answers:?}, asked first: {found:?}")));
        }
        if machine.world.ledger != late.world.ledger {
            return Err(mattered("told first and asked first leave different ledgers".to_owned()));
        }
        if let Some(client) = machine.escaped() {
            return Err(mattered(format!("nobody manages {client:?}")));
        }
    }
    Ok(pairs)
}

/// The birth of a process that somebody asks for before any event has told of it.
fn birth(act: &Act, machine: &Machine) -> Option<Event> {
    let client = *newcomer(&act.intent)?;
    let unborn = |process| !machine.living.contains_key(&process);
    client.member.process().filter(|it| unborn(*it)).map(|_| Event::Born { client, parent: None })
}
