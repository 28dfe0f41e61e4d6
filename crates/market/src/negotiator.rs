//! A negotiator: trades for a client that knows nothing of tickets (paper 1, 4.2 and 8).
//!
//! The paper leaves open: how a negotiator finds what is good for its client, when it accepts less
//! than it asked, how oscillation is avoided, and whether one can be general. This one tries:
//!
//! 1. **What presses.** Of each resource, the part of the time for which the client waited for it.
//!    It offers what it waits for least for what it waits for most, where these are at least
//!    [`Options::gap`] apart.
//! 2. **For how much.** A curve by amount on which it would lose nothing if waiting times are
//!    elasticities (`curve`), times a mark-up. It begins at the rate of what it holds, as great a
//!    part for as great a part, or at the curve if that is more.
//! 3. **When less is accepted.** The mark-up falls by a fifth at each window that nobody takes it, to
//!    [`MARK_UP_LEAST`]: never to a loss by rule 2. There it stays [`Options::patience_windows`]; then the
//!    offer is taken back and another pair of goods gets its turn.
//! 4. **Small steps.** First a tenth of what is its own of the good that it gives; twice as much
//!    after a step that helped, at most four tenths; half after one that hurt; twice as much after
//!    one that did nothing, because needs come in lumps (6.6: `small` gains nothing by
//!    100 tickets and tenfold by 700). A tenth of each good is never given.
//! 5. **Did it help?** Progress a second, in windows: [`Options::windows`] before, or more where there were more without
//!    a trade, and as many after, those in which things settle left out. Kept is what is greater by Welch's t-test, one-sided at
//!    2.5 %, and by [`Options::least_effect`] at least. If it is neither that nor worse by the same test,
//!    as many windows again are looked at: once, and while it seems to help by that much up to
//!    [`LOOKS_MAX`] times in all. All else is taken back (a **reversal**).
//! 6. **Progress** is what the client counts, or else its CPU time less what faults cost.
//! 7. **Backing off.** After each reversal, or when a partner ended an exchange, the pair of goods
//!    waits twice as long as before, from a minute to an hour. A step that helped ends no waiting but
//!    its own pair's.
//! 8. **No oscillation.** In no hour are there more than [`REVERSALS_MAX`] reversals: none is begun
//!    that could be one more. On a steady load rule 7 makes it at most seven for each pair in the
//!    first hour and one in each later one.
//! 9. **A load that changed**: progress without any trade of its own, or after one was taken back,
//!    differs by [`CHANGE_LEAST`] from what it was, beyond one chance in 1000. Or, for as many
//!    windows as are compared, it waited for what it gave in an exchange by [`REGRET`] more of its time
//!    than for what it got. Then waiting times are forgotten, and exchanges that by rule 2 hurt now
//!    are ended, together, as one reversal. Not more often than every [`CHANGE_WAIT_NS`].
//! 10. **Cost.** Its own CPU time is at most [`Options::cost_part`] of what its client's tickets are due:
//!     the window is as long as that needs.

mod curve;
mod memory;
mod seen;
mod stakes;
mod welch;

pub use ledger::{Good, Point, Terms, TicketKind};
pub use seen::{Action, Event, Observation, Options, Phase, Seen, Tally, Verdict};

use curve::{Stake, WAITING_LEAST};
use memory::{Pair, Pairs};
use stakes::stakes;
use std::collections::{BTreeMap, VecDeque};
use welch::{Level, greater, mean};

/// The most reversals in an hour.
pub const REVERSALS_MAX: usize = 12;
/// The least mark-up on the curve of rule 2.
pub const MARK_UP_LEAST: f64 = 1.1;
/// How often the windows after a trade are looked at, each time with as many more, before what may help is
/// taken back.
pub const LOOKS_MAX: usize = 4;
/// By how much progress differs, at least, when the load is said to have changed.
pub const CHANGE_LEAST: f64 = 0.25;
/// How much more of its time a client waits for what it gave than for what it got, when its needs must
/// have changed.
pub const REGRET: f64 = 0.5;
/// How long after a change another is not looked for.
pub const CHANGE_WAIT_NS: u64 = 600_000_000_000;
/// Cancelled offers that are remembered: news of one that was filled may come late.
const CANCELLED_KEPT: usize = 32;
const HOUR_NS: u64 = 3_600_000_000_000;
/// The longest window, however little the client is due.
const WINDOW_MAX_NS: u64 = 300_000_000_000;
/// What a mark-up is multiplied by after a window in which nobody took the offer.
const MARK_UP_FALLS: f64 = 0.8;

