//! What an enforcer is given, and what it answers.

use ledger::{CurrencyId, ProcessIdentity};
use valuation::Graph;

/// All that an enforcer has to know about one resource, whole: a later generation replaces an
/// earlier one and nothing of that is kept.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Grows with every plan.
    pub generation: u64,
    /// The funding graph; the enforcer, who sees who competes, values it.
    pub graph: Graph,
    /// Every client, in order of id.
    pub clients: Vec<PlannedClient>,
}

/// One client of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedClient {
    /// Its currency.
    pub id: CurrencyId,
    /// Its member.
    pub process: ProcessIdentity,
    /// It has no tickets: it stays stopped until it gets some (paper 3, future work).
    pub frozen: bool,
}
