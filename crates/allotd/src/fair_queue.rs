//! A queue that is fair among flows: what each person asks for waits in a line of its own, and who is next is drawn by
//! stride scheduling (`policy::Stride`) over the work that was done for each. Somebody who asks for a thousand
//! operations at once waits for the others to have theirs before the next thousand.
//!
//! The CPU time that it took to serve somebody is charged too: whoever has used much of it rests until it has come back.
//! So a few who ask all the time take a part of a CPU from everybody, and not one CPU.

use front::Meter;
use policy::{Policy, Stride};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The work that stride takes for one quantum. The largest request is as many quanta as a flow can owe.
const QUANTUM: u64 = 125;

/// The most flows that are remembered while they are empty; the oldest are forgotten, with what they owe.
const REMEMBERED_MAX: usize = 1024;

/// The most that waits in one flow.
const WAITING_MAX: usize = 1 << 16;

/// The line of what a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person(pub u32);

impl Person {
    const ROOT: u64 = 0;
}

fn weight(key: u64) -> u64 {
    if key == Person::ROOT { 4 } else { 1 }
}

/// The reason why something was not taken into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Nobody will serve it any more.
    Closed,
    /// Too much of that flow waits already.
    Full,
}

/// See the [module](self).
pub struct FairQueue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

struct State<T> {
    urgent: VecDeque<T>,
    flows: BTreeMap<u64, VecDeque<(u64, T)>>,
    stride: Stride,
    drawn: Vec<u64>,
    empty: VecDeque<u64>,
    /// CPU time of persons.
    served: Meter,
    /// Lines that rest, with the end of that; these do not compete.
    resting: BTreeMap<u64, Instant>,
    /// The lines of the work that was taken last, and how much each has of it.
    taken: Vec<(u64, u64)>,
    is_closed: bool,
}

impl<T> FairQueue<T> {
    /// An empty one. What it serves is charged on that meter.
    pub fn new(served: Meter) -> FairQueue<T> {
        let state = State {
            urgent: VecDeque::new(),
            flows: BTreeMap::new(),
            stride: Stride::new(),
            drawn: Vec::new(),
            empty: VecDeque::new(),
            served,
            resting: BTreeMap::new(),
            taken: Vec::new(),
            is_closed: false,
        };
        FairQueue { state: Mutex::new(state), ready: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to a flow what will be so much work.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn push(&self, person: Person, work: u64, item: T) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        let key = u64::from(person.0);
        let waiting = state.flows.entry(key).or_default();
        if waiting.len() >= WAITING_MAX {
            return Err(Refused::Full);
        }
        waiting.push_back((work, item));
        if waiting.len() == 1 {
            state.empty.retain(|other| *other != key);
            state.compete_or_rest(key, Instant::now());
        }
        self.ready.notify_one();
        Ok(())
    }

    /// Adds what comes before all else.
    ///
    /// # Errors
    /// [`Refused::Closed`].
    pub fn push_urgent(&self, item: T) -> Result<(), Refused> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        state.urgent.push_back(item);
        self.ready.notify_one();
        Ok(())
    }

    /// Takes what is urgent, and of the rest so much that the last one reaches the budget of work. Waits so long for
    /// anything to come.
    pub fn take(&self, patience: Duration, budget: u64) -> Vec<T> {
        let until = Instant::now() + patience;
        let mut state = self.state();
        state.taken.clear();
        loop {
            let now = Instant::now();
            state.wake(now);
            if state.has_some() || now >= until {
                break;
            }
            let end = state.resting.values().min().map_or(until, |end| until.min(*end));
            let wait = end.saturating_duration_since(now);
            let idle = |state: &mut State<T>| !state.has_some();
            let waited = self.ready.wait_timeout_while(state, wait, idle);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let mut taken: Vec<T> = state.urgent.drain(..).collect();
        let mut done = 0;
        while done < budget
            && let Some((work, item)) = state.next()
        {
            done += work;
            taken.push(item);
        }
        taken
    }

    /// Charges those whose requests were taken last with the CPU time that these took, by their work.
    pub fn charge(&self, spent: Duration) {
        self.state().charge(spent, Instant::now());
    }

    /// Takes nothing any more; what waits is dropped.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.urgent.clear();
        state.flows.clear();
        state.resting.clear();
        state.stride = Stride::new();
    }
}

impl<T> State<T> {
    /// Whether anything can be taken now.
    fn has_some(&self) -> bool {
        !self.urgent.is_empty() || self.flows.len() > self.resting.len()
    }

    /// Charges those who were served last with the time that it took, by their work.
    fn charge(&mut self, spent: Duration, now: Instant) {
        let work: u64 = self.taken.iter().map(|(_, work)| work).sum();
        for (key, own) in self.taken.clone() {
            if key == Person::ROOT {
                continue;
            }
            self.served.charge(key as u32, spent.mul_f64(own as f64 / work as f64), now);
            if self.flows.contains_key(&key) && !self.resting.contains_key(&key) {
                self.stride.leave(key);
                self.compete_or_rest(key, now);
            }
        }
    }

