//! The table *resource → enforcer*, filled from registrations.
//!
//! Choosing the best available enforcer, taking the next when it gives up, drift, status, samples and undo are the same
//! code for all kinds of resources. The CPU is shared from the start; another kind from the first plan that has
//! tickets of it (or a limit on it) until the last.
//!
//! One enforcer may serve several kinds (cgroup v2: one tree for the CPU, memory and disks); it is started once, with
//! all the kinds that it is to serve.

mod effect;
mod seen;

use crate::admission::Admission;
use crate::drift::ShownDrift;
use crate::kinds::resource_kinds;
use crate::message::Choice;
use crate::standing::Standing;
use enforcer::{
    CapabilitySet, EnforceError, Enforcer, Plan, Registration, Settings, Status, Trace,
};
use identity::ProcessIdentity;
use ledger::{KindName, Resource};
use policy::PolicyName;
use std::sync::Arc;
use undo::{Restorer, Restorers};

/// Why nobody enforces.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The enforcer that was asked for cannot begin.
    #[error(transparent)]
    Enforce(#[from] EnforceError),
    /// It cannot work on this machine.
    #[error("{0}")]
    Unavailable(String),
    /// It schedules everybody.
    #[error("{0} shares the whole machine, and a private allotd only what it is given")]
    NotPrivate(&'static str),
    /// No enforcer of the CPU has this name.
    #[error("no enforcer of the CPU is called `{name}`: there are {known}")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: String,
    },
}

/// An enforcer that runs.
struct Running {
    registration: Registration,
    /// The kinds that it was started to serve.
    kinds: Vec<KindName>,
    enforcer: Box<dyn Enforcer>,
}

/// The table.
pub struct Table {
    settings: Settings,
    is_on: bool,
    /// Whether kinds besides the CPU are shared.
    shares_others: bool,
    /// In order of kind, the CPU first.
    standings: Vec<Standing>,
    running: Vec<Running>,
    /// Why the CPU's enforcer serves, where it was not chosen by standing.
    asked_for: Option<&'static str>,
    /// Why another allotd's work is not done here too, while it is so.
    deferred: Option<String>,
    drift: ShownDrift,
    admission: Admission,
    /// Resources besides the CPU of the last plan.
    planned: Vec<Resource>,
    generation: u64,
    /// The enforcers' statuses, as of the last [look](Table::look).
    statuses: Vec<Status>,
}

impl Table {
    /// Restores what earlier ones left, and starts the CPU's enforcer.
    ///
    /// # Errors
    /// When it cannot be started; nothing was touched then.
    pub fn start(
        enforcers: &[Registration],
        settings: Settings,
        choice: &Choice,
        shares_others: bool,
        admission: Admission,
    ) -> Result<Table, TableError> {
        let kinds = resource_kinds(enforcers);
        let standings = kinds
            .names()
            .map(|kind| Standing::new(kind, candidates(enforcers, kind, settings.is_private)));
        let mut table = Table {
            standings: standings.collect(),
            settings,
            is_on: *choice != Choice::Nobody,
            shares_others,
            running: Vec::new(),
            asked_for: None,
            deferred: None,
            drift: ShownDrift::default(),
            admission,
            planned: Vec::new(),
            generation: 0,
            statuses: Vec::new(),
        };
        // Whoever comes restores what was left, whichever enforcer that was.
        for registration in enforcers {
            table.restore_leftovers(registration, &restorers(enforcers));
        }
        match choice {
            Choice::Nobody => {}
            Choice::Best => table.start_cpu()?,
            Choice::Named(name) => table.start_named(enforcers, name)?,
        }
        Ok(table)
    }

    /// Gives back what an allotd and its guardian, both killed, have left.
    fn restore_leftovers(&self, registration: &Registration, restorers: Restorers<'_>) {
        if self.settings.is_private && !registration.serves_private {
            return;
        }
        for path in registration.records.iter().map(|suffix| self.settings.record(suffix)) {
            match undo::restore_leftovers(&path, restorers) {
                Ok(restored) => {
                    restored.left.iter().for_each(|what| tracing::warn!("{what}"));
                    restored.failed.iter().for_each(|what| tracing::error!("{what}"));
                }
                Err(error) => tracing::error!("{}: {error}", path.display()),
            }
        }
    }

