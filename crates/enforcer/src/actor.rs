//! The handle of an enforcer that works on a thread of its own.

use crate::{EnforceError, Plan, Sample, Status};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// What the thread is told. Whoever asked may have gone away; then the answer is of no use.
pub enum Order<X> {
    /// Follow this plan.
    Apply(Arc<Plan>),
    /// Tell what is set.
    Status(Sender<Status>),
    /// Tell what was measured.
    Sample(Sender<Sample>),
    /// Give everything back.
    Revert(Sender<()>),
    /// Give everything back and end.
    Quit,
    /// Something that only this enforcer knows.
    Own(X),
}

/// Why an enforcer has given up, once it has.
pub type GaveUp = Arc<OnceLock<String>>;

/// The handle. Dropping it ends the thread and waits for that.
pub struct Actor<X> {
    orders: Sender<Order<X>>,
    wake: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<()>>,
    followed: u64,
    gave_up: GaveUp,
}

impl<X: Send + 'static> Actor<X> {
    /// Starts a thread of this name. `prepare` runs on it first: what it cannot prepare is answered here; then `run`
    /// serves orders until told to quit. `wake` is called after each order, for a thread that waits for more than
    /// orders.
    ///
    /// # Errors
    /// When there can be no thread, or it cannot be prepared.
    pub fn start<S: 'static>(
        name: &str,
        wake: impl Fn() + Send + 'static,
        prepare: impl FnOnce(Receiver<Order<X>>, GaveUp) -> Result<S, EnforceError> + Send + 'static,
        run: impl FnOnce(S) + Send + 'static,
    ) -> Result<Actor<X>, EnforceError> {
        let (orders, theirs) = mpsc::channel();
        let (prepared, answer) = mpsc::channel();
        let gave_up = GaveUp::default();
        let will_tell = Arc::clone(&gave_up);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || match prepare(theirs, will_tell) {
                Ok(state) => {
                    let _ = prepared.send(Ok(()));
                    run(state);
                }
                Err(error) => drop(prepared.send(Err(error))),
            })
            .map_err(EnforceError::os("start the enforcer's thread"))?;
        answer.recv().map_err(|_| EnforceError::Ended)??;
        Ok(Actor { orders, wake: Box::new(wake), thread: Some(thread), followed: 0, gave_up })
    }

    /// Gives an order that is not answered.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn tell(&self, own: X) -> Result<(), EnforceError> {
        self.send(Order::Own(own))
    }

    /// Gives an order and waits for the answer.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn ask<T>(&self, own: impl FnOnce(Sender<T>) -> X) -> Result<T, EnforceError> {
        self.answer(|reply| Order::Own(own(reply)))
    }

    /// Has the thread follow a plan. One that is as old as the one followed is followed again.
    ///
    /// # Errors
    /// When it is older, or the thread has ended.
    pub fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError> {
        let (followed, given) = (self.followed, plan.generation);
        if given < followed {
            return Err(EnforceError::Stale { followed, given });
        }
        self.send(Order::Apply(Arc::clone(plan)))?;
        self.followed = given;
        Ok(())
    }

    /// Asks what is set.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn status(&self) -> Result<Status, EnforceError> {
        self.answer(Order::Status)
    }

    /// Asks what was measured.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn sample(&self) -> Result<Sample, EnforceError> {
        self.answer(Order::Sample)
    }

    /// Has everything given back.
    ///
    /// # Errors
    /// When the thread has ended.
    pub fn revert(&self) -> Result<(), EnforceError> {
        self.answer(Order::Revert)
    }

    /// Why the enforcer has given up.
    pub fn gave_up(&self) -> Option<String> {
        self.gave_up.get().cloned()
    }

    fn answer<T>(&self, order: impl FnOnce(Sender<T>) -> Order<X>) -> Result<T, EnforceError> {
        let (reply, answer) = mpsc::channel();
        self.send(order(reply))?;
        answer.recv().map_err(|_| self.ended())
    }

    fn send(&self, order: Order<X>) -> Result<(), EnforceError> {
        self.orders.send(order).map_err(|_| self.ended())?;
        (self.wake)();
        Ok(())
    }

    fn ended(&self) -> EnforceError {
        self.gave_up().map_or(EnforceError::Ended, EnforceError::GaveUp)
    }
}

impl<X> Drop for Actor<X> {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Quit);
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            // Had it panicked, it has given everything back while it unwound.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn plan(generation: u64) -> Arc<Plan> {
        let (graphs, clients, limits) = (BTreeMap::new(), Vec::new(), Vec::new());
        Arc::new(Plan { generation, graphs, clients, limits })
    }

    fn serve(orders: &Receiver<Order<Sender<u64>>>, gave_up: &GaveUp) {
        let mut followed = 0;
        for order in orders {
            match order {
                Order::Apply(plan) => followed = plan.generation,
                Order::Own(reply) => reply.send(followed).expect("it waits"),
                Order::Revert(_) => {
                    gave_up.set("no more".to_owned()).expect("once");
                    return;
                }
                Order::Quit => return,
                Order::Status(_) | Order::Sample(_) => {}
            }
        }
    }

    #[test]
    fn it_follows_no_older_plan_and_says_why_it_ended() {
        let prepare = |orders, gave_up| Ok((orders, gave_up));
        let run = |(orders, gave_up)| serve(&orders, &gave_up);
        let mut actor = Actor::start("test", || {}, prepare, run).expect("a thread");
        actor.apply(&plan(2)).expect("followed");
        actor.apply(&plan(2)).expect("followed again");
        let stale = actor.apply(&plan(1)).expect_err("older");
        assert!(matches!(stale, EnforceError::Stale { followed: 2, given: 1 }));
        assert_eq!(actor.ask(|reply| reply).expect("it runs"), 2);
        for _ in 0..2 {
            let ended = actor.revert().expect_err("it gave up");
            assert!(matches!(ended, EnforceError::GaveUp(why) if why == "no more"));
        }
        assert_eq!(actor.gave_up().as_deref(), Some("no more"));
    }

    #[test]
    fn what_cannot_be_prepared_is_answered() {
        let prepare = |_: Receiver<Order<()>>, _| Err::<(), _>(EnforceError::AlgorithmIsFixed);
        let refused = Actor::start("test", || {}, prepare, |()| {}).map(drop);
        assert!(matches!(refused, Err(EnforceError::AlgorithmIsFixed)));
    }
}