struct Open {
    pair: Pair,
    give: u64,
    mark_up: f64,
    /// Windows at the lowest mark-up.
    waited: u32,
}

struct HeldExchange {
    pair: Pair,
    gave: u64,
    got: u64,
    tried: bool,
}

/// Trades for one client. See the [module](self).
pub struct Negotiator {
    options: Options,
    phase: Phase,
    next_tag: u64,
    next_ns: u64,
    window_ns: u64,
    steps: u32,
    cost_began_ns: Option<(u64, u64, u64)>,
    last: Option<Observation>,
    /// Progress a second in the windows since the last trade, the newest last.
    recent: VecDeque<f64>,
    /// In those before it, and how many.
    before: Vec<f64>,
    /// What is usual since the last decision.
    usual: Vec<f64>,
    /// Windows after those.
    since_usual: usize,
    /// Windows in a row in which it waited for what it gave.
    regret: usize,
    open: BTreeMap<u64, Open>,
    /// The last that were cancelled.
    cancelled: VecDeque<(u64, Pair)>,
    held: BTreeMap<u64, HeldExchange>,
    pairs: Pairs,
    reversals_ns: VecDeque<u64>,
    changed_ns: Option<u64>,
    tally: Tally,
    verdicts: Vec<Verdict>,
}

impl Negotiator {
    /// A negotiator that knows nothing yet.
    pub fn new(options: Options) -> Negotiator {
        Negotiator {
            options,
            phase: Phase::Measuring,
            next_tag: 0,
            next_ns: 0,
            window_ns: options.window_ns,
            steps: 0,
            cost_began_ns: None,
            last: None,
            recent: VecDeque::new(),
            before: Vec::new(),
            usual: Vec::new(),
            since_usual: 0,
            regret: 0,
            open: BTreeMap::new(),
            cancelled: VecDeque::new(),
            held: BTreeMap::new(),
            pairs: Pairs::default(),
            reversals_ns: VecDeque::new(),
            changed_ns: None,
            tally: Tally::default(),
            verdicts: Vec::new(),
        }
    }

    /// Takes over an exchange that its client has already, by which it gave and got so much: it stays
    /// until the load changes.
    pub fn adopt(&mut self, exchange: u64, (gives, gave): (Good, u64), (wants, got): (Good, u64)) {
        let pair = Pair { gives, wants };
        self.held.insert(exchange, HeldExchange { pair, gave, got, tried: true });
    }

    /// When to observe next, in nanoseconds of the observations' clock. Events may be brought before.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// What it is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// How its trials ended.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Exchanges that it has now.
    pub fn exchanges(&self) -> impl Iterator<Item = u64> {
        self.held.keys().copied()
    }

    /// Those of them of which it is not known yet whether they help.
    pub fn on_trial(&self) -> impl Iterator<Item = u64> {
        self.held.iter().filter(|(_, held)| !held.tried).map(|(&id, _)| id)
    }

    /// What it has found out in the last step.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Reversals in the hour before `now_ns`.
    pub fn reversals(&self, now_ns: u64) -> usize {
        self.reversals_ns.iter().filter(|&&at_ns| now_ns.saturating_sub(at_ns) < HOUR_NS).count()
    }

    /// Takes what was seen, and says what to do.
    pub fn step(&mut self, observation: &Observation) -> Vec<Action> {
        let mut actions = Vec::new();
        self.verdicts.clear();
        self.hear(observation, &mut actions);
        if observation.now_ns < self.next_ns {
            return actions;
        }
        let window = self.last.replace(Observation { events: Vec::new(), ..observation.clone() });
        self.plan_next(observation);
        let Some(from) = window.filter(|from| from.now_ns < observation.now_ns) else {
            return actions;
        };
        let rate = self.rate(&from, observation);
        match self.phase {
            Phase::Settling(left) if left > 1 => self.phase = Phase::Settling(left - 1),
            Phase::Settling(_) => self.settled(),
            Phase::Trying => {
                self.recent.push_back(rate);
                self.judge(observation.now_ns, &mut actions);
            }
            Phase::Measuring => {
                self.recent.push_back(rate);
                while self.recent.len() > LOOKS_MAX * self.options.windows {
                    self.recent.pop_front();
                }
                if self.usual.len() < self.options.windows {
                    self.usual.push(rate);
                    self.since_usual = 0;
                } else {
                    self.since_usual += 1;
                }
                let stakes = stakes(&from, observation);
                self.regret = if self.regrets(&stakes) { self.regret + 1 } else { 0 };
                if self.load_changed(observation.now_ns) {
                    self.begin_anew(observation.now_ns, &stakes, &mut actions);
                } else if self.recent.len() >= self.options.windows {
                    self.reprice(observation.now_ns, &stakes, &mut actions);
                    self.make_offers(observation, &stakes, &mut actions);
                }
            }
        }
        actions
    }

