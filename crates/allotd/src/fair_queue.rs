//! A queue that is fair among flows: what each person asks for waits in a line of its own, and who is next is drawn by
//! stride scheduling (`policy::Stride`) over the work that was done for each. Somebody who asks for a thousand
//! operations at once waits for the others to have theirs before the next thousand.

use policy::{Policy, Stride};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    fn weight(self) -> u64 {
        if self.0 == 0 { 4 } else { 1 }
    }
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
    is_closed: bool,
}

impl<T> FairQueue<T> {
    /// An empty one.
    pub fn new() -> FairQueue<T> {
        let state = State {
            urgent: VecDeque::new(),
            flows: BTreeMap::new(),
            stride: Stride::new(),
            drawn: Vec::new(),
            empty: VecDeque::new(),
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
            state.stride.join(key, person.weight());
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
        let state = self.state();
        let is_empty = |state: &mut State<T>| state.urgent.is_empty() && state.flows.is_empty();
        let waited = self.ready.wait_timeout_while(state, patience, is_empty);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
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

    /// Takes nothing any more; what waits is dropped.
    pub fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.urgent.clear();
        state.flows.clear();
        state.stride = Stride::new();
    }
}

impl<T> State<T> {
    fn next(&mut self) -> Option<(u64, T)> {
        self.stride.draw(1, &mut self.drawn);
        let key = *self.drawn.first()?;
        let flow = self.flows.get_mut(&key).expect("who competes waits");
        let (work, item) = flow.pop_front().expect("no line is empty");
        let is_empty = flow.is_empty();
        self.stride.charge(key, work.max(1), QUANTUM);
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

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn work_and_not_requests_are_shared_equally() {
        let queue = FairQueue::new();
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
        let queue = FairQueue::new();
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
    fn what_is_urgent_comes_first() {
        let queue = FairQueue::new();
        queue.push(Person(1), 1000, "asked").expect("open");
        queue.push_urgent("stop").expect("open");
        assert_eq!(queue.take(NOW, 0), ["stop"]);
        assert_eq!(queue.take(NOW, 1), ["asked"]);
    }

    #[test]
    fn a_full_flow_keeps_no_other_out_and_a_closed_queue_takes_nothing() {
        let queue = FairQueue::new();
        while queue.push(Person(1), 1, 1) == Ok(()) {}
        assert_eq!(queue.push(Person(1), 1, 1), Err(Refused::Full));
        queue.push(Person(2), 1, 2).expect("room");
        queue.close();
        assert_eq!(queue.push(Person(2), 1, 2), Err(Refused::Closed));
        assert!(queue.take(NOW, 10).is_empty());
    }

    #[test]
    fn many_who_came_once_are_forgotten() {
        let queue = FairQueue::new();
        for uid in 0..5000 {
            queue.push(Person(uid), 1, uid).expect("open");
            assert_eq!(queue.take(NOW, 1), [uid]);
        }
        assert_eq!(queue.state().empty.len(), REMEMBERED_MAX);
    }
}
