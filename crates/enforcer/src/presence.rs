//! Whether a client competes for the CPU: by what it used since the last look, and by its state where that does not
//! tell. Pure.
//!
//! 1. A client that used more than nearly nothing competes.
//! 2. The state of any other is asked for: one that is on a CPU or ready for one competes, one that somebody stopped is
//!    left alone, all others sleep.
//! 3. A sleeper that used nothing is asked only now and then ([`Looks::ask_sleepers`]).
//! 4. A client competes until some looks in a row found it asleep ([`Looks::lingers`]).

use crate::ClientState;
use observe::RunState;
use policy::ONE_SEAT;

/// A client used nearly nothing of a time if it used at most one part in this many.
const NEARLY_NOTHING: u64 = 16;

/// Whether a client takes part in the competition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It wants the CPU.
    Competing,
    /// It does not want the CPU.
    #[default]
    Asleep,
    /// Somebody else has stopped it.
    StoppedByOthers,
    /// The plan has frozen it.
    Frozen,
}

impl Presence {
    /// Returns the presence of a client by the state of its busiest process (rule 2).
    pub fn of(state: RunState) -> Presence {
        match state {
            RunState::Running => Presence::Competing,
            RunState::Stopped => Presence::StoppedByOthers,
            _ => Presence::Asleep,
        }
    }

    /// Returns what is told of a client. `is_served` says whether one that competes is served, or waits.
    pub fn state(self, is_served: bool) -> ClientState {
        match self {
            Presence::Competing if is_served => ClientState::Running,
            Presence::Competing => ClientState::Waiting,
            Presence::Asleep => ClientState::Sleeping,
            Presence::StoppedByOthers => ClientState::Stopped,
            Presence::Frozen => ClientState::Frozen,
        }
    }
}

/// The rule of an enforcer's looks: where enforcers differ, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Looks between two questions to a sleeper that used nothing; `None` asks none. A client that is left free while it
    /// sleeps uses some CPU time soon after it wakes, and is found by that; one whose weight is small may have to wait
    /// for that, and is found by its state.
    pub ask_sleepers: Option<u32>,
    /// Looks in a row that have to find a client asleep until it competes no more. 1 where a look covers all that it
    /// did; more where sleeping between two requests would change what others are due.
    pub lingers: u32,
    /// Whether one that somebody had stopped competes by what it used, before its state is asked for. It does where a
    /// look covers a long time: it was continued in it. A look that covers one quantum finds what it used before it was
    /// stopped, too.
    pub stopped_compete_by_use: bool,
}

impl Looks {
    /// The looks of an enforcer that sets weights once in a period.
    pub const OF_WEIGHTS: Looks =
        Looks { ask_sleepers: Some(16), lingers: 1, stopped_compete_by_use: true };
    /// The looks of an enforcer that draws once in a quantum, and leaves sleepers free.
    pub const OF_DRAWS: Looks =
        Looks { ask_sleepers: None, lingers: 1, stopped_compete_by_use: false };
}

/// One look: the CPU time that a client used since the last one, and the time that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// CPU time used, in ns.
    pub used_ns: u64,
    /// Time that has passed, in ns.
    pub elapsed_ns: u64,
}

impl Look {
    /// Returns whether the client used more than nearly nothing (rule 1).
    pub fn is_plenty(self) -> bool {
        self.used_ns > self.elapsed_ns / NEARLY_NOTHING
    }
}

/// What is known of a client from one look to the next.
#[derive(Clone, Debug)]
pub struct PresenceTracker {
    looks: u32,
    /// Looks in a row that found it asleep.
    asleep: u32,
    has_run: bool,
    /// CPU time used since the last look.
    used_ns: u64,
    looked_at_ns: u64,
}

impl PresenceTracker {
    /// A client whose first look covers the time from now on.
    pub fn new(now_ns: u64) -> PresenceTracker {
        PresenceTracker { looks: 0, asleep: 0, has_run: false, used_ns: 0, looked_at_ns: now_ns }
    }

    /// Returns whether the last look found that it had used some CPU time.
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// Adds CPU time that it used.
    pub fn add(&mut self, used_ns: u64) {
        self.used_ns += used_ns;
    }

    /// Begins a look: takes what was used since the last one.
    pub fn take(&mut self, now_ns: u64) -> Look {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_at_ns, now_ns));
        Look { used_ns: std::mem::take(&mut self.used_ns), elapsed_ns }
    }

    /// Returns the presence that a look finds, by the rule, after the presence `before`. `state` asks for the state of the
    /// client's busiest process; `None` leaves the presence as it is. `is_asked` asks a sleeper each time: one that gets
    /// only what is left over may not be given any CPU time when it wakes.
    pub fn find(
        &mut self,
        rule: &Looks,
        look: Look,
        before: Presence,
        is_asked: bool,
        state: impl FnOnce() -> Option<RunState>,
    ) -> Presence {
        self.has_run = look.used_ns > 0;
        if before == Presence::Frozen {
            return Presence::Frozen;
        }
        let is_due = |every: u32| self.looks.is_multiple_of(every);
        let asks = is_asked || rule.ask_sleepers.is_some_and(is_due);
        self.looks = self.looks.wrapping_add(1);
        if before == Presence::Asleep && look.used_ns == 0 && !asks {
            return Presence::Asleep;
        }
        let by_use = rule.stopped_compete_by_use || before != Presence::StoppedByOthers;
        let found = match look.is_plenty() && by_use {
            true => Presence::Competing,
            false => state().map_or(before, Presence::of),
        };
        self.asleep = if found == Presence::Asleep { self.asleep.saturating_add(1) } else { 0 };
        let lingers = before == Presence::Competing && self.asleep < rule.lingers;
        if found == Presence::Asleep && lingers { before } else { found }
    }
}

