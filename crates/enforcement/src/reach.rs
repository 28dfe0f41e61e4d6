//! The reach of enforcement: whose processes it may touch at all, whatever a plan says.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The real uids whose processes may be stopped, moved and weighed. The enforcing process is told it before the keeper
/// gives up its rights, and takes no other from it later. The default is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Ranges of uids, first and last.
    uids: Vec<(u32, u32)>,
}

impl Reach {
    /// The reach of somebody who may touch everybody's that the kernel lets it touch.
    pub fn everybody() -> Reach {
        Reach { uids: vec![(0, u32::MAX)] }
    }

    /// The reach of these uids and no others.
    pub fn of(uids: impl IntoIterator<Item = RangeInclusive<u32>>) -> Reach {
        Reach { uids: uids.into_iter().map(RangeInclusive::into_inner).collect() }
    }

    /// Whether a real uid is within it.
    pub fn has(&self, uid: u32) -> bool {
        self.uids.iter().any(|(first, last)| (*first..=*last).contains(&uid))
    }
}
