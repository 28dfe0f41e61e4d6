//! The machine on which an experiment ran.

use serde::{Deserialize, Serialize};

/// The machine on which an experiment ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineDescription {
    /// The kernel's release.
    pub kernel: String,
    /// The distribution.
    pub os: String,
    /// The processor's name.
    pub cpu_model: String,
    /// CPUs that are online.
    pub cpus_online: usize,
    /// The CPUs that the experiment used.
    pub cpus: Vec<u32>,
    /// Limit of the control group, in CPUs; none where it has no limit.
    pub cpu_quota: Option<f64>,
    /// Processes that wanted a CPU, averaged over the minute before the begin.
    pub load_average: f64,
}

impl MachineDescription {
    /// Returns the description of a simulated machine.
    pub(crate) fn simulated() -> MachineDescription {
        MachineDescription {
            kernel: "none: virtual time".to_owned(),
            os: "none".to_owned(),
            cpu_model: "simulated".to_owned(),
            cpus_online: 0,
            cpus: Vec::new(),
            cpu_quota: None,
            load_average: 0.0,
        }
    }
}