    fn start_cpu(&mut self) -> Result<(), TableError> {
        if self.take_best(KindName::CPU) {
            return Ok(());
        }
        Err(TableError::Unavailable(self.standing(KindName::CPU).why_not()))
    }

    fn start_named(&mut self, enforcers: &[Registration], name: &str) -> Result<(), TableError> {
        let of_cpu = || enforcers.iter().filter(|it| it.serves(KindName::CPU));
        let Some(asked) = of_cpu().find(|it| it.name == name) else {
            let known: Vec<&str> = of_cpu().map(|it| it.name).collect();
            let (name, known) = (name.to_owned(), known.join(", "));
            return Err(TableError::Unknown { name, known });
        };
        if self.settings.is_private && !asked.serves_private {
            return Err(TableError::NotPrivate(asked.name));
        }
        self.launch(asked, KindName::CPU)?;
        // Should it give up, those that are worse come after it.
        let candidates = of_cpu().skip_while(|it| it.name != name).copied().collect();
        *self.standing_mut(KindName::CPU) = Standing::served(KindName::CPU, candidates);
        self.asked_for = Some("asked for with --enforcer");
        Ok(())
    }

    fn standing(&self, kind: KindName) -> &Standing {
        self.standings.iter().find(|it| it.kind == kind).expect("the kind was registered")
    }

    fn standing_mut(&mut self, kind: KindName) -> &mut Standing {
        self.standings.iter_mut().find(|it| it.kind == kind).expect("the kind was registered")
    }

    /// Has a kind served by the best enforcer that can be started. Answers whether that changed who serves it.
    fn take_best(&mut self, kind: KindName) -> bool {
        let Some(place) = self.standings.iter().position(|it| it.kind == kind) else {
            return false;
        };
        let mut standing =
            std::mem::replace(&mut self.standings[place], Standing::new(kind, vec![]));
        let settings = self.settings.clone();
        let before = standing.serving().map(|it| it.name);
        let changed = standing.take_best(|registration, kind| {
            self.may_serve(registration, kind)?;
            (registration.available)(&settings, kind)?;
            self.launch(registration, kind).map_err(|error| with_causes(&error))
        });
        if let (true, Some(worse)) = (changed, before) {
            self.stop_serving(worse, kind);
        }
        self.standings[place] = standing;
        changed
    }

    fn may_serve(&self, registration: &Registration, kind: KindName) -> Result<(), String> {
        if self.settings.is_private && !registration.serves_private {
            return Err("a private allotd shares the CPU only".to_owned());
        }
        if kind != KindName::CPU && !self.shares_others {
            return Err("started with --others none".to_owned());
        }
        Ok(())
    }

    /// Starts an enforcer for a kind, unless it runs and serves that already.
    fn launch(&mut self, registration: &Registration, kind: KindName) -> Result<(), EnforceError> {
        let runs = self.running.iter().position(|it| it.registration.name == registration.name);
        let mut kinds = vec![kind];
        if let Some(place) = runs {
            if self.running[place].kinds.contains(&kind) {
                return Ok(());
            }
            // It is started anew with one kind more: two of the same would be in each other's way.
            let ended = self.running.remove(place);
            kinds.extend(ended.kinds.iter().copied());
            end(ended);
        }
        kinds.extend(self.other_kinds(registration, &kinds));
        match (registration.start)(&self.settings, &kinds) {
            Ok(enforcer) => {
                self.running.push(Running { registration: *registration, kinds, enforcer });
                Ok(())
            }
            Err(error) => {
                // The other kinds that it served are without it too, until they are tried again.
                let name = registration.name;
                let served = |it: &&mut Standing| it.serving().is_some_and(|it| it.name == name);
                self.standings.iter_mut().filter(served).for_each(Standing::end);
                Err(error)
            }
        }
    }

    /// The other kinds that an enforcer may serve beside `kinds`, once a plan has them.
    fn other_kinds(&self, registration: &Registration, kinds: &[KindName]) -> Vec<KindName> {
        let served = (registration.kinds)().into_iter().map(|kind| kind.name);
        let may = |kind: &KindName| {
            self.shares_others
                && *kind != KindName::CPU
                && !kinds.contains(kind)
                && (registration.available)(&self.settings, *kind).is_ok()
        };
        served.filter(may).collect()
    }

