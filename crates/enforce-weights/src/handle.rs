//! The enforcer: a handle of the thread that follows plans.

use crate::carriers::{self, Carrier, CarrierName, CgroupV1, Nice, v1_tree};
use crate::record::WeightsRestorer;
use crate::state::{Fork, State};
use enforcer::{Actor, EnforceError, Enforcer, Plan, Sample, Status, periodic};
use ledger::ProcessIdentity;
use std::path::PathBuf;
use std::sync::Arc;
use undo::{Guardian, RecordOptions};

/// How a [`Weights`] works.
#[derive(Clone, Debug)]
pub struct WeightsOptions {
    /// What carries weights to processes.
    pub carrier: CarrierName,
    /// The names of our cgroups at the root of their tree begin so. Cgroups of these names, and all in them, are taken to
    /// be ours.
    pub name: String,
    /// The program whose command `guardian` calls [`guardian_main`](undo::guardian_main).
    pub program: PathBuf,
    /// The record, a file that outlives us, best in /run: it tells what a killed allotd and a killed guardian left
    /// changed.
    pub record: PathBuf,
}

/// The enforcer. Dropping it gives every process back what it had.
pub struct Weights {
    actor: Actor<Fork>,
}

impl Weights {
    /// Restores what an earlier enforcer left, starts a guardian and the enforcer's thread. Changes nothing else before
    /// the first plan.
    ///
    /// # Errors
    /// When the carrier does not work here, the record cannot be kept, or there is no guardian.
    pub fn start(options: WeightsOptions) -> Result<Weights, EnforceError> {
        let WeightsOptions { carrier, name, program, record } = options;
        let refused = |why: String| EnforceError::Refused(why.into());
        carriers::available(Some(carrier)).map_err(refused)?;
        let options = RecordOptions { writer: "weights", processes: 0, standing: Vec::new() };
        let guardian = Guardian::start(&program, Some(&record), &options, &[&WeightsRestorer])
            .map_err(EnforceError::refused)?;
        let leftovers = guardian.leftovers();
        for what in leftovers.failed.iter().chain(&leftovers.left) {
            tracing::warn!("from an earlier run: {what}");
        }
        let carrier: Box<dyn Carrier> = match carrier {
            CarrierName::CgroupV1 => {
                let tree = v1_tree::available().map_err(refused)?;
                Box::new(CgroupV1::new(tree, name))
            }
            CarrierName::Nice => Box::new(Nice::new()),
        };
        let actor = periodic::start("allot-weights", State::new(guardian, carrier))?;
        Ok(Weights { actor })
    }
}

impl Enforcer for Weights {
    fn apply(&mut self, plan: &Arc<Plan>) -> Result<(), EnforceError> {
        self.actor.apply(plan)
    }

    fn status(&mut self) -> Result<Status, EnforceError> {
        self.actor.status()
    }

    fn sample(&mut self) -> Result<Sample, EnforceError> {
        self.actor.sample()
    }

    fn revert(&mut self) -> Result<(), EnforceError> {
        self.actor.revert()
    }

    fn note_fork(&mut self, parent: ProcessIdentity, child: ProcessIdentity) {
        // Nothing is changed any more where the thread has ended.
        let _ = self.actor.tell(Fork { parent, child });
    }
}
