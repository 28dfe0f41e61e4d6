//! What every enforcer can do, and what it tells.

use crate::{EnforceError, Plan, PlannedClient};
use ledger::{CurrencyId, Member, ProcessIdentity};
use policy::PolicyName;

/// Makes the machine give what plans say, and decides no share.
pub trait Enforcer: Send {
    /// Its name, as users read it.
    fn name(&self) -> &'static str;

    /// Follow this plan from now on, in place of the one before. Returns when the plan was
    /// accepted; [`read_back`](Enforcer::read_back) tells what came of it.
    ///
    /// # Errors
    /// When the plan is older than the one that is followed, or the enforcer has ended.
    fn apply(&mut self, plan: Plan) -> Result<(), EnforceError>;

    /// Tell that `parent` made `child`, as soon as that is known and before a plan names the
    /// child: what the child inherited from a parent that was held is not its own.
    fn note_fork(&mut self, _parent: ProcessIdentity, _child: ProcessIdentity) {}

    /// Choose who is next by this policy from now on.
    ///
    /// # Errors
    /// When the enforcer cannot while it runs, or has ended.
    fn set_policy(&mut self, _policy: PolicyName) -> Result<(), EnforceError> {
        Err(EnforceError::PolicyIsFixed)
    }

    /// What is really set, and where that is not what the plan says.
    ///
    /// # Errors
    /// When the enforcer has ended.
    fn read_back(&mut self) -> Result<Applied, EnforceError>;

    /// What was measured so far.
    ///
    /// # Errors
    /// When the enforcer has ended.
    fn take_sample(&mut self) -> Result<Sample, EnforceError>;

    /// Gives every process back what it had, and follows no plan until the next
    /// [`apply`](Enforcer::apply). Returns when that is done.
    ///
    /// # Errors
    /// When the enforcer has ended (it gave everything back then).
    fn revert(&mut self) -> Result<(), EnforceError>;
}

/// What one client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientState {
    /// It won a seat in the last draw.
    Running,
    /// It competes, lost the last draw and is held.
    Waiting,
    /// It does not want the CPU, and is left free so that it wakes at once.
    Sleeping,
    /// The plan freezes it: stopped.
    Frozen,
    /// Stopped, but not by us: left alone.
    Stopped,
    /// Not touched; [`AppliedClient::note`] says why.
    Unmanaged,
}

/// How a process is held now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Not at all: it has its own policy.
    Free,
    /// In SCHED_IDLE: it runs when nobody else in its scheduling group wants to.
    Idle,
    /// Stopped by us.
    Stopped,
}

/// One client, as it is really set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedClient {
    /// Its currency.
    pub id: CurrencyId,
    /// Whose client it is.
    pub founder: Member,
    /// What it does.
    pub state: ClientState,
    /// How it is held.
    pub held: Held,
    /// Why it is not managed, or not held as it should be.
    pub note: Option<String>,
}

impl AppliedClient {
    /// One that the enforcer leaves alone, and why.
    pub(crate) fn unmanaged(planned: &PlannedClient, why: String) -> AppliedClient {
        let (state, held) = (ClientState::Unmanaged, Held::Free);
        AppliedClient { id: planned.id, founder: planned.founder, state, held, note: Some(why) }
    }
}

/// Something that was found not to be as we had set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Which process; nobody's where the enforcer itself is concerned.
    pub process: Option<ProcessIdentity>,
    /// What was found, and what was done, in words.
    pub what: String,
}

impl std::fmt::Display for Drift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.process {
            Some(process) => write!(f, "{process}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// What is really set.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The plan that is followed; `None` before the first and after a revert.
    pub generation: Option<u64>,
    /// How losers wait where nothing else is said.
    pub hold: crate::Hold,
    /// Whether processes are held now: not while there is no guardian.
    pub guarded: bool,
    /// The guardian's process; `None` while there is none.
    pub guardian_pid: Option<u32>,
    /// Every client of the plan, in order of id.
    pub clients: Vec<AppliedClient>,
    /// What was found not to be as set, since the last time that this was asked, oldest first.
    pub drift: Vec<Drift>,
}

/// What one client has used and was promised. All totals count from the moment when it came
/// under this enforcer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSample {
    /// Its currency.
    pub id: CurrencyId,
    /// Whose client it is.
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

impl ClientSample {
    /// One that the enforcer leaves alone: nothing is counted.
    pub(crate) fn unmanaged(planned: &PlannedClient) -> ClientSample {
        ClientSample {
            id: planned.id,
            founder: planned.founder,
            state: ClientState::Unmanaged,
            value: 0,
            promised: 0,
            promised_ns: 0,
            used_ns: 0,
            active_ns: 0,
            wins: 0,
            draws: 0,
        }
    }
}

/// What was measured up to one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
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
    pub clients: Vec<ClientSample>,
}
