//! From what people write to what the ledger knows: names to currencies, pids to processes.

use crate::clock::unix_ms;
use crate::members::Cgroups;
use crate::names::Names;
use crate::policy_file::{FundingPolicy, placements};
use crate::resolved_process::{ResolvedProcess, find_thread, gone, identity, look};
use ledger::{
    BASE, Caller, CurrencyId, CurrencyKind, Ledger, Member, NewClient, Placements, PolicyKey,
    ProcessIdentity, Refusal, ResourceKinds,
};
use observe::{ProcessHandle, Surroundings};
use wire::{ApiError, CurrencyRef, ErrorCode};

/// Looks names up on behalf of one caller.
pub struct Resolver<'a> {
    /// The ledger as it is now.
    pub ledger: &'a Ledger,
    /// The caller, as the kernel names it.
    pub caller: &'a Caller,
    /// `None` in a private allotd.
    pub policy: Option<&'a FundingPolicy>,
    /// Names of users and groups.
    pub names: &'a mut Names,
    /// Cgroups that are members, or may be.
    pub cgroups: &'a mut Cgroups,
    /// The kinds of resources that are shared here.
    pub kinds: &'a ResourceKinds,
    /// The command of the process that was looked up last.
    pub command: Option<(ProcessIdentity, String)>,
}

impl wire::Resolver for Resolver<'_> {
    fn caller(&self) -> &Caller {
        self.caller
    }

    fn ledger(&self) -> &Ledger {
        self.ledger
    }

    fn kinds(&self) -> &ResourceKinds {
        self.kinds
    }

    fn now_s(&self) -> u64 {
        unix_ms() / 1000
    }

    fn currency(&mut self, reference: &CurrencyRef) -> Result<CurrencyId, ApiError> {
        let text = reference.0.as_str();
        if text == "base" {
            return Ok(BASE);
        }
        if let Some(number) = text.strip_prefix('#') {
            let id = number.parse().map(CurrencyId);
            let id = id.map_err(|_| {
                ApiError::new(ErrorCode::Invalid, format!("`{text}` is no currency id"))
            })?;
            let known = self.ledger.currency(id).is_some();
            return if known { Ok(id) } else { Err(unknown(text)) };
        }
        match text.split_once(':') {
            Some(("pid", pid)) => self.founded(identity(number(text, pid)?)?.into()),
            Some(("thread", tid)) => {
                let thread = observe::thread(number(text, tid)?).map_err(gone)?;
                self.founded(Member::Thread(thread))
            }
            Some(("cgroup", path)) => {
                let cgroup = self.cgroups.find(path)?.member;
                self.founded(cgroup)
            }
            Some((user, name)) => {
                let uid = self.names.uid_of(user);
                let uid = uid.ok_or_else(|| match self.names.take_late() {
                    true => ApiError::new(
                        ErrorCode::Conflict,
                        format!("the system has not said yet who `{user}` is; try again, or write the uid"),
                    ),
                    false => ApiError::new(ErrorCode::Unknown, format!("no user `{user}`")),
                })?;
                if name.is_empty() {
                    return self.currency_of_user(uid);
                }
                self.ledger.named(uid, name).ok_or_else(|| unknown(text))
            }
            None => self.by_name(text),
        }
    }

    fn own_client(&mut self) -> Result<CurrencyId, ApiError> {
        let gone =
            || ApiError::new(ErrorCode::Unknown, "the calling process is gone; name a client");
        self.founded(self.caller.process.ok_or_else(gone)?.into())
    }

    fn currency_of_user(&mut self, uid: u32) -> Result<CurrencyId, ApiError> {
        if self.policy.is_none() {
            return Ok(BASE);
        }
        let home = self.placements_of_user(uid).and_then(|placements| {
            let last = placements.levels.last()?.key.clone();
            self.ledger.home(&last).map(|home| home.currency)
        });
        home.or_else(|| self.ledger.home(&PolicyKey::User(uid)).map(|home| home.currency))
            .ok_or_else(|| {
                ApiError::new(
                    ErrorCode::Conflict,
                    format!("uid {uid} has no currency; name one with `from`"),
                )
            })
    }

    /// Takes the group that the system names, else that of the currency the user has already.
    fn placements_of_user(&mut self, uid: u32) -> Option<Placements> {
        let policy = self.policy?;
        let home = self.ledger.home(&PolicyKey::User(uid));
        let home = home.and_then(|home| self.ledger.currency(home.currency));
        let gid = self.names.gid_of(uid).or_else(|| home.map(|home| home.record.group))?;
        placements(policy, self.names, uid, gid, Surroundings::default())
    }

    fn is_named(&mut self, client: CurrencyId) -> bool {
        let Some(currency) = self.ledger.currency(client) else { return false };
        let (uid, gid) = (currency.record.owner, currency.record.group);
        let policy = self.policy.filter(|_| currency.process().is_some());
        // Where it is may count too, and who it is may still be asked: both only add to whom the policy names.
        let is_placed = matches!(currency.record.kind, CurrencyKind::Client { placed: true, .. });
        policy.is_some_and(|policy| {
            placements(policy, self.names, uid, gid, Surroundings::default()).is_some()
                || is_placed
                || self.names.awaits_answers()
        })
    }

    fn identity(&self, pid: u32) -> Result<ProcessIdentity, ApiError> {
        identity(pid)
    }

    fn process(
        &mut self,
        pid: Option<u32>,
        start_time_ticks: Option<u64>,
    ) -> Result<NewClient, ApiError> {
        let handle = match (pid, self.caller.process) {
            (Some(pid), _) => ProcessHandle::open(pid),
            (None, Some(process)) => ProcessHandle::open_identity(process),
            (None, None) => {
                let message = "the calling process is gone; name a pid";
                return Err(ApiError::new(ErrorCode::Unknown, message));
            }
        };
        let handle = handle.map_err(gone)?;
        let process = handle.identity();
        if start_time_ticks.is_some_and(|start| start != process.start_time_ticks) {
            let message = format!("pid {} is another process by now", process.pid);
            return Err(ApiError::new(ErrorCode::Unknown, message));
        }
        self.manageable(look(&handle).map_err(gone)?)
    }

    fn thread(&mut self, tid: u32) -> Result<NewClient, ApiError> {
        self.manageable(find_thread(tid)?)
    }

    fn cgroup(&mut self, path: &str) -> Result<NewClient, ApiError> {
        let found = self.cgroups.find(path)?;
        self.must_be_within_reach(found.uid)?;
        Ok(found)
    }
}

