//! What goes into a negotiator and what comes out.

use ledger::{Good, Terms};
use serde::{Deserialize, Serialize};

/// How a negotiator goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Of a window, at least; nanoseconds.
    pub window_ns: u64,
    /// Windows before and after a trade that are compared; 2 to 100.
    pub windows: usize,
    /// Windows left out after a trade.
    pub settle_windows: usize,
    /// Windows for which an offer stays at its lowest.
    pub patience_windows: u32,
    /// How much a trade must add to progress, as a part of it.
    pub least_effect: f64,
    /// How much more of its time the client waits for what it wants than for what it gives.
    pub gap: f64,
    /// Offers that may be open at a time.
    pub offers_max: usize,
    /// CPU time of one fault, for clients that count no progress.
    pub fault_ns: u64,
    /// The negotiator's own CPU time, as a part of what its client is due.
    pub cost_part: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            window_ns: 5_000_000_000,
            windows: 6,
            settle_windows: 2,
            patience_windows: 8,
            least_effect: 0.02,
            gap: 0.05,
            offers_max: 3,
            fault_ns: 5_000,
            cost_part: 0.01,
        }
    }
}

/// What is seen of one good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The good.
    pub good: Good,
    /// For how long the client has waited for it since it began, in nanoseconds: run delay, I/O delay without
    /// faults, memory pressure.
    pub waited_ns: u64,
    /// Base tickets that it has the use of now, own and exchanged.
    pub held: u64,
    /// Its own that it can still give.
    pub free: u64,
}

/// What happened to offers and exchanges since the last observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An offer was filled, in whole or in part.
    Filled {
        /// The offer's tag.
        tag: u64,
        /// Names the exchange.
        exchange: u64,
        /// Tickets given.
        gave: u64,
        /// Tickets got.
        got: u64,
    },
    /// An offer is no longer open, and not because it was filled or cancelled here.
    Gone {
        /// The offer's tag.
        tag: u64,
    },
    /// An exchange has ended, and not because it was ended here.
    Ended {
        /// The exchange.
        exchange: u64,
    },
}

/// What is seen of a client. All that is counted is since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// When, in nanoseconds of a clock that never goes back.
    pub now_ns: u64,
    /// What the client counts of its own progress, if it does.
    pub progress: Option<u64>,
    /// Its CPU time.
    pub run_ns: u64,
    /// Its major faults.
    pub faults: u64,
    /// CPU time that its tickets were due.
    pub due_ns: u64,
    /// The negotiator's own CPU time.
    pub cost_ns: u64,
    /// Of each good that it could trade.
    pub seen: Vec<Seen>,
    /// What happened.
    pub events: Vec<Event>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make an offer, to be named so in events.
    Offer {
        /// A tag that no earlier offer had.
        tag: u64,
        /// Its terms.
        terms: Terms,
    },
    /// Take an offer back.
    Cancel {
        /// The offer's tag.
        tag: u64,
    },
    /// End an exchange.
    End {
        /// The exchange.
        exchange: u64,
    },
}

/// What a negotiator has found out, for those who want to be told.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// A trial is over, and what was traded stays.
    Kept {
        /// Which exchanges.
        exchanges: Vec<u64>,
        /// How much more progress there was after than before, as a part of it.
        effect: f64,
    },
    /// A trial is over, and what was traded is undone.
    TakenBack {
        /// Which exchanges.
        exchanges: Vec<u64>,
        /// As above; negative where there was less.
        effect: f64,
    },
    /// The load is another.
    LoadChanged {
        /// Exchanges that hurt now, and are ended.
        ended: Vec<u64>,
    },
}

/// What a negotiator is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It measures, and offers are open.
    Measuring,
    /// Things settle for so many more windows, after a trade or after one was taken back.
    Settling(usize),
    /// It measures what a trade did.
    Trying,
}

/// How trials ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// They helped.
    pub kept: u64,
    /// They did not.
    pub reversed: u64,
    /// A partner ended it.
    pub abandoned: u64,
    /// The load changed.
    pub changes: u64,
}
