//! Copies of what the keeper knows, for those who only look: what is made of them costs the keeper nothing.

use super::state::Running;
use crate::members::{Cgroups, Commands};
use ledger::Ledger;
use market::PriceHistory;
use std::time::{Duration, Instant};
use valuation::Graph;

/// The state of the keeper at a moment. All of it is durable.
pub struct Snapshot {
    pub ledger: Ledger,
    /// The funding graph of the CPU, with who competes.
    pub cpu: Graph,
    /// The funding graphs of the other resources.
    pub others: Vec<Graph>,
    pub commands: Commands,
    pub cgroups: Cgroups,
    /// The prices of the last clearings.
    pub prices: PriceHistory,
    /// The journal's last number.
    pub sequence: u64,
    pub taken: Instant,
    /// The time that it took the keeper.
    pub cost: Duration,
}

impl Running {
    pub(super) fn snapshot(&mut self) -> Snapshot {
        let began = Instant::now();
        self.note_who_competes();
        let mut snapshot = Snapshot {
            ledger: self.keeper.ledger.clone(),
            cpu: self.cpu.clone(),
            others: self.others.with_active(&self.keeper.enforcement.seen().others),
            commands: self.commands.clone(),
            cgroups: self.cgroups.clone(),
            prices: self.desk.prices().clone(),
            sequence: self.keeper.journal.sequence(),
            taken: Instant::now(),
            cost: Duration::ZERO,
        };
        snapshot.cost = began.elapsed();
        snapshot
    }
}