impl Resolver<'_> {
    /// Refuses whom the funding policy leaves alone: the enforcing process would too.
    fn must_be_within_reach(&self, uid: u32) -> Result<(), ApiError> {
        // Others hear that it is not theirs.
        let may_ask = uid == self.caller.uid || self.ledger.is_superuser(self.caller.uid);
        match !may_ask || self.policy.is_none_or(|policy| policy.reach().has(uid)) {
            true => Ok(()),
            false => {
                let what = format!(
                    "the funding policy leaves the processes of uid {uid} alone; by_hand = true in its section lets \
                     them have tickets by hand"
                );
                Err(ApiError::new(ErrorCode::Forbidden, what))
            }
        }
    }

    /// A process, or a thread of one, that allot may manage; its command is remembered.
    fn manageable(&mut self, found: ResolvedProcess) -> Result<NewClient, ApiError> {
        let found = found.unless_spared()?;
        self.must_be_within_reach(found.client.uid)?;
        let process = found.client.member.within_process();
        self.command = process.map(|process| (process, found.command));
        Ok(found.client)
    }

    /// The client that a member has founded.
    fn founded(&self, member: Member) -> Result<CurrencyId, ApiError> {
        let client = self.ledger.founded_by(&member);
        client.ok_or_else(|| match member {
            Member::Process(process) => Refusal::UnknownProcess(process).into(),
            member => Refusal::UnknownMember(member).into(),
        })
    }

    fn by_name(&self, name: &str) -> Result<CurrencyId, ApiError> {
        // Before all others of that name: whoever made one would be given what is meant for these.
        let everybodys = match name {
            "kernel" => self.ledger.founded_by(&Member::Kernel),
            "rest" => self.ledger.founded_by(&Member::Rest),
            _ => None,
        };
        if let Some(client) = everybodys {
            return Ok(client);
        }
        if let Some(own) = self.ledger.named(self.caller.uid, name) {
            return Ok(own);
        }
        // Then those of base's owner, as the policy makes them; of all others nobody can tell whose was meant.
        let owner_of_base = self.ledger.currency(BASE).map_or(0, |base| base.record.owner);
        if let Some(bases) = self.ledger.named(owner_of_base, name) {
            return Ok(bases);
        }
        let others = self.ledger.currencies().filter(|currency| {
            !currency.is_client() && !currency.is_job() && currency.record.name == name
        });
        let list: Vec<String> =
            others.take(8).map(|currency| format!("{}:{name}", currency.record.owner)).collect();
        if list.is_empty() {
            return Err(unknown(name));
        }
        Err(ApiError::new(
            ErrorCode::Unknown,
            format!("you have no currency `{name}`; say whose is meant: {}", list.join(", ")),
        ))
    }
}

fn number(whole: &str, part: &str) -> Result<u32, ApiError> {
    part.parse()
        .map_err(|_| ApiError::new(ErrorCode::Invalid, format!("`{whole}` names no pid or thread")))
}

fn unknown(reference: &str) -> ApiError {
    ApiError::new(
        ErrorCode::Unknown,
        format!("there is no currency `{reference}`; `allot tree` shows all"),
    )
}
