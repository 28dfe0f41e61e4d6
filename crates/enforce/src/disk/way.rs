//! How a device's weights are enforced. Pure.
//!
//! 1. **iocost** where the device's speed is known, the kernel has it, and the device takes many
//!    requests at a time ([`DiskFacts::is_shallow`]): it keeps the ratio and the device busy.
//! 2. Else **BFQ**, where the scheduler can be chosen: it needs no speed, but keeps the ratio by
//!    serving one after the other, and loses speed on devices that serve many requests at once.
//! 3. Else **iocost** on a shallow device, too: it keeps the ratio, and loses speed.
//! 4. Else nothing, with both reasons. A module is never loaded: that could not be undone once
//!    somebody else uses it too.

use super::iocost::Speed;
use super::look::{BfqOffer, DiskFacts};
use serde::{Deserialize, Serialize};

/// How a device's weights are enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// By iocost, for a device that is so fast.
    Iocost(Speed),
    /// By the BFQ scheduler.
    Bfq,
}

impl Way {
    /// The best way for a device whose speed may be known.
    ///
    /// # Errors
    /// The reasons, where there is none.
    pub fn choose(facts: &DiskFacts, speed: Option<&Speed>) -> Result<Way, NoWay> {
        let iocost = match speed {
            None => Err(WhyNoIocost::NotMeasured { name: facts.name.clone() }),
            Some(speed) if !speed.model.is_sound() => Err(WhyNoIocost::BadModel),
            Some(_) if !facts.has_iocost => Err(WhyNoIocost::NotInKernel),
            Some(speed) => Ok(Way::Iocost(*speed)),
        };
        match (iocost, facts.bfq) {
            (Ok(iocost), _) if !facts.is_shallow() => Ok(iocost),
            (_, BfqOffer::Offered) => Ok(Way::Bfq),
            (Ok(iocost), _) => Ok(iocost),
            (Err(iocost), bfq) => Err(NoWay { iocost, bfq }),
        }
    }

    /// Its name, as users read it.
    pub fn name(&self) -> &'static str {
        match self {
            Way::Iocost(_) => "iocost",
            Way::Bfq => "bfq",
        }
    }
}

/// Why a device's weights cannot be enforced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no iocost: {iocost}; no BFQ: {bfq}")]
pub struct NoWay {
    /// Why not by iocost.
    pub iocost: WhyNoIocost,
    /// Why not by BFQ.
    pub bfq: BfqOffer,
}

/// Why a device's weights cannot be enforced by iocost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNoIocost {
    /// Its speed is not known.
    #[error("the speed of {name} is not known (`allot calibrate {name}` measures it)")]
    NotMeasured {
        /// The device.
        name: String,
    },
    /// A speed of 0.
    #[error("the kept speed is none")]
    BadModel,
    /// The file is missing.
    #[error("the root of the cgroup tree has no io.cost.qos (CONFIG_BLK_CGROUP_IOCOST)")]
    NotInKernel,
}
