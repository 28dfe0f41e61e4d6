//! The registration of an experiment.

use crate::about::About;
use crate::error::ExperimentError;
use crate::harness::context::ExperimentContext;
use crate::harness::needs::Need;
use crate::report::outcome::Outcome;
use crate::simulation::plan::Plan;

/// An experiment: its name, and the ways to run it.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// The ways to run it.
    pub runs: Runs,
}

/// The ways to run an experiment: at least one.
#[derive(Debug)]
pub enum Runs {
    /// On real processes.
    Live(Live),
    /// In virtual time.
    Simulated(Simulated),
    /// In both ways.
    Both(Live, Simulated),
}

/// The way to run an experiment on real processes.
#[derive(Debug)]
pub struct Live {
    /// Its description.
    pub about: About,
    /// Its conditions on the machine.
    pub needs: &'static [Need],
    /// Its length.
    pub seconds: Seconds,
    /// The allotd that it can use.
    pub daemon: DaemonChoice,
    /// The enforcers that it can use.
    pub enforcer: EnforcerChoice,
    /// The CPUs that it uses where none are named.
    pub cpus: CpuChoice,
    /// Whether it runs any funding graph.
    pub takes_graph: bool,
    pub(crate) run: fn(&mut ExperimentContext) -> Result<Outcome, ExperimentError>,
}

/// The way to run an experiment in virtual time.
#[derive(Debug)]
pub struct Simulated {
    /// Its description.
    pub about: About,
    /// Its length, for each run, in virtual time.
    pub seconds: Seconds,
    pub(crate) run: fn(&Plan) -> Outcome,
}

/// The length of an experiment, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// The fewest that its phases need.
    pub least: f64,
    /// Enough to say something on most machines.
    pub usual: f64,
}

/// The allotd that an experiment can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonChoice {
    /// Its own alone: it starts and stops several.
    Own,
    /// Its own, or a running one.
    OwnOrRunning,
}

/// The enforcers that an experiment can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnforcerChoice {
    /// Any of them.
    Any,
    /// One for the whole machine; cgroups where none is named.
    WholeMachine,
    /// Cgroups alone.
    CgroupAlone,
}

/// The CPUs that an experiment uses where none are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuChoice {
    /// All that this process may use.
    All,
    /// The last one. The papers' machines had one CPU, and on several no two processes can have
    /// 4:1.
    Last,
}

impl Experiment {
    /// Returns the way to run it on real processes.
    pub fn live(&self) -> Option<&Live> {
        match &self.runs {
            Runs::Live(live) | Runs::Both(live, _) => Some(live),
            Runs::Simulated(_) => None,
        }
    }

    /// Returns the way to run it in virtual time.
    pub fn simulated(&self) -> Option<&Simulated> {
        match &self.runs {
            Runs::Simulated(simulated) | Runs::Both(_, simulated) => Some(simulated),
            Runs::Live(_) => None,
        }
    }

    /// Returns its description: that of the live way where there are both.
    pub fn about(&self) -> &About {
        match &self.runs {
            Runs::Live(live) | Runs::Both(live, _) => &live.about,
            Runs::Simulated(simulated) => &simulated.about,
        }
    }

    /// Returns its length: that of the live way where there are both.
    pub fn seconds(&self) -> Seconds {
        match &self.runs {
            Runs::Live(live) | Runs::Both(live, _) => live.seconds,
            Runs::Simulated(simulated) => simulated.seconds,
        }
    }
}