/// The CPU time that a client was promised and got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuAccount {
    /// CPU time used, in ns.
    pub used_ns: u64,
    /// CPU time promised, in ns.
    pub promised_ns: u64,
    /// Time for which it competed, in ns.
    pub active_ns: u64,
    /// Draws that it won; 0 where nobody draws.
    pub wins: u64,
    /// Draws that it took part in; 0 where nobody draws.
    pub draws: u64,
}

impl CpuAccount {
    /// Adds a time for which it competed, with this promise in parts of a seat.
    pub fn integrate(&mut self, promised: u64, elapsed_ns: u64) {
        let promised_ns = u128::from(promised) * u128::from(elapsed_ns) / u128::from(ONE_SEAT);
        self.promised_ns += promised_ns as u64;
        self.active_ns += elapsed_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Presence::{Asleep, Competing, Frozen, StoppedByOthers};

    const NOTHING: Look = Look { used_ns: 0, elapsed_ns: 1600 };
    const LITTLE: Look = Look { used_ns: 100, elapsed_ns: 1600 };
    const PLENTY: Look = Look { used_ns: 101, elapsed_ns: 1600 };

    /// Looks once, a sleeper not out of turn. Answers what was found, and whether the state was asked for.
    fn look(
        tracker: &mut PresenceTracker,
        rule: &Looks,
        look: Look,
        before: Presence,
        state: Option<RunState>,
    ) -> (Presence, bool) {
        let mut asked = false;
        let found = tracker.find(rule, look, before, false, || {
            asked = true;
            state
        });
        (found, asked)
    }

    #[test]
    fn use_decides_and_then_the_state() {
        let rules = [Looks::OF_WEIGHTS, Looks::OF_DRAWS];
        let (running, stopped, sleeping) =
            (Some(RunState::Running), Some(RunState::Stopped), Some(RunState::Sleeping));
        for rule in &rules {
            let tracker = &mut PresenceTracker::new(0);
            for before in [Competing, Asleep] {
                assert_eq!(look(tracker, rule, PLENTY, before, stopped), (Competing, false));
                assert!(tracker.has_run());
                assert_eq!(look(tracker, rule, LITTLE, before, running), (Competing, true));
                assert_eq!(look(tracker, rule, LITTLE, before, stopped), (StoppedByOthers, true));
                assert_eq!(look(tracker, rule, LITTLE, before, sleeping), (Asleep, true));
                assert_eq!(
                    look(tracker, rule, LITTLE, before, Some(RunState::Dead)),
                    (Asleep, true)
                );
            }
            assert_eq!(look(tracker, rule, NOTHING, Competing, None), (Competing, true));
            assert!(!tracker.has_run());
            assert_eq!(look(tracker, rule, PLENTY, Frozen, running), (Frozen, false));
            assert_eq!(look(tracker, rule, NOTHING, StoppedByOthers, running), (Competing, true));
        }
        let [weights, draws] = rules;
        let tracker = &mut PresenceTracker::new(0);
        assert_eq!(look(tracker, &weights, PLENTY, StoppedByOthers, stopped), (Competing, false));
        let still = look(tracker, &draws, PLENTY, StoppedByOthers, stopped);
        assert_eq!(still, (StoppedByOthers, true));
    }

    #[test]
    fn an_idle_sleeper_is_asked_now_and_then_or_never_or_each_time() {
        let asked_at = |rule: &Looks, is_asked: bool| {
            let tracker = &mut PresenceTracker::new(0);
            let mut asked = Vec::new();
            for turn in 0..33 {
                let found = tracker.find(rule, NOTHING, Asleep, is_asked, || {
                    asked.push(turn);
                    Some(RunState::Sleeping)
                });
                assert_eq!(found, Asleep);
            }
            asked
        };
        assert_eq!(asked_at(&Looks::OF_WEIGHTS, false), [0, 16, 32]);
        assert_eq!(asked_at(&Looks::OF_DRAWS, false), [0; 0]);
        assert_eq!(asked_at(&Looks::OF_WEIGHTS, true).len(), 33);
    }

    #[test]
    fn one_that_lingers_competes_until_so_many_looks_found_it_asleep() {
        let rule = Looks { lingers: 3, ..Looks::OF_WEIGHTS };
        let tracker = &mut PresenceTracker::new(0);
        let mut found = Competing;
        let mut all = Vec::new();
        for state in [0, 0, 1, 0, 0, 0, 0].map(|runs| [RunState::Sleeping, RunState::Running][runs])
        {
            found = look(tracker, &rule, LITTLE, found, Some(state)).0;
            all.push(found == Competing);
        }
        assert_eq!(all, [true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_look_covers_what_was_used_since_the_last_one() {
        let mut tracker = PresenceTracker::new(1000);
        tracker.add(30);
        tracker.add(12);
        assert_eq!(tracker.take(1100), Look { used_ns: 42, elapsed_ns: 100 });
        assert_eq!(tracker.take(1150), Look { used_ns: 0, elapsed_ns: 50 });
    }

    #[test]
    fn promises_are_integrated() {
        let mut account = CpuAccount::default();
        account.integrate(ONE_SEAT / 2, 1_000_000_000);
        account.integrate(2 * ONE_SEAT, 10);
        assert_eq!((account.promised_ns, account.active_ns), (500_000_020, 1_000_000_010));
    }
}
