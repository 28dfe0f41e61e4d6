//! What an enforcer is given, and what it answers.

use crate::disk::Limits;
use ledger::{Class, CurrencyId, Ledger, Member, Resource};
use valuation::Graph;

/// All that an enforcer has to know, whole: a later generation replaces an
/// earlier one and nothing of that is kept.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Grows with every plan.
    pub generation: u64,
    /// The funding graph of the CPU; the enforcer, who sees who competes, values it.
    pub graph: Graph,
    /// Those of the other resources of which anybody has tickets, in order of resource. Who
    /// enforces the CPU alone leaves them alone.
    pub others: Vec<Graph>,
    /// Every client, in order of id.
    pub clients: Vec<PlannedClient>,
    /// Hard caps on disks, in order of currency and disk. Who enforces the CPU alone leaves them alone.
    pub limits: Vec<PlannedLimit>,
}

/// One client of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedClient {
    /// Its currency.
    pub id: CurrencyId,
    /// Whose client it is. It may be away: in the `members` of another client.
    pub founder: Member,
    /// Those that have joined it, its own founder never among them. Each is in one client's list
    /// at most; that goes before what it has founded.
    pub members: Vec<Member>,
    /// A guest gets only what no host wants (paper 4). The graph knows of it: it is worth 0.
    pub class: Class,
    /// It has no tickets: it stays stopped until it gets some (paper 3, future work).
    pub frozen: bool,
    /// It waits for another and has lent that its tickets. The graph knows of it: it is worth 0,
    /// and like a guest it gets only what nobody else wants.
    pub lent: bool,
}

impl PlannedClient {
    /// A host with one member and tickets of its own.
    pub fn of(id: CurrencyId, founder: Member) -> PlannedClient {
        let (members, class) = (Vec::new(), Class::Host);
        PlannedClient { id, founder, members, class, frozen: false, lent: false }
    }
}

/// A hard cap on what the clients of a currency do on a disk, together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedLimit {
    /// The currency, or client.
    pub id: CurrencyId,
    /// The disk's kernel name.
    pub disk: String,
    /// How much.
    pub limits: Limits,
}

impl PlannedLimit {
    /// All that a ledger has.
    pub fn all(ledger: &Ledger) -> Vec<PlannedLimit> {
        let of_one = |currency: &ledger::Currency| {
            let id = currency.id;
            let limits = currency.record.limits.iter().filter_map(move |(resource, set)| {
                let Resource::Disk(disk) = resource else { return None };
                let ledger::DiskLimit { read_bytes, written_bytes, reads, writes } = set.limit;
                let limits = Limits { read_bytes, written_bytes, reads, writes };
                Some(PlannedLimit { id, disk: disk.clone(), limits })
            });
            limits.collect::<Vec<_>>()
        };
        ledger.currencies().flat_map(of_one).collect()
    }
}