    fn compete_or_rest(&mut self, key: u64, now: Instant) {
        match self.served.rest(key as u32, now) {
            Some(wait) => drop(self.resting.insert(key, now + wait)),
            None => self.stride.join(key, weight(key)),
        }
    }

    /// Lets those compete who have rested enough.
    fn wake(&mut self, now: Instant) {
        let State { resting, stride, .. } = self;
        resting.retain(|key, end| {
            let rests = *end > now;
            if !rests {
                stride.join(*key, weight(*key));
            }
            rests
        });
    }

    fn next(&mut self) -> Option<(u64, T)> {
        self.stride.draw(1, &mut self.drawn);
        let key = *self.drawn.first()?;
        let flow = self.flows.get_mut(&key).expect("who competes waits");
        let (work, item) = flow.pop_front().expect("no line is empty");
        let is_empty = flow.is_empty();
        self.stride.charge(key, work.max(1), QUANTUM);
        self.taken.push((key, work.max(1)));
        if is_empty {
            self.flows.remove(&key);
            self.stride.leave(key);
            self.empty.push_back(key);
            if self.empty.len() > REMEMBERED_MAX
                && let Some(oldest) = self.empty.pop_front()
            {
                self.stride.forget(oldest);
            }
        }
        Some((work, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use front::{A_SECOND, AT_ONCE};

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn work_and_not_requests_are_shared_equally() {
        let queue = FairQueue::new(Meter::default());
        for number in 0..400 {
            queue.push(Person(1), 1000, (1, number)).expect("open");
        }
        for number in 0..4000 {
            queue.push(Person(2), 10, (2, number)).expect("open");
        }
        let mut work = BTreeMap::from([(1, 0), (2, 0)]);
        let mut last = BTreeMap::new();
        while work[&2] < 20_000 {
            for (person, number) in queue.take(NOW, 1) {
                *work.get_mut(&person).expect("known") += if person == 1 { 1000 } else { 10 };
                // Each one's own stay in order.
                assert!(last.insert(person, number).is_none_or(|before| before < number));
            }
        }
        // Stride: within two quanta of the larger, which is 1000 here, and eight quanta of debt of a newcomer.
        assert!((17_000..=23_000).contains(&work[&1]), "{work:?}");
    }

    #[test]
    fn a_newcomer_waits_for_one_request_of_each_at_most() {
        let queue = FairQueue::new(Meter::default());
        for person in 1..=4 {
            for _ in 0..64 {
                queue.push(Person(person), 1000, person).expect("open");
            }
        }
        for _ in 0..40 {
            queue.take(NOW, 1);
        }
        for newcomer in 100..120 {
            queue.push(Person(newcomer), 1, newcomer).expect("open");
            let waited = (0..).find(|_| queue.take(NOW, 1).contains(&newcomer)).expect("its turn");
            assert!(waited <= 4, "{waited} requests came before");
        }
    }

    #[test]
    fn one_who_took_much_time_rests_and_others_do_not() {
        let queue = FairQueue::new(Meter::default());
        let now = Instant::now();
        for person in [0, 1, 2] {
            (0..4).for_each(|_| queue.push(Person(person), 1, person).expect("open"));
        }
        let took_much = |person| {
            let mut state = queue.state();
            state.taken = vec![(person, 1)];
            state.charge(2 * AT_ONCE, now);
        };
        [0, 1].into_iter().for_each(took_much);
        let taken = queue.take(NOW, 100);
        assert!(taken.len() == 8 && !taken.contains(&1), "root and the others: {taken:?}");
        queue.push(Person(1), 1, 1).expect("open");
        assert!(queue.take(NOW, 100).is_empty(), "more of the same waits too");
        let rests = AT_ONCE.div_duration_f64(A_SECOND);
        queue.state().wake(now + Duration::from_secs_f64(rests));
        assert_eq!(queue.take(NOW, 100), [1; 5]);
    }

    #[test]
    fn what_is_urgent_comes_first() {
        let queue = FairQueue::new(Meter::default());
        queue.push(Person(1), 1000, "asked").expect("open");
        queue.push_urgent("stop").expect("open");
        assert_eq!(queue.take(NOW, 0), ["stop"]);
        assert_eq!(queue.take(NOW, 1), ["asked"]);
    }

    #[test]
    fn a_full_flow_keeps_no_other_out_and_a_closed_queue_takes_nothing() {
        let queue = FairQueue::new(Meter::default());
        while queue.push(Person(1), 1, 1) == Ok(()) {}
        assert_eq!(queue.push(Person(1), 1, 1), Err(Refused::Full));
        queue.push(Person(2), 1, 2).expect("room");
        queue.close();
        assert_eq!(queue.push(Person(2), 1, 2), Err(Refused::Closed));
        assert!(queue.take(NOW, 10).is_empty());
    }

    #[test]
    fn many_who_came_once_are_forgotten() {
        let queue = FairQueue::new(Meter::default());
        for uid in 0..5000 {
            queue.push(Person(uid), 1, uid).expect("open");
            assert_eq!(queue.take(NOW, 1), [uid]);
        }
        assert_eq!(queue.state().empty.len(), REMEMBERED_MAX);
    }
}
