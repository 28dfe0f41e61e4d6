//! The progress of a running experiment.

/// The progress of a running experiment, told about four times a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Seconds so far.
    pub elapsed: f64,
    /// Seconds in all.
    pub total: f64,
    /// The current phase, in a few words.
    pub phase: String,
    /// A row for each client.
    pub rows: Vec<ProgressRow>,
    /// The rule that shares the CPU now: `allot`, or `the kernel's default`.
    pub note: String,
}

/// A client in a [`Progress`].
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRow {
    /// The client's name.
    pub client: String,
    /// The promise of its tickets in this phase, as a part of what all clients get, 0 to 1.
    pub promised: f64,
    /// Its part since the phase began (after settling), 0 to 1.
    pub measured: f64,
}