    /// Ends an enforcer that serves a kind no longer, unless it serves another.
    fn stop_serving(&mut self, name: &str, kind: KindName) {
        let others =
            |it: &Standing| it.kind != kind && it.serving().is_some_and(|it| it.name == name);
        if self.standings.iter().any(others) {
            return;
        }
        if let Some(place) = self.running.iter().position(|it| it.registration.name == name) {
            end(self.running.remove(place));
        }
    }

    /// Puts the next best in the place of enforcers that have given up; answers what happened. They have to be given
    /// a plan then.
    pub fn replace_those_that_gave_up(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        while let Some((place, why)) = self.first_that_gave_up() {
            let gone = self.running.remove(place);
            let name = gone.registration.name;
            end(gone);
            self.asked_for = None;
            let served: Vec<KindName> = self
                .standings
                .iter_mut()
                .filter(|it| it.serving().is_some_and(|it| it.name == name))
                .map(|standing| {
                    standing.give_up(name, &why);
                    standing.kind
                })
                .collect();
            for kind in served {
                let next = match self.take_best(kind) {
                    true => {
                        let next = self.standing(kind).serving().map_or("nobody", |it| it.name);
                        format!("{next} goes on")
                    }
                    false => format!("nobody enforces: {}", self.standing(kind).why_not()),
                };
                told.push(format!("{name} gave up: {why}; {next}"));
            }
        }
        told
    }

    fn first_that_gave_up(&self) -> Option<(usize, String)> {
        let all = self.running.iter().enumerate();
        all.into_iter().find_map(|(place, it)| Some((place, it.enforcer.gave_up()?)))
    }

    /// The capabilities that enforcers need as long as they run: those that run, and the best of each kind that may be
    /// wanted later.
    pub fn needs(&self) -> CapabilitySet {
        let running = self.running.iter().map(|it| it.registration);
        let later = self.standings.iter().filter(|it| it.kind != KindName::CPU && self.is_on);
        let later = later.filter_map(|standing| {
            let can = |it: &&Registration| {
                self.may_serve(it, standing.kind).is_ok()
                    && (it.available)(&self.settings, standing.kind).is_ok()
            };
            standing.candidates().iter().find(can).copied()
        });
        let needs = running.chain(later).map(|it| (it.needs)(&self.settings).run);
        needs.fold(CapabilitySet::empty(), CapabilitySet::union)
    }

    /// Whether all threads of the machine are scheduled, the kernel's own too.
    pub fn covers_everybody(&self) -> bool {
        self.running.iter().any(|it| it.enforcer.covers_everybody())
    }

    /// Follows what is admitted of a plan; answers the CPU's refusal, in words. What other kinds lack is told as drift.
    ///
    /// # Errors
    /// When the CPU's enforcer refuses it.
    pub fn apply(&mut self, mut plan: Plan) -> Result<(), String> {
        self.admission.admit(&mut plan).iter().for_each(|what| tracing::warn!("{what}"));
        let plan = &Arc::new(plan);
        let others = plan.graphs.keys().filter(|resource| **resource != Resource::CPU);
        self.planned = others.cloned().collect();
        self.generation = plan.generation;
        self.serve_what_is_wanted(plan);
        let mut refused = Ok(());
        for it in &mut self.running {
            if let Err(error) = it.enforcer.apply(plan) {
                match it.kinds.contains(&KindName::CPU) {
                    true => refused = Err(error.to_string()),
                    false => self.drift.push(error.to_string()),
                }
            }
        }
        refused
    }

    /// Starts enforcers of the kinds that the plan has tickets of, and ends those of which nobody has any.
    fn serve_what_is_wanted(&mut self, plan: &Plan) {
        let kinds: Vec<KindName> = self.standings.iter().map(|it| it.kind).collect();
        for kind in kinds.into_iter().filter(|kind| *kind != KindName::CPU) {
            if plan.wants(kind) {
                self.serve(kind);
                continue;
            }
            let standing = self.standing_mut(kind);
            if let Some(name) = standing.serving().map(|it| it.name) {
                standing.end();
                self.stop_serving(name, kind);
            }
        }
    }

