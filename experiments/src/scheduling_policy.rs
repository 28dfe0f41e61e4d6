//! The scheduling policies that an experiment can ask for.

use crate::error::ExperimentError;
use std::fmt;
use std::str::FromStr;

/// A scheduling policy of allotd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Winners are drawn.
    #[default]
    Lottery,
    /// Winners follow from what all had.
    Stride,
    /// Each client has a quota and a place in a list (paper 2).
    MtrLs,
}

impl Policy {
    const ALL: [Policy; 3] = [Policy::Lottery, Policy::Stride, Policy::MtrLs];

    /// Returns its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Lottery => "lottery",
            Policy::Stride => "stride",
            Policy::MtrLs => "mtr-ls",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Policy {
    type Err = ExperimentError;

    fn from_str(name: &str) -> Result<Policy, ExperimentError> {
        Policy::ALL.into_iter().find(|policy| policy.as_str() == name).ok_or_else(|| {
            let what =
                format!("no policy is called `{name}`; there are lottery, stride and mtr-ls");
            ExperimentError::BadOption(what)
        })
    }
}
