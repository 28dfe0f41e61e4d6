//! The choice between the kernel's I/O controllers, which enforce a device's weights. Pure.
//!
//! 1. **iocost** where the device's speed is known, the kernel has it, and the device takes many
//!    requests at a time ([`DiskFacts::is_shallow`]): it keeps the ratio and the device busy.
//! 2. Else **BFQ**, where the scheduler can be chosen: it needs no speed, but keeps the ratio by
//!    serving one after the other, and loses speed on devices that serve many requests at once.
//! 3. Else **iocost** on a shallow device, too: it keeps the ratio, and loses speed.
//! 4. Else nothing, with both reasons. A module is never loaded: that could not be undone once
//!    somebody else uses it too.

use crate::iocost::Speed;
use crate::look::{BfqOffer, DiskFacts};
use serde::{Deserialize, Serialize};

/// What enforces a device's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoController {
    /// iocost, for a device of this speed.
    Iocost(Speed),
    /// The BFQ scheduler.
    Bfq,
}

impl IoController {
    /// Chooses the best controller for a device whose speed may be known.
    ///
    /// # Errors
    /// The reasons, where there is none.
    pub fn choose(
        facts: &DiskFacts,
        speed: Option<&Speed>,
    ) -> Result<IoController, NoIoController> {
        let iocost = match speed {
            None => Err(NoIocost::NotMeasured { name: facts.name.clone() }),
            Some(speed) if !speed.model.is_sound() => Err(NoIocost::BadModel),
            Some(_) if !facts.has_iocost => Err(NoIocost::NotInKernel),
            Some(speed) => Ok(IoController::Iocost(*speed)),
        };
        match (iocost, facts.bfq) {
            (Ok(iocost), _) if !facts.is_shallow() => Ok(iocost),
            (_, BfqOffer::Offered) => Ok(IoController::Bfq),
            (Ok(iocost), _) => Ok(iocost),
            (Err(iocost), bfq) => Err(NoIoController { iocost, bfq }),
        }
    }

    /// Returns its name, as users read it.
    pub fn name(&self) -> &'static str {
        match self {
            IoController::Iocost(_) => "iocost",
            IoController::Bfq => "bfq",
        }
    }
}

/// The reasons why a device's weights cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no iocost: {iocost}; no BFQ: {bfq}")]
pub struct NoIoController {
    /// The reason against iocost.
    pub iocost: NoIocost,
    /// The reason against BFQ.
    pub bfq: BfqOffer,
}

/// The reason why iocost cannot enforce a device's weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoIocost {
    /// The device's speed is not known.
    #[error("the speed of {name} is not known (`allot calibrate {name}` measures it)")]
    NotMeasured {
        /// The device.
        name: String,
    },
    /// The kept speed is 0.
    #[error("the kept speed is none")]
    BadModel,
    /// The kernel has no iocost.
    #[error("the root of the cgroup tree has no io.cost.qos (CONFIG_BLK_CGROUP_IOCOST)")]
    NotInKernel,
}
