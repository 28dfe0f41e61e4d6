//! The adversary: users with random rights under a random policy do random things, alone and
//! through their processes. After each operation of an ordinary user nobody else may be
//! [due](crate::due) less against that user than before it (theorem 2): as this holds of every
//! single operation, it holds of every sequence of them.
//!
//! On the way the [auditor](crate::auditor) checks theorems 1, 3 and 4, that valuation keeps up
//! with the ledger, and that the ledger can be copied, replayed and undone.

use crate::auditor::{self, Fault};
use crate::due::{Dues, dues, loss};
use crate::world::{Act, Move, World};
use ledger::{Change, CurrencyId, Ledger, Resource};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use valuation::Graph;

/// How thoroughly to audit besides theorem 2, which is checked after every operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audit {
    /// After every operation.
    Always,
    /// Once, at the end of a sequence.
    AtEnd,
}

/// What was done and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sequences played.
    pub sequences: u64,
    /// Of each kind of operation, how many were applied and how many refused.
    pub operations: BTreeMap<&'static str, (u64, u64)>,
    /// How often somebody who was due something was checked to be due no less.
    pub promises: u64,
}

impl Tally {
    /// Add another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.sequences += other.sequences;
        self.promises += other.promises;
        for (kind, (applied, refused)) in &other.operations {
            let count = self.operations.entry(kind).or_default();
            count.0 += applied;
            count.1 += refused;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let applied: u64 = self.operations.values().map(|count| count.0).sum();
        let refused: u64 = self.operations.values().map(|count| count.1).sum();
        write!(
            f,
            "{} sequences, {applied} operations applied, {refused} refused, {} dues compared (",
            self.sequences, self.promises
        )?;
        for (index, (kind, (applied, refused))) in self.operations.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{kind} {applied}/{}", applied + refused)?;
        }
        write!(f, ")")
    }
}

/// A theorem broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Theorem 2.
    #[error("isolation from uid {user}: {loss}")]
    Isolation {
        /// Who did it.
        user: u32,
        /// Who lost what.
        loss: String,
    },
    /// A quota.
    #[error("quotas: {0}")]
    Quota(String),
    /// What the auditor found.
    #[error(transparent)]
    Audit(#[from] Fault),
}

/// The shortest sequence found that still breaks something.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The seed of the world.
    pub seed: u64,
    /// What broke; nothing, where the sequence was sought for something else.
    pub broken: Option<Broken>,
    /// The operations that were applied, the last of which broke it.
    pub acts: Vec<Act>,
    /// The ledger before the last of them, as currencies and tickets.
    pub before: Ledger,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broken = self.broken.as_ref().map(Broken::to_string);
        writeln!(f, "seed {}: {}", self.seed, broken.as_deref().unwrap_or("nothing broke"))?;
        for (number, act) in self.acts.iter().enumerate() {
            writeln!(
                f,
                "{:3}. uid {} ({:?}): {:?}",
                number + 1,
                act.user,
                act.authority,
                act.intent
            )?;
        }
        writeln!(f, "before the last of these:")?;
        for currency in self.before.currencies() {
            writeln!(f, "  {} {:?}", currency.id, currency.record)?;
        }
        for (id, ticket) in self.before.tickets() {
            writeln!(f, "  ticket {}: {ticket:?}", id.0)?;
        }
        Ok(())
    }
}

/// How many moves one sequence has.
pub const MOVES: usize = 60;

/// The moves of a seed: users act in runs.
pub fn moves(seed: u64, count: usize) -> Vec<Move> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6d6f_7665);
    let mut moves: Vec<Move> = Vec::with_capacity(count);
    for _ in 0..count {
        let step = Move::random(&mut rng);
        let same = moves.last().filter(|_| rng.next_u32().is_multiple_of(2));
        moves.push(same.map_or(step, |last| step.by_actor_of(*last)));
    }
    moves
}

/// Play a seed's sequence.
///
/// # Errors
/// What broke, with the sequence shrunk to what is needed for it.
pub fn play(seed: u64, audit: Audit, tally: &mut Tally) -> Result<(), Box<Counterexample>> {
    let moves = moves(seed, MOVES);
    match run(seed, &moves, audit, tally) {
        Ok(()) => Ok(()),
        Err(_) => Err(Box::new(shrink(seed, moves, &|seed, moves| {
            run(seed, moves, Audit::Always, &mut Tally::default()).err()
        }))),
    }
}

/// What breaks, given a seed and its moves.
type Test<'a> = &'a dyn Fn(u64, &[Move]) -> Option<Box<Trace>>;

/// What was applied, up to a failure where there was one.
#[derive(Clone, Debug)]
pub struct Trace {
    broken: Option<Broken>,
    acts: Vec<Act>,
    before: Ledger,
}

impl Trace {
    /// What was applied.
    pub fn acts(&self) -> &[Act] {
        &self.acts
    }
}

/// What a seed's world makes of some moves, nothing checked.
pub fn trace_of(seed: u64, moves: &[Move]) -> Trace {
    let mut world = World::random(&mut Pcg64Mcg::seed_from_u64(seed));
    let mut acts = Vec::new();
    for step in moves {
        if step.changes_policy() {
            world.change_policy(*step);
        } else if let Some(act) = world.act(*step)
            && world.perform(&act).is_ok()
        {
            acts.push(act);
        }
    }
    Trace { broken: None, acts, before: world.ledger }
}

