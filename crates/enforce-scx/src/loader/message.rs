//! The requests to the loader, and its answers. Descriptors follow two of the answers.

use enforcer::Check;
use serde::{Deserialize, Serialize};

/// A question to the loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Load the scheduler with these constants. One that was loaded and not attached is forgotten.
    Load(Constants),
    /// Attach the scheduler that was loaded under this number.
    Attach(u64),
    /// Forget it, where it is not attached.
    Forget(u64),
}

/// All that a scheduler is told before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Constants {
    pub seed: u64,
    pub horizon_ns: u64,
    pub guest_grace_ns: u64,
    pub transfers: bool,
    pub watchdog_ms: u32,
    /// Each CPU with its domain.
    pub cpu_domain: Vec<(u32, u8)>,
    pub domains: u32,
    pub cpus_end: u32,
}

/// An answer of the loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It waits for requests, behind these walls.
    Ready(Vec<Check>),
    /// The scheduler is loaded under this number; its [`Handles`] come.
    Loaded(u64),
    /// Threads run by it; its link comes, and those of the locks' tracepoints, or why there are none of these.
    Attached(Result<(), String>),
    /// The kernel refused.
    Refused {
        /// The step that failed.
        what: String,
        /// The answer of the kernel.
        why: String,
        /// The words of libbpf and the verifier.
        said: String,
    },
}

/// The descriptors of a loaded scheduler, from data to programs.
pub(crate) struct Handles<T> {
    pub data: T,
    pub nodes: T,
    pub edges: T,
    pub paths: T,
    pub givers: T,
    pub clients: T,
    pub processes: T,
    pub threads: T,
    pub cgroups: T,
    pub events: T,
    pub switch_plan: T,
    pub reconcile: T,
    pub retag: T,
    pub probe_value: T,
    pub probe_policy: T,
}

/// The number of [`Handles`].
pub(crate) const HANDLES: usize = 15;

impl<T> Handles<T> {
    /// In the order in which they are handed over.
    pub fn into_list(self) -> [T; HANDLES] {
        let Handles { data, nodes, edges, paths, givers, clients, .. } = self;
        let Handles { processes, threads, cgroups, events, .. } = self;
        let Handles { switch_plan, reconcile, retag, probe_value, probe_policy, .. } = self;
        let maps =
            [data, nodes, edges, paths, givers, clients, processes, threads, cgroups, events];
        let programs = [switch_plan, reconcile, retag, probe_value, probe_policy];
        let mut all = maps.into_iter().chain(programs);
        std::array::from_fn(|_| all.next().expect("there are so many"))
    }

    /// The same, as they arrive.
    pub fn from_list(list: [T; HANDLES]) -> Handles<T> {
        let [data, nodes, edges, paths, givers, clients, rest @ ..] = list;
        let [processes, threads, cgroups, events, rest @ ..] = rest;
        let [switch_plan, reconcile, retag, probe_value, probe_policy] = rest;
        Handles {
            data,
            nodes,
            edges,
            paths,
            givers,
            clients,
            processes,
            threads,
            cgroups,
            events,
            switch_plan,
            reconcile,
            retag,
            probe_value,
            probe_policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_arrive_as_they_went() {
        let numbers: [usize; HANDLES] = std::array::from_fn(|place| place);
        let handles = Handles::from_list(numbers);
        assert_eq!((handles.data, handles.events, handles.probe_policy), (0, 9, HANDLES - 1));
        assert_eq!(handles.into_list(), numbers);
    }
}