    /// Progress a second (rule 6).
    #[allow(clippy::cast_precision_loss)]
    fn rate(&self, from: &Observation, to: &Observation) -> f64 {
        let seconds = (to.now_ns - from.now_ns) as f64 / 1e9;
        let done = match (from.progress, to.progress) {
            (Some(from), Some(to)) => to.saturating_sub(from),
            _ => {
                let faults = to.faults.saturating_sub(from.faults);
                let wasted_ns = faults.saturating_mul(self.options.fault_ns);
                to.run_ns.saturating_sub(from.run_ns).saturating_sub(wasted_ns)
            }
        };
        done as f64 / seconds
    }

    /// Rule 10.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn plan_next(&mut self, now: &Observation) {
        let began = *self.cost_began_ns.get_or_insert((now.now_ns, now.due_ns, now.cost_ns));
        self.steps += 1;
        let passed_ns = now.now_ns.saturating_sub(began.0) as f64;
        if passed_ns > 0.0 {
            let a_step_ns = now.cost_ns.saturating_sub(began.2) as f64 / f64::from(self.steps);
            let due_part = now.due_ns.saturating_sub(began.1) as f64 / passed_ns;
            let needed_ns = a_step_ns / (self.options.cost_part * due_part);
            // Nothing spent is no reason to wait, nothing due is one.
            let needed_ns = if needed_ns.is_nan() { 0.0 } else { needed_ns };
            let longest = WINDOW_MAX_NS.max(self.options.window_ns);
            self.window_ns = self.options.window_ns.max(needed_ns.min(longest as f64) as u64);
        }
        self.next_ns = now.now_ns + self.window_ns;
    }

    fn hear(&mut self, observation: &Observation, actions: &mut Vec<Action>) {
        let now_ns = observation.now_ns;
        for event in &observation.events {
            match *event {
                Event::Filled { tag, exchange, gave, got } => {
                    let open = self.open.get(&tag).map(|open| &open.pair);
                    // What was cancelled may have been filled before.
                    let cancelled = || self.cancelled.iter().find(|(other, _)| *other == tag);
                    let pair = open.or_else(|| cancelled().map(|(_, pair)| pair)).cloned();
                    let Some(pair) = pair else {
                        actions.push(Action::End { exchange });
                        continue;
                    };
                    self.pairs.met(&pair);
                    self.held.insert(exchange, HeldExchange { pair, gave, got, tried: false });
                    if self.phase == Phase::Measuring {
                        self.before = self.recent.iter().copied().collect();
                    }
                    self.recent.clear();
                    self.usual.clear();
                    self.phase = Phase::Settling(self.options.settle_windows + 1);
                }
                Event::Gone { tag } => {
                    if let Some(open) = self.open.remove(&tag) {
                        self.pairs.unmet(&open.pair, now_ns);
                    }
                }
                Event::Ended { exchange } => {
                    let Some(held) = self.held.remove(&exchange) else { continue };
                    self.tally.abandoned += 1;
                    self.pairs.back_off(&held.pair, now_ns);
                    self.recent.clear();
                    self.usual.clear();
                    let tries = self.held.values().any(|held| !held.tried);
                    if !tries {
                        self.before.clear();
                    }
                    self.phase = Phase::Settling(self.options.settle_windows + 1);
                }
            }
        }
        if self.phase != Phase::Measuring {
            self.cancel_all(actions);
        }
    }

    fn cancel_all(&mut self, actions: &mut Vec<Action>) {
        for (tag, open) in std::mem::take(&mut self.open) {
            self.cancel(tag, open.pair, actions);
        }
    }

    fn cancel(&mut self, tag: u64, pair: Pair, actions: &mut Vec<Action>) {
        actions.push(Action::Cancel { tag });
        if self.cancelled.len() == CANCELLED_KEPT {
            self.cancelled.pop_front();
        }
        self.cancelled.push_back((tag, pair));
    }

    fn settled(&mut self) {
        let tries = self.held.values().any(|held| !held.tried);
        self.phase =
            if tries && !self.before.is_empty() { Phase::Trying } else { Phase::Measuring };
        if self.phase == Phase::Measuring {
            // What cannot be compared stays until the load changes.
            self.held.values_mut().for_each(|held| held.tried = true);
        }
    }

    /// Rule 5.
    fn judge(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        let windows = self.options.windows;
        if !self.recent.len().is_multiple_of(windows) {
            return;
        }
        let after: Vec<f64> = self.recent.iter().copied().collect();
        let effect = mean(&after) - mean(&self.before);
        let enough = effect > self.options.least_effect * mean(&self.before);
        let helped = enough && greater(&after, &self.before, Level::Likely);
        let hurt = greater(&self.before, &after, Level::Likely);
        let looks = if enough { LOOKS_MAX } else { 2 };
        if !helped && !hurt && after.len() < looks * windows {
            return;
        }
        let tried: Vec<u64> =
            self.held.iter().filter(|(_, held)| !held.tried).map(|(&id, _)| id).collect();
        let keep = helped || self.reversals(now_ns) >= REVERSALS_MAX;
        for id in &tried {
            let held = self.held.get_mut(id).expect("it was found");
            held.tried = true;
            match (helped, hurt) {
                (true, _) => self.pairs.helped(&held.pair),
                (_, true) => self.pairs.hurt(&held.pair, now_ns),
                _ => self.pairs.did_nothing(&held.pair, now_ns),
            }
        }
        self.usual.clear();
        let before = std::mem::take(&mut self.before);
        let effect = if effect == 0.0 { 0.0 } else { effect / mean(&before) };
        if keep {
            self.verdicts.push(Verdict::Kept { exchanges: tried, effect });
            self.tally.kept += 1;
            self.phase = Phase::Measuring;
            return;
        }
        // Things are as before now. If progress is not, the load has changed meanwhile (rule 9).
        self.usual = before[before.len().saturating_sub(windows)..].to_vec();
        self.since_usual = 0;
        self.verdicts.push(Verdict::TakenBack { exchanges: tried.clone(), effect });
        self.reverse(now_ns, tried, actions);
    }

    fn reverse(&mut self, now_ns: u64, exchanges: Vec<u64>, actions: &mut Vec<Action>) {
        for exchange in exchanges {
            self.held.remove(&exchange);
            actions.push(Action::End { exchange });
        }
        self.tally.reversed += 1;
        self.reversals_ns.push_back(now_ns);
        while self.reversals_ns.len() > REVERSALS_MAX {
            self.reversals_ns.pop_front();
        }
        self.recent.clear();
        self.phase = Phase::Settling(self.options.settle_windows + 1);
    }

    /// Rule 9.
    fn load_changed(&self, now_ns: u64) -> bool {
        let windows = self.options.windows;
        if self.changed_ns.is_some_and(|at_ns| now_ns - at_ns < CHANGE_WAIT_NS) {
            return false;
        }
        if self.regret >= windows {
            return true;
        }
        if self.usual.len() < windows || self.since_usual < windows {
            return false;
        }
        let newest: Vec<f64> = self.recent.iter().rev().take(windows).copied().collect();
        let (was, is) = (mean(&self.usual), mean(&newest));
        (is - was).abs() > CHANGE_LEAST * was
            && (greater(&newest, &self.usual, Level::Sure)
                || greater(&self.usual, &newest, Level::Sure))
    }

    /// Whether the client waits much more for what it gave than for what it got.
    fn regrets(&self, stakes: &[(Good, Stake, u64)]) -> bool {
        let waiting = |good: &Good| {
            let found = stakes.iter().find(|(other, ..)| other == good);
            found.map_or(0.0, |(_, stake, _)| stake.waiting)
        };
        let regrets =
            |held: &HeldExchange| waiting(&held.pair.gives) - waiting(&held.pair.wants) >= REGRET;
        self.held.values().any(regrets)
    }

    fn begin_anew(
        &mut self,
        now_ns: u64,
        stakes: &[(Good, Stake, u64)],
        actions: &mut Vec<Action>,
    ) {
        self.changed_ns = Some(now_ns);
        self.tally.changes += 1;
        self.regret = 0;
        self.pairs = Pairs::default();
        self.usual.clear();
        self.recent.clear();
        self.cancel_all(actions);
        let worth: BTreeMap<&Good, Stake> =
            stakes.iter().map(|(good, stake, _)| (good, *stake)).collect();
        let hurts = |held: &HeldExchange| {
            let (Some(gave), Some(got)) =
                (worth.get(&held.pair.gives), worth.get(&held.pair.wants))
            else {
                return false;
            };
            #[allow(clippy::cast_precision_loss)]
            let part = |amount: u64, stake: &Stake| {
                amount as f64 / stake.held.max(1) as f64 * stake.waiting.max(WAITING_LEAST)
            };
            part(held.gave, gave) > part(held.got, got)
        };
        let bad: Vec<u64> =
            self.held.iter().filter(|(_, held)| hurts(held)).map(|(&id, _)| id).collect();
        if !bad.is_empty() && self.reversals(now_ns) < REVERSALS_MAX {
            self.verdicts.push(Verdict::LoadChanged { ended: bad.clone() });
            self.reverse(now_ns, bad, actions);
        } else {
            self.verdicts.push(Verdict::LoadChanged { ended: Vec::new() });
        }
    }

    /// Rule 3.
    fn reprice(&mut self, now_ns: u64, stakes: &[(Good, Stake, u64)], actions: &mut Vec<Action>) {
        for (tag, mut open) in std::mem::take(&mut self.open) {
            self.cancel(tag, open.pair.clone(), actions);
            if open.mark_up > MARK_UP_LEAST {
                open.mark_up = (open.mark_up * MARK_UP_FALLS).max(MARK_UP_LEAST);
            } else {
                open.waited += 1;
            }
            if open.waited >= self.options.patience_windows {
                self.pairs.unmet(&open.pair, now_ns);
            } else {
                self.offer(open, stakes, actions);
            }
        }
    }

    /// Makes an offer, if there is anything that it can say.
    fn offer(&mut self, open: Open, stakes: &[(Good, Stake, u64)], actions: &mut Vec<Action>) {
        let of = |good: &Good| stakes.iter().find(|(other, ..)| other == good);
        let (Some(gives), Some(wants)) = (of(&open.pair.gives), of(&open.pair.wants)) else {
            return;
        };
        let give = open.give.min(gives.2);
        let caution = self.pairs.caution(&open.pair);
        let terms =
            curve::offer((&gives.0, gives.1), (&wants.0, wants.1), give, caution, open.mark_up);
        if let Some(terms) = terms {
            let tag = self.next_tag;
            self.next_tag += 1;
            actions.push(Action::Offer { tag, terms });
            self.open.insert(tag, open);
        }
    }

    /// Rules 1, 2, 4 and 8.
    fn make_offers(
        &mut self,
        now: &Observation,
        stakes: &[(Good, Stake, u64)],
        actions: &mut Vec<Action>,
    ) {
        if self.reversals(now.now_ns) >= REVERSALS_MAX {
            return;
        }
        let mut chances: Vec<(f64, Pair, Stake, Stake, u64)> = Vec::new();
        for (gives, gives_stake, free) in stakes {
            for (wants, wants_stake, _) in stakes {
                let gap = wants_stake.waiting - gives_stake.waiting;
                let pair = Pair { gives: gives.clone(), wants: wants.clone() };
                let known = self.open.values().any(|open| open.pair == pair);
                let same = gives.resource == wants.resource;
                if gap >= self.options.gap && !same && !known && self.pairs.may(&pair, now.now_ns) {
                    chances.push((gap, pair, *gives_stake, *wants_stake, *free));
                }
            }
        }
        chances.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        for (_, pair, gives, wants, free) in chances {
            if self.open.len() >= self.options.offers_max {
                break;
            }
            let given: u64 = self
                .held
                .values()
                .filter(|held| held.pair.gives == pair.gives)
                .map(|it| it.gave)
                .sum();
            let own = free.saturating_add(given);
            let spare = free.saturating_sub(own / 10);
            let give = self.pairs.step(&pair, own).min(spare);
            if give > 0 {
                let mark_up = curve::fair_mark_up(give, gives, wants, self.pairs.caution(&pair));
                let mark_up = mark_up.max(MARK_UP_LEAST);
                self.offer(Open { pair, give, mark_up, waited: 0 }, stakes, actions);
            }
        }
    }
}
