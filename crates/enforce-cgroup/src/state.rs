//! The state that follows plans: it owns everything.

use crate::cgroups::Cgroups;
use crate::controllers::{Check, Context, Controller};
use crate::placement::Placement;
use enforcer::clock::now_ns;
use enforcer::{Consequence, DriftLog, Followed, Periodic, Plan, Sample, Status};
use std::convert::Infallible;
use std::time::Duration;
use valuation::Graph;

/// All that the enforcer's thread owns: what the controllers share, and the controllers.
pub(crate) struct State {
    /// Time between two ticks.
    pub(crate) period: Duration,
    /// CPUs shared out.
    pub(crate) seats: usize,
    pub(crate) followed: Followed,
    cgroups: Cgroups,
    pub(crate) placement: Placement,
    pub(crate) drift: DriftLog,
    /// One a kind of resource, in the order in which they are called.
    pub(crate) controllers: Vec<Box<dyn Controller>>,
}

impl State {
    pub fn new(
        (period, seats): (Duration, usize),
        cgroups: Cgroups,
        controllers: Vec<Box<dyn Controller>>,
    ) -> State {
        let (placement, drift) = (Placement::new(now_ns()), DriftLog::default());
        let followed = Followed::default();
        State { period, seats, followed, cgroups, placement, drift, controllers }
    }

    /// Calls each controller, in order.
    fn each(&mut self, now_ns: u64, mut call: impl FnMut(&mut dyn Controller, &mut Context)) {
        let (cgroups, placement) = (&mut self.cgroups, &mut self.placement);
        let mut context = Context { cgroups, placement, drift: &mut self.drift, now_ns };
        for controller in &mut self.controllers {
            call(controller.as_mut(), &mut context);
        }
    }

    /// Lays out the tree by the graphs that decide about it; if there is none, by the CPU's.
    fn lay_out(&mut self, plan: &Plan) {
        let graphs = self.controllers.iter().flat_map(|controller| controller.deciding_graphs());
        let mut graphs: Vec<&Graph> = graphs.collect();
        if graphs.is_empty() {
            graphs.push(plan.cpu());
        }
        self.placement.lay_out(&graphs);
        self.cgroups.need(self.kernel_controllers());
    }

    /// Lists the kernel's controllers that our cgroups need, each once.
    fn kernel_controllers(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> =
            self.controllers.iter().filter_map(|it| it.kernel_controller()).collect();
        all.dedup();
        all
    }

    /// Brings all that is set up to date with who competes.
    fn tick_controllers(&mut self, now_ns: u64) {
        self.each(now_ns, |controller, context| controller.tick(context));
        // Everybody has seen them.
        self.cgroups.take_renewed();
    }

    /// Checks everything that was set, and puts right what is not as it should be.
    fn check_all(&mut self) {
        if !self.followed.is_on_watch() {
            return;
        }
        let now_ns = now_ns();
        for index in 0..self.placement.clients.len() {
            let checked = self.placement.check(index, &mut self.cgroups, &mut self.drift);
            let check = Check::Client(checked);
            self.each(now_ns, |controller, context| controller.check(&check, context));
        }
        self.each(now_ns, |controller, context| controller.check(&Check::Everything, context));
    }

    /// The guardian's process; `None` while there is none on watch.
    pub(crate) fn guardian_pid(&self) -> Option<u32> {
        self.cgroups.guardian_pid()
    }
}

impl Periodic for State {
    type Own = Infallible;

    fn period(&self) -> Duration {
        self.period
    }

    fn followed(&mut self) -> &mut Followed {
        &mut self.followed
    }

    fn look_at_guardian(&mut self, now_ns: u64) -> Consequence {
        self.followed.look_at_guardian(self.cgroups.guardian(), &mut self.drift, now_ns)
    }

    fn follow(&mut self) {
        let Some(plan) = self.followed.plan.clone() else { return };
        let now_ns = now_ns();
        self.placement.integrate(now_ns);
        self.each(now_ns, |controller, context| controller.plan(&plan, context));
        let own: Vec<u32> = [std::process::id()].into_iter().chain(self.guardian_pid()).collect();
        self.placement.follow(&plan, &self.cgroups, &own, now_ns);
        self.lay_out(&plan);
        self.each(now_ns, |controller, context| controller.lay_out(context));
        self.placement.settle(&mut self.cgroups, &mut self.drift);
        self.tick_controllers(now_ns);
    }

    fn own(&mut self, order: Infallible) {
        match order {}
    }

    fn status(&mut self) -> Status {
        self.check_all();
        self.answer_status()
    }

    fn sample(&mut self) -> Sample {
        self.answer_sample()
    }

    fn revert(&mut self) {
        let now_ns = now_ns();
        self.placement.integrate(now_ns);
        self.placement.clear();
        self.each(now_ns, |controller, context| controller.revert(context));
        let restored = self.cgroups.restore();
        for what in restored.failed {
            tracing::error!("{what}");
            self.drift.tell(what);
        }
        self.each(now_ns, |controller, _| controller.join());
    }

    fn tick(&mut self, now_ns: u64) {
        if self.placement.clients.is_empty() || !self.followed.is_on_watch() {
            self.placement.skip(now_ns);
            return;
        }
        // There is something more to share: our cgroups are without its controller as yet.
        if self.kernel_controllers() != self.cgroups.controllers() {
            self.follow();
            return;
        }
        self.placement.integrate(now_ns);
        let checked = self.placement.check_next(&mut self.cgroups, &mut self.drift);
        let check = Check::Client(checked);
        self.each(now_ns, |controller, context| controller.check(&check, context));
        self.tick_controllers(now_ns);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.revert();
    }
}