fn run(seed: u64, moves: &[Move], audit: Audit, tally: &mut Tally) -> Result<(), Box<Trace>> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut world = World::random(&mut rng);
    let mut books = Books::open(&world.ledger);
    let mut acts: Vec<Act> = Vec::new();
    // What everybody is due against the user who acted last, while nobody else has acted.
    let mut known: Option<(u32, Dues)> = None;
    tally.sequences += 1;
    for (index, step) in moves.iter().enumerate() {
        let last = index + 1 == moves.len();
        let before = (audit == Audit::Always).then(|| world.ledger.clone());
        let fail = |broken: Broken, acts: &[Act], world: &World| {
            let before = before.clone().unwrap_or_else(|| world.ledger.clone());
            Box::new(Trace { broken: Some(broken), acts: acts.to_vec(), before })
        };
        let changes = if step.changes_policy() {
            known = None;
            world.change_policy(*step)
        } else {
            let Some(act) = world.act(*step) else { continue };
            let ordinary = act.user != 0;
            let was = match known.take() {
                Some((user, was)) if user == act.user => Some(was),
                _ if ordinary => Some(dues(&world.ledger, &world.party(act.user))),
                _ => None,
            };
            let had: Vec<_> = world.uids().map(|uid| world.owned(uid)).collect();
            let count = tally.operations.entry(act.intent.name()).or_default();
            let Ok(changes) = world.perform(&act) else {
                count.1 += 1;
                known = was.map(|was| (act.user, was));
                continue;
            };
            count.0 += 1;
            acts.push(act.clone());
            if let Some(was) = was {
                let now = dues(&world.ledger, &world.party(act.user));
                tally.promises += was.len() as u64;
                if let Some(loss) = loss(&was, &now) {
                    let broken = Broken::Isolation { user: act.user, loss };
                    return Err(fail(broken, &acts, &world));
                }
                known = Some((act.user, now));
            }
            if let Some(beyond) = world.beyond_quota(&act, &had) {
                return Err(fail(Broken::Quota(beyond), &acts, &world));
            }
            if let Some((user, loss)) = world.trespasser() {
                return Err(fail(Broken::Isolation { user, loss }, &acts, &world));
            }
            changes
        };
        books.follow(&changes, &world, &mut rng);
        if audit == Audit::Always || last {
            books.audit(&world.ledger).map_err(|fault| fail(fault.into(), &acts, &world))?;
        }
    }
    books.audit_history(&world.ledger).map_err(|fault| {
        Box::new(Trace { broken: Some(fault.into()), acts, before: world.ledger.clone() })
    })
}

/// What is kept beside the ledger to compare it with.
struct Books {
    start: Ledger,
    changes: Vec<Change>,
    graphs: Vec<(Graph, BTreeSet<CurrencyId>)>,
}

impl Books {
    fn open(ledger: &Ledger) -> Books {
        let graphs = [Resource::CPU, Resource::MEMORY]
            .map(|resource| (Graph::of(ledger, resource), BTreeSet::new()));
        Books { start: ledger.clone(), changes: Vec::new(), graphs: graphs.into() }
    }

    fn follow(&mut self, changes: &[Change], world: &World, rng: &mut impl RngCore) {
        for (graph, active) in &mut self.graphs {
            for change in changes {
                graph.follow(change);
            }
            active.retain(|id| world.ledger.currency(*id).is_some());
            let wanted = world.random_activity(rng);
            for id in active.symmetric_difference(&wanted) {
                graph.set_active(*id, wanted.contains(id));
            }
            *active = wanted;
        }
        self.changes.extend_from_slice(changes);
    }

    fn audit(&mut self, ledger: &Ledger) -> Result<(), Fault> {
        auditor::audit_books(ledger)?;
        for (graph, active) in &mut self.graphs {
            auditor::audit_values(ledger, graph, active)?;
            auditor::audit_increments(ledger, graph, active)?;
        }
        Ok(())
    }

    fn audit_history(&self, ledger: &Ledger) -> Result<(), Fault> {
        auditor::audit_copies(ledger, &self.start, &self.changes)
    }
}

/// Leave out moves, in ever smaller runs, as long as it still breaks.
pub fn shrink(seed: u64, mut moves: Vec<Move>, test: Test<'_>) -> Counterexample {
    let mut trace = test(seed, &moves).expect("what is shrunk breaks");
    let mut length = moves.len() / 2;
    while length > 0 {
        let mut start = 0;
        let mut shorter = false;
        while start < moves.len() {
            let mut fewer = moves.clone();
            fewer.drain(start..(start + length).min(moves.len()));
            match test(seed, &fewer) {
                Some(found) => {
                    trace = found;
                    moves = fewer;
                    shorter = true;
                }
                None => start += length,
            }
        }
        if !(shorter && length == 1) {
            length /= 2;
        }
    }
    let Trace { broken, acts, before } = *trace;
    Counterexample { seed, broken, acts, before }
}