    fn serve(&mut self, kind: KindName) {
        if !self.standing(kind).is_due() {
            return;
        }
        let before = self.standing(kind).why(&self.settings);
        self.take_best(kind);
        let standing = self.standing(kind);
        let why = standing.why(&self.settings);
        if standing.is_served_by_best() || why == before {
            return;
        }
        let what = match kind {
            KindName::DISK => "tickets and limits of disks".to_owned(),
            kind => format!("tickets of {kind}"),
        };
        self.drift.push(match standing.serving() {
            Some(serving) => format!("{what} are enforced by {}: {why}", serving.name),
            None => format!("{what} have no effect: {why}"),
        });
    }

    fn of_cpu(&mut self) -> Option<&mut Running> {
        let name = self.standing(KindName::CPU).serving()?.name;
        self.running.iter_mut().find(|it| it.registration.name == name)
    }

    /// Chooses who is next by another algorithm from now on.
    ///
    /// # Errors
    /// When the enforcer cannot, in words.
    pub fn set_algorithm(&mut self, algorithm: PolicyName) -> Result<(), String> {
        let of_cpu = self.of_cpu().ok_or("nobody enforces: there is no policy to set")?;
        let name = of_cpu.registration.name;
        of_cpu.enforcer.set_algorithm(algorithm).map_err(|error| format!("{name}: {error}"))?;
        // The next enforcer draws by it too.
        self.settings.cpu.algorithm = algorithm;
        Ok(())
    }

    /// Begins a trace of every choice.
    ///
    /// # Errors
    /// When the enforcer has none, in words.
    pub fn trace(&mut self) -> Result<Trace, String> {
        let trace = self.of_cpu().and_then(|it| it.enforcer.tracer());
        let name = self.name();
        let trace = trace.ok_or_else(|| {
            format!(
                "the enforcer `{name}` has no trace: only sched-ext tells each choice; `allot top` \
                 counts wins"
            )
        })?;
        trace.map_err(|error| error.to_string())
    }

    /// Notes that a client forked.
    pub fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        for it in &mut self.running {
            it.enforcer.note_fork(parent, child);
        }
    }

    /// The name of the CPU's enforcer.
    pub fn name(&self) -> &'static str {
        self.standing(KindName::CPU).serving().map_or("none", |it| it.name)
    }

    /// Gives everything back for as long as there is a reason, and takes it up again after. Answers what
    /// changed, in words.
    pub fn defer(&mut self, why: Option<String>) -> Option<String> {
        if !self.is_on || why.is_some() == self.deferred.is_some() {
            return None;
        }
        self.deferred = why;
        match &self.deferred {
            Some(why) => {
                let why = why.clone();
                self.end();
                Some(why)
            }
            None => {
                self.take_best(KindName::CPU);
                Some(format!(
                    "no other allotd does this one's work any more: {} goes on",
                    self.name()
                ))
            }
        }
    }

    /// Gives everything back and ends.
    pub fn end(&mut self) {
        self.running.drain(..).for_each(end);
        self.standings.iter_mut().for_each(Standing::end);
    }
}

/// The enforcers of a kind, the best first. A private daemon has those that can serve one; a kind that has none of these
/// keeps the others, to say why they are refused.
fn candidates(enforcers: &[Registration], kind: KindName, is_private: bool) -> Vec<Registration> {
    let all = || enforcers.iter().filter(|it| it.serves(kind)).copied();
    let of_private: Vec<Registration> = all().filter(|it| it.serves_private).collect();
    match is_private && !of_private.is_empty() {
        true => of_private,
        false => all().collect(),
    }
}

/// Lists the restorers of all enforcers' records.
pub fn restorers(enforcers: &[Registration]) -> Vec<&'static dyn Restorer> {
    enforcers.iter().filter_map(|enforcer| enforcer.restorer).collect()
}

/// An error with all its causes, where the innermost is what the kernel said.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Gives back all that an enforcer changed.
fn end(mut it: Running) {
    if let Err(error) = it.enforcer.revert()
        && it.enforcer.gave_up().is_none()
    {
        tracing::warn!("while {} gives everything back: {error}", it.registration.name);
    }
}
