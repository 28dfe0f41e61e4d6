//! The loop of an enforcer that looks once in a period.

use crate::clock::now_ns;
use crate::{Actor, Consequence, EnforceError, Followed, Order, Sample, Status};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use undo::scheduling::raise_this_thread;

/// An enforcer that looks once in a period.
///
/// **Invariant:** an implementation gives everything back when it is dropped, also when its thread panics.
pub trait Periodic {
    /// Orders that only this enforcer knows.
    type Own;

    /// Returns the time from the end of one tick to the next.
    fn period(&self) -> Duration;

    /// Returns the plan, and the guard under which it is followed.
    fn followed(&mut self) -> &mut Followed;

    /// Looks after the guardian ([`Followed::look_at_guardian`]).
    fn look_at_guardian(&mut self, now_ns: u64) -> Consequence;

    /// Follows the plan that was given last. Called only while a guardian is on watch.
    fn follow(&mut self);

    /// Obeys an order that only this enforcer knows.
    fn own(&mut self, order: Self::Own);

    /// Checks what is set, and tells it.
    fn status(&mut self) -> Status;

    /// Tells what was measured.
    fn sample(&mut self) -> Sample;

    /// Gives everything back. The plan stays, for when there is a guardian again.
    fn revert(&mut self);

    /// Does what is due once in a period, after the look at the guardian.
    fn tick(&mut self, now_ns: u64);
}

/// Starts an enforcer on a thread of this name.
///
/// # Errors
/// When there can be no thread.
pub fn start<P>(name: &str, enforcer: P) -> Result<Actor<P::Own>, EnforceError>
where
    P: Periodic + Send + 'static,
    P::Own: Send + 'static,
{
    let prepare = |orders, _| Ok((orders, enforcer));
    let run = |(orders, mut enforcer): (_, P)| {
        let priority = raise_this_thread();
        tracing::debug!(priority, "the enforcer begins");
        serve(&orders, &mut enforcer);
    };
    Actor::start(name, || {}, prepare, run)
}

/// Serves orders, and ticks once in a period, until told to quit.
pub fn serve<P: Periodic>(orders: &Receiver<Order<P::Own>>, enforcer: &mut P) {
    let period_ns = u64::try_from(enforcer.period().as_nanos()).unwrap_or(u64::MAX);
    let mut due_ns = now_ns().saturating_add(period_ns);
    loop {
        let left = Duration::from_nanos(due_ns.saturating_sub(now_ns()));
        match orders.recv_timeout(left) {
            Ok(Order::Quit) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(order) => obey(enforcer, order),
            Err(RecvTimeoutError::Timeout) => {
                tick(enforcer, now_ns());
                due_ns = now_ns().saturating_add(period_ns);
            }
        }
    }
}

fn obey<P: Periodic>(enforcer: &mut P, order: Order<P::Own>) {
    // The caller may have gone away; then the answer is of no use.
    match order {
        Order::Apply(plan) => {
            let followed = enforcer.followed();
            followed.plan = Some(plan);
            if followed.is_on_watch() {
                enforcer.follow();
            }
        }
        Order::Own(own) => enforcer.own(own),
        Order::Status(reply) => drop(reply.send(enforcer.status())),
        Order::Sample(reply) => drop(reply.send(enforcer.sample())),
        Order::Revert(reply) => {
            enforcer.followed().plan = None;
            enforcer.revert();
            let _ = reply.send(());
        }
        Order::Quit => unreachable!("this order ends the loop"),
    }
}

fn tick<P: Periodic>(enforcer: &mut P, now_ns: u64) {
    match enforcer.look_at_guardian(now_ns) {
        Consequence::Nothing => {}
        Consequence::Follow => enforcer.follow(),
        Consequence::GiveBack => enforcer.revert(),
    }
    enforcer.tick(now_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::mpsc::{self, Sender};

    /// Writes down what is asked of it.
    struct Scribe {
        followed: Followed,
        /// What the next look at the guardian tells.
        consequence: Consequence,
        notes: Vec<String>,
        ticked: Sender<()>,
    }

    impl Scribe {
        fn note(&mut self, what: &str) {
            let generation = self.followed.generation();
            self.notes.push(format!("{what} {}", generation.unwrap_or(0)));
        }
    }

    impl Periodic for Scribe {
        type Own = Sender<Vec<String>>;

        fn period(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn followed(&mut self) -> &mut Followed {
            &mut self.followed
        }

        fn look_at_guardian(&mut self, _: u64) -> Consequence {
            std::mem::replace(&mut self.consequence, Consequence::Nothing)
        }

        fn follow(&mut self) {
            self.note("follow");
        }

        fn own(&mut self, order: Self::Own) {
            order.send(self.notes.clone()).expect("the test waits");
        }

        fn status(&mut self) -> Status {
            Status { generation: self.followed.generation(), ..Status::default() }
        }

        fn sample(&mut self) -> Sample {
            Sample::default()
        }

        fn revert(&mut self) {
            self.note("revert");
        }

        fn tick(&mut self, _: u64) {
            let _ = self.ticked.send(());
        }
    }

    fn started(consequence: Consequence) -> (Actor<Sender<Vec<String>>>, Receiver<()>) {
        let (ticked, ticks) = mpsc::channel();
        let scribe =
            Scribe { followed: Followed::default(), consequence, notes: Vec::new(), ticked };
        (start("test", scribe).expect("a thread"), ticks)
    }

    fn plan(generation: u64) -> Arc<Plan> {
        let (graphs, clients, limits) = (BTreeMap::new(), Vec::new(), Vec::new());
        Arc::new(Plan { generation, graphs, clients, limits })
    }

    #[test]
    fn orders_are_obeyed_in_order_and_a_revert_forgets_the_plan() {
        let (mut actor, _ticks) = started(Consequence::Nothing);
        actor.apply(&plan(3)).expect("followed");
        assert_eq!(actor.status().expect("it runs").generation, Some(3));
        actor.revert().expect("given back");
        assert_eq!(actor.status().expect("it runs").generation, None);
        assert_eq!(actor.sample().expect("it runs"), Sample::default());
        assert_eq!(actor.ask(|reply| reply).expect("it runs"), ["follow 3", "revert 0"]);
    }

    #[test]
    fn it_acts_on_what_became_of_the_guardian_before_it_ticks() {
        for (consequence, notes) in [
            (Consequence::Nothing, &[][..]),
            (Consequence::Follow, &["follow 0"][..]),
            (Consequence::GiveBack, &["revert 0"][..]),
        ] {
            let (actor, ticks) = started(consequence);
            ticks.recv().expect("it ticks");
            assert_eq!(actor.ask(|reply| reply).expect("it runs"), notes);
            ticks.recv().expect("it ticks again");
        }
    }
}
