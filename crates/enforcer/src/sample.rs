//! What was measured.

use crate::{ClientState, CpuAccount, PlannedClient};
use ledger::{CurrencyId, Member, Resource};
use serde::{Deserialize, Serialize};

/// What was measured up to one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The resources that are measured in their own unit, in order.
    pub resources: Vec<ResourceSample>,
    /// What is peculiar to the CPU.
    pub cpu: Option<CpuSample>,
}

/// The use of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSample {
    /// The resource.
    pub resource: Resource,
    /// Every client that competes for it or uses it, in order of id.
    pub clients: Vec<ResourceUse>,
}

/// What one client has of a resource, in the unit of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Its currency.
    pub id: CurrencyId,
    /// The base value of its tickets now, in parts of [`valuation::WHOLE`]; 0 while it does not compete.
    pub value: u64,
    /// The amount that it is promised now; `None` where the kind has no amounts but rates.
    pub promised: Option<u64>,
    /// The amount that it has now, or has used so far.
    pub used: u64,
}

/// The use of the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSample {
    /// When, on the monotonic clock, in ns.
    pub at_ns: u64,
    /// CPUs shared out.
    pub seats: usize,
    /// The plan that is followed; 0 for none.
    pub generation: u64,
    /// Draws held.
    pub draws: u64,
    /// Draws that came more than half a quantum late.
    pub late: u64,
    /// CPU time that the enforcer's own thread used, in ns.
    pub own_cpu_ns: u64,
    /// System calls that it made, counted where it makes them.
    pub system_calls: u64,
    /// CPU time used by all clients, those that are gone included, in ns.
    pub used_ns: u64,
    /// Every client of the plan, in order of id.
    pub clients: Vec<CpuClientSample>,
}

/// The CPU time that one client has used and was promised. All totals count from the moment when it came under this
/// enforcer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuClientSample {
    /// Its currency.
    pub id: CurrencyId,
    /// The member that founded it.
    pub founder: Member,
    /// What it does.
    pub state: ClientState,
    /// Its base value now, in parts of [`valuation::WHOLE`]; 0 while it does not compete.
    pub value: u64,
    /// What it is promised now, in parts of a seat ([`policy::ONE_SEAT`]).
    pub promised: u64,
    /// The integral of that over time: CPU time promised so far, in ns.
    pub promised_ns: u64,
    /// CPU time used, in ns.
    pub used_ns: u64,
    /// Time for which it competed, in ns.
    pub active_ns: u64,
    /// Draws that it won.
    pub wins: u64,
    /// Draws that it took part in.
    pub draws: u64,
}

impl CpuClientSample {
    /// A client by its account, with its value and promise now.
    pub fn of(
        (id, founder): (CurrencyId, Member),
        state: ClientState,
        (value, promised): (u64, u64),
        account: CpuAccount,
    ) -> CpuClientSample {
        let CpuAccount { used_ns, promised_ns, active_ns, wins, draws } = account;
        CpuClientSample {
            id,
            founder,
            state,
            value,
            promised,
            promised_ns,
            used_ns,
            active_ns,
            wins,
            draws,
        }
    }

    /// A client that the enforcer leaves alone: nothing is counted.
    pub fn unmanaged(planned: &PlannedClient) -> CpuClientSample {
        let (who, account) = ((planned.id, planned.founder), CpuAccount::default());
        CpuClientSample::of(who, ClientState::Unmanaged, (0, 0), account)
    }

    /// Lists managed clients and others, in order of id.
    pub fn all<'a>(
        managed: impl Iterator<Item = CpuClientSample>,
        unmanaged: impl IntoIterator<Item = &'a (PlannedClient, String)>,
    ) -> Vec<CpuClientSample> {
        let others = unmanaged.into_iter().map(|(planned, _)| CpuClientSample::unmanaged(planned));
        let mut all: Vec<CpuClientSample> = managed.chain(others).collect();
        all.sort_by_key(|client| client.id);
        all
    }
}
