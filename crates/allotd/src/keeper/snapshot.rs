//! Copies of what the keeper knows, for those who only look. A copy follows the changes that were made durable since, so
//! that a look costs the keeper what has changed, and a copy of the list of members.

use super::state::Running;
use crate::members::{Cgroups, Commands};
use crate::others::Others;
use enforcer::ResourceStatus;
use journal::Entry;
use ledger::{Change, CurrencyId, Ledger, Misfit};
use market::PriceHistory;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use valuation::Graph;

/// The most operations that are kept for a copy to follow; beyond, it is made anew.
const UNSEEN_MAX: usize = 10_000;

/// The state of the keeper at a moment. All of it is durable.
pub struct Snapshot {
    pub ledger: Ledger,
    /// The funding graph of the CPU, with who competes.
    pub cpu: Graph,
    /// The funding graphs of the other resources, with who competes.
    pub others: Vec<Graph>,
    /// The same without.
    graphs: Others,
    pub commands: Commands,
    pub cgroups: Cgroups,
    /// The prices of the last clearings.
    pub prices: PriceHistory,
    /// The journal's last number.
    pub sequence: u64,
    pub taken: Instant,
}

/// The news since the last copy, or a whole one.
pub struct Renewal {
    /// The state before the changes, where there is no copy that can follow them.
    whole: Option<Box<(Ledger, Graph, Others)>>,
    /// The changes of each operation since the last renewal.
    changes: Vec<Vec<Change>>,
    active: Vec<CurrencyId>,
    others_active: Vec<ResourceStatus>,
    commands: Commands,
    cgroups: Cgroups,
    prices: PriceHistory,
    sequence: u64,
    /// The time that it took the keeper.
    pub cost: Duration,
}

impl Snapshot {
    /// Returns the copy that a renewal makes of the last one; `None` where it needs a whole one.
    ///
    /// # Errors
    /// When the changes do not fit: this is no copy of the keeper's.
    pub fn renewed(
        last: Option<Box<Snapshot>>,
        renewal: Renewal,
    ) -> Result<Option<Box<Snapshot>>, Misfit> {
        let Renewal { whole, changes, commands, cgroups, prices, sequence, .. } = renewal;
        let state = whole.map(|whole| *whole);
        let last = last.map(|last| (last.ledger, last.cpu, last.graphs));
        let Some((mut ledger, mut cpu, mut graphs)) = state.or(last) else { return Ok(None) };
        for changes in changes {
            ledger.replay(changes.clone())?;
            changes.iter().for_each(|change| cpu.follow(change));
            graphs.follow(&changes, &ledger);
        }
        let active: BTreeSet<CurrencyId> = renewal.active.into_iter().collect();
        for (_, id) in ledger.clients() {
            cpu.set_active(id, active.contains(&id));
        }
        let (others, taken) = (graphs.with_active(&renewal.others_active), Instant::now());
        Ok(Some(Box::new(Snapshot {
            ledger,
            cpu,
            others,
            graphs,
            commands,
            cgroups,
            prices,
            sequence,
            taken,
        })))
    }
}

impl Running {
    /// Keeps what was made durable for the copy.
    pub(super) fn note_unseen(&mut self, entries: &[Entry]) {
        let Some(unseen) = &mut self.unseen else { return };
        match unseen.len() + entries.len() > UNSEEN_MAX {
            true => self.unseen = None,
            false => unseen.extend(entries.iter().map(|entry| entry.changes.clone())),
        }
    }

    pub(super) fn renewal(&mut self, is_new: bool) -> Renewal {
        let began = Instant::now();
        let unseen = self.unseen.replace(Vec::new()).filter(|_| !is_new);
        let whole = unseen
            .is_none()
            .then(|| Box::new((self.keeper.ledger.clone(), self.cpu.clone(), self.others.clone())));
        let seen = self.keeper.enforcement.seen();
        let mut renewal = Renewal {
            whole,
            changes: unseen.unwrap_or_default(),
            active: seen.active.clone(),
            others_active: seen.others.clone(),
            commands: self.commands.clone(),
            cgroups: self.cgroups.clone(),
            prices: self.desk.prices().clone(),
            sequence: self.keeper.journal.sequence(),
            cost: Duration::ZERO,
        };
        renewal.cost = began.elapsed();
        renewal
    }
}
