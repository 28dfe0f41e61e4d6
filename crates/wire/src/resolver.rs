//! What the daemon has to find out before a request means something to the ledger.

use crate::{Amount, ApiError, CurrencyRef, ErrorCode, Good, MemberRef};
use ledger::{
    Caller, CurrencyId, Funding, Ledger, NewClient, Placements, ProcessIdentity, Resource,
    ResourceKinds, Subject,
};

/// Finds out, on behalf of one caller, which currencies, processes and resources a request names.
pub trait Resolver {
    /// The caller, as the kernel names it.
    fn caller(&self) -> &Caller;

    /// The ledger as it is now.
    fn ledger(&self) -> &Ledger;

    /// The kinds of resources that are shared here.
    fn kinds(&self) -> &ResourceKinds;

    /// The time in seconds since 1970.
    fn now_s(&self) -> u64;

    /// The currency that a reference names.
    ///
    /// # Errors
    /// When it names none, or several.
    fn currency(&mut self, reference: &CurrencyRef) -> Result<CurrencyId, ApiError>;

    /// The caller's own client.
    ///
    /// # Errors
    /// When the calling process is gone, or no client.
    fn own_client(&mut self) -> Result<CurrencyId, ApiError>;

    /// The currency that funds a user's processes where nobody else is named.
    ///
    /// # Errors
    /// When there is none.
    fn currency_of_user(&mut self, uid: u32) -> Result<CurrencyId, ApiError>;

    /// The policy's path for a user.
    fn placements_of_user(&mut self, uid: u32) -> Option<Placements>;

    /// Whether the policy names the user whose process founded a client.
    fn is_named(&mut self, client: CurrencyId) -> bool;

    /// The process that has a pid now.
    ///
    /// # Errors
    /// When there is none.
    fn identity(&self, pid: u32) -> Result<ProcessIdentity, ApiError>;

    /// A process and its owner; the calling process where no pid is given.
    ///
    /// # Errors
    /// When it is gone, has another start time, or is one that nobody may manage.
    fn process(
        &mut self,
        pid: Option<u32>,
        start_time_ticks: Option<u64>,
    ) -> Result<NewClient, ApiError>;

    /// A thread and its owner.
    ///
    /// # Errors
    /// When it is gone, or of a process that nobody may manage.
    fn thread(&mut self, tid: u32) -> Result<NewClient, ApiError>;

    /// A cgroup and the owner of its directory.
    ///
    /// # Errors
    /// When there is none.
    fn cgroup(&mut self, path: &str) -> Result<NewClient, ApiError>;

    /// What consumes, and its owner; the calling process where nothing is named.
    ///
    /// # Errors
    /// When it is not there, or nobody may manage it.
    fn member(&mut self, member: Option<MemberRef>) -> Result<NewClient, ApiError> {
        match member {
            None => self.process(None, None),
            Some(MemberRef::Process(pid)) => self.process(Some(pid), None),
            Some(MemberRef::Thread(tid)) => self.thread(tid),
            Some(MemberRef::Cgroup(path)) => self.cgroup(&path),
        }
    }

    /// The client that is named, or the caller's own.
    ///
    /// # Errors
    /// When there is none.
    fn client_or_own(&mut self, client: Option<CurrencyRef>) -> Result<CurrencyId, ApiError> {
        match client {
            Some(client) => self.currency(&client),
            None => self.own_client(),
        }
    }

    /// The user, group or process that a text names.
    ///
    /// # Errors
    /// When it names none.
    fn subject(&self, text: &str) -> Result<Subject, ApiError> {
        let bad = || invalid(format!("`{text}` names nobody; write uid:1000, gid:100 or pid:4711"));
        let (what, number) = text.split_once(':').ok_or_else(bad)?;
        let number: u32 = number.parse().map_err(|_| bad())?;
        match what {
            "uid" => Ok(Subject::Uid(number)),
            "gid" => Ok(Subject::Gid(number)),
            "pid" => Ok(Subject::Process(self.identity(number)?)),
            _ => Err(bad()),
        }
    }

    /// The resource that a word names.
    ///
    /// # Errors
    /// When it names none that is shared here.
    fn resource(&self, word: &str) -> Result<Resource, ApiError> {
        self.kinds().parse(word).map_err(invalid)
    }

    /// The resource that is named, or the CPU.
    ///
    /// # Errors
    /// As [`resource`](Resolver::resource).
    fn resource_or_cpu(&self, word: Option<String>) -> Result<Resource, ApiError> {
        word.map_or(Ok(Resource::CPU), |word| self.resource(&word))
    }

    /// An amount of tickets.
    ///
    /// # Errors
    /// As [`resource`](Resolver::resource).
    fn funding(&self, amount: &Amount) -> Result<Funding, ApiError> {
        let resource = self.resource(&amount.resource)?;
        Ok(Funding { resource, kind: amount.kind.into(), amount: amount.amount })
    }

    /// What is exchanged.
    ///
    /// # Errors
    /// As [`resource`](Resolver::resource).
    fn good(&self, good: &Good) -> Result<ledger::Good, ApiError> {
        Ok(ledger::Good { resource: self.resource(&good.resource)?, kind: good.kind.into() })
    }

    /// An end that is still to come.
    ///
    /// # Errors
    /// When it is over.
    fn to_come(&self, until_s: Option<u64>) -> Result<Option<u64>, ApiError> {
        let now = self.now_s();
        match until_s {
            Some(until_s) if until_s <= now => {
                Err(invalid(format!("until_s {until_s} is over; it is {now} now")))
            }
            other => Ok(other),
        }
    }
}

/// An error of a request that makes no sense.
pub(crate) fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(ErrorCode::Invalid, error.to_string())
}
