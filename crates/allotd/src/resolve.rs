//! From what people write to what the ledger knows: names to currencies, pids to processes.

use crate::keeper::unix_ms;
use crate::members::{Cgroups, find_thread};
use crate::names::Names;
use crate::policy_file::{FundingPolicy, Who};
use crate::trouble::trouble;
use ledger::{
    BASE, Caller, Class, CurrencyId, DiskLimit, ExchangeId, Funding, Good, Intent, Lease, Ledger,
    Leg, Member, Mode, NewClient, Offer, OfferId, Placements, PolicyKey, ProcessIdentity, Refusal,
    Resource, Rights, Subject, Terms, TicketKind,
};
use observe::{ProcessError, ProcessHandle};
use wire::{Amount, CurrencyRef, MemberRef, Operation, Trouble};

/// The tickets of a new client where nothing else is said.
const DEFAULT_AMOUNT: u64 = 1000;

/// A process that was looked at, with what a person would call it.
pub struct Found {
    /// For the ledger.
    pub client: NewClient,
    /// Its command's name.
    pub command: String,
    /// What it is, where allot never manages it: holding it would hang the machine or allotd.
    pub spared: Option<&'static str>,
}

/// Looks names up on behalf of one caller.
pub struct Resolver<'a> {
    /// As it is now.
    pub ledger: &'a Ledger,
    /// Who asks.
    pub caller: &'a Caller,
    /// `None` in a private allotd.
    pub policy: Option<&'a FundingPolicy>,
    /// Of users and groups.
    pub names: &'a mut Names,
    /// That are members, or may be.
    pub cgroups: &'a mut Cgroups,
}

impl Resolver<'_> {
    /// What an operation means here. The command of a process that it is about comes with it.
    ///
    /// # Errors
    /// What cannot be understood or found.
    pub fn intent(
        &mut self,
        operation: Operation,
    ) -> Result<(Intent, Option<(ProcessIdentity, String)>), Trouble> {
        let mut command = None;
        let mut found = |found: Found| {
            command = found.client.member.within_process().map(|process| (process, found.command));
            found.client
        };
        let intent = match operation {
            Operation::CreateCurrency { name, owner, group, mode } => Intent::CreateCurrency {
                name,
                owner: owner.unwrap_or(self.caller.uid),
                group: group.unwrap_or(self.caller.gid),
                mode: mode.map_or(Ok(Mode::PRIVATE), |mode| mode.parse().map_err(invalid))?,
            },
            Operation::DestroyCurrency { currency } => {
                Intent::DestroyCurrency { currency: self.currency(&currency)? }
            }
            Operation::ChangeMode { currency, mode } => Intent::ChangeMode {
                currency: self.currency(&currency)?,
                mode: mode.parse().map_err(invalid)?,
            },
            Operation::ChangeOwner { currency, owner, group } => {
                Intent::ChangeOwner { currency: self.currency(&currency)?, owner, group }
            }
            Operation::Grant { currency, to, rights } => Intent::Grant {
                currency: self.currency(&currency)?,
                subject: subject(&to)?,
                rights: rights.parse::<Rights>().map_err(invalid)?,
            },
            Operation::Fund { currency, from, amount } => Intent::Fund {
                holder: self.currency(&currency)?,
                issuer: self.currency(&from)?,
                funding: funding(&amount)?,
            },
            Operation::Unfund { currency, from, resource, kind } => Intent::Unfund {
                holder: self.currency(&currency)?,
                issuer: self.currency(&from)?,
                resource: resource.parse().map_err(invalid)?,
                kind: ticket_kind(kind),
            },
            Operation::Adopt { pid, start_time_ticks, from, funding: amounts } => {
                let client = found(self.process(pid, start_time_ticks)?);
                self.adopt(client, from, amounts)?
            }
            Operation::AdoptCgroup { cgroup, from, funding: amounts } => {
                let client = self.cgroups.find(&cgroup)?;
                self.adopt(client, from, amounts)?
            }
            Operation::Join { member, client } => Intent::Join {
                client: self.currency(&client)?,
                member: self.member(member).map(&mut found)?,
            },
            Operation::Leave { member } => {
                Intent::Leave { member: self.member(member).map(&mut found)? }
            }
            Operation::SetClass { client, class } => Intent::SetClass {
                client: self.client_or_own(client)?,
                class: match class {
                    wire::Class::Host => Class::Host,
                    wire::Class::Guest => Class::Guest,
                },
            },
            Operation::LimitDisk { currency, disk, limit } => Intent::LimitDisk {
                currency: self.currency(&currency)?,
                resource: format!("disk:{disk}").parse().map_err(invalid)?,
                limit: disk_limit(limit),
            },
            Operation::Transfer { from, to, resource } => Intent::Transfer {
                lender: self.client_or_own(from)?,
                holder: self.currency(&to)?,
                resource: resource_or_cpu(resource)?,
            },
            Operation::TakeBack { from, resource } => Intent::TakeBack {
                lender: self.client_or_own(from)?,
                resource: resource_or_cpu(resource)?,
            },
            Operation::Offer {
                party,
                gives,
                wants,
                points,
                partial,
                least,
                most,
                until_s,
                lease,
            } => {
                let party = self.client_or_own(party)?;
                let last = points.last().map_or(0, |point| point.want);
                let points = points.iter().map(|it| ledger::Point { give: it.give, want: it.want });
                let terms = Terms {
                    gives: good(&gives)?,
                    wants: good(&wants)?,
                    points: points.collect(),
                    partial,
                    least,
                    most: most.unwrap_or_else(|| last.saturating_mul(2)),
                };
                let lease = lease.map(|it| Lease {
                    offer_until_s: it.offer_until_s,
                    exchange_until_s: it.exchange_until_s,
                });
                for ends_s in lease.iter().flat_map(|it| [it.offer_until_s, it.exchange_until_s]) {
                    to_come(Some(ends_s))?;
                }
                Intent::Offer { offer: Offer { party, terms, until_s: to_come(until_s)?, lease } }
            }
            Operation::CancelOffer { offer } => Intent::CancelOffer { offer: OfferId(offer) },
            Operation::Exchange { legs, until_s } => {
                let legs = legs.into_iter().map(|leg| {
                    Ok(Leg {
                        giver: self.currency(&leg.from)?,
                        receiver: self.currency(&leg.to)?,
                        good: good(&leg.good)?,
                        amount: leg.amount,
                    })
                });
                let legs = legs.collect::<Result<_, Trouble>>()?;
                Intent::Exchange { legs, until_s: to_come(until_s)? }
            }
            Operation::EndExchange { exchange } => {
                Intent::EndExchange { exchange: ExchangeId(exchange) }
            }
            Operation::RenewExchange { exchange, party, until_s } => Intent::Renew {
                exchange: ExchangeId(exchange),
                party: self.currency(&party)?,
                until_s: to_come(until_s)?,
            },
            Operation::Release { client } => Intent::Release { client: self.currency(&client)? },
            Operation::Nice { pid, resource, amount } => Intent::Nice {
                client: found(self.process(pid, None)?),
                resource: resource_or_cpu(resource)?,
                amount,
            },
            Operation::SetBase { uid, amount } => {
                let placements = self.placements_of_user(uid);
                let placements =
                    placements.ok_or_else(|| crate::trouble::refused(&Refusal::NoOwnHome(uid)))?;
                Intent::SetBase { uid, placements, amount }
            }
            Operation::SetTickets { pid, amount } => {
                let process = identity(pid)?;
                let holder = self
                    .ledger
                    .client_of(process)
                    .ok_or_else(|| crate::trouble::refused(&Refusal::UnknownProcess(process)))?;
                let mut backing = self.ledger.backing(holder);
                let first = backing.find(|(_, ticket)| {
                    ticket.resource == Resource::Cpu && ticket.kind == TicketKind::Soft
                });
                let issuer = first.map(|(_, ticket)| ticket.issuer).ok_or_else(|| {
                    trouble("conflict", format!("{process} holds no soft cpu tickets to set"))
                })?;
                let (resource, kind) = (Resource::Cpu, TicketKind::Soft);
                Intent::Fund { holder, issuer, funding: Funding { resource, kind, amount } }
            }
        };
        Ok((intent, command))
    }

    fn adopt(
        &mut self,
        client: NewClient,
        from: Option<CurrencyRef>,
        amounts: Option<Vec<Amount>>,
    ) -> Result<Intent, Trouble> {
        let default = [Amount {
            resource: "cpu".to_owned(),
            kind: wire::TicketKind::Soft,
            amount: DEFAULT_AMOUNT,
        }];
        let amounts = amounts.as_deref().unwrap_or(&default);
        Ok(Intent::Adopt {
            client,
            issuer: match from {
                Some(from) => self.currency(&from)?,
                None => self.own_currency(client.uid)?,
            },
            funding: amounts.iter().map(funding).collect::<Result<_, _>>()?,
        })
    }

    /// Who is meant, and whose it is; the calling process where nobody is named.
    fn member(&mut self, member: Option<MemberRef>) -> Result<Found, Trouble> {
        match member {
            None => self.process(None, None),
            Some(MemberRef::Process(pid)) => self.process(Some(pid), None),
            Some(MemberRef::Thread(tid)) => unless_spared(find_thread(tid)?),
            Some(MemberRef::Cgroup(path)) => {
                let client = self.cgroups.find(&path)?;
                Ok(Found { client, command: String::new(), spared: None })
            }
        }
    }

    /// The client that is named, or that of the calling process.
    fn client_or_own(&mut self, client: Option<CurrencyRef>) -> Result<CurrencyId, Trouble> {
        match (client, self.caller.process) {
            (Some(client), _) => self.currency(&client),
            (None, Some(process)) => self.founded(process.into()),
            (None, None) => Err(trouble("unknown", "the calling process is gone; name a client")),
        }
    }

    /// The client that somebody has founded.
    fn founded(&self, member: Member) -> Result<CurrencyId, Trouble> {
        self.ledger.founded_by(&member).ok_or_else(|| {
            crate::trouble::refused(&match member {
                Member::Process(process) => Refusal::UnknownProcess(process),
                member => Refusal::UnknownMember(member),
            })
        })
    }

    /// The currency that a reference names.
    ///
    /// # Errors
    /// When it names none, or several.
    pub fn currency(&mut self, reference: &CurrencyRef) -> Result<CurrencyId, Trouble> {
        let text = reference.0.as_str();
        if text == "base" {
            return Ok(BASE);
        }
        if let Some(number) = text.strip_prefix('#') {
            let id = number.parse().map(CurrencyId);
            let id = id.map_err(|_| trouble("invalid", format!("`{text}` is no currency id")))?;
            let known = self.ledger.currency(id).is_some();
            return if known { Ok(id) } else { Err(unknown(text)) };
        }
        match text.split_once(':') {
            Some(("pid", pid)) => self.founded(identity(number(text, pid)?)?.into()),
            Some(("thread", tid)) => {
                let thread = observe::thread(number(text, tid)?).map_err(no_process)?;
                self.founded(Member::Thread(thread))
            }
            Some(("cgroup", path)) => {
                let cgroup = self.cgroups.find(path)?.member;
                self.founded(cgroup)
            }
            Some((user, name)) => {
                let uid = self.names.uid_of(user);
                let uid = uid.ok_or_else(|| trouble("unknown", format!("no user `{user}`")))?;
                if name.is_empty() {
                    return self.own_currency(uid);
                }
                self.ledger.named(uid, name).ok_or_else(|| unknown(text))
            }
            None => self.by_name(text),
        }
    }

    fn by_name(&self, name: &str) -> Result<CurrencyId, Trouble> {
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
        let same = self.ledger.currencies().filter(|currency| {
            !currency.is_client() && !currency.is_job() && currency.record.name == name
        });
        match same.collect::<Vec<_>>().as_slice() {
            [] => Err(unknown(name)),
            [only] => Ok(only.id),
            several => {
                let list: Vec<String> = several
                    .iter()
                    .map(|currency| format!("{}:{name}", currency.record.owner))
                    .collect();
                let list = list.join(", ");
                Err(trouble("conflict", format!("`{name}` names several currencies: {list}")))
            }
        }
    }

    /// Who funds a process of a user where nobody is named.
    fn own_currency(&mut self, uid: u32) -> Result<CurrencyId, Trouble> {
        if self.policy.is_none() {
            return Ok(BASE);
        }
        let home = self.placements_of_user(uid).and_then(|placements| {
            let last = placements.levels.last()?.key.clone();
            self.ledger.home(&last).map(|home| home.currency)
        });
        home.or_else(|| self.ledger.home(&PolicyKey::User(uid)).map(|home| home.currency))
            .ok_or_else(|| {
                trouble("conflict", format!("uid {uid} has no currency; name one with `from`"))
            })
    }

    /// Where the policy puts a user: by the group that the system names, else that of the
    /// currency the user has already.
    fn placements_of_user(&mut self, uid: u32) -> Option<Placements> {
        let policy = self.policy?;
        let home = self.ledger.home(&PolicyKey::User(uid));
        let home = home.and_then(|home| self.ledger.currency(home.currency));
        let gid = self.names.gid_of(uid).or_else(|| home.map(|home| home.record.group))?;
        placements(policy, self.names, uid, gid)
    }

    /// The process that is meant: the caller's own where no pid is given.
    fn process(&self, pid: Option<u32>, start: Option<u64>) -> Result<Found, Trouble> {
        let handle = match (pid, self.caller.process) {
            (Some(pid), _) => ProcessHandle::open(pid),
            (None, Some(process)) => ProcessHandle::open_identity(process),
            (None, None) => {
                return Err(trouble("unknown", "the calling process is gone; name a pid"));
            }
        };
        let handle = handle.map_err(no_process)?;
        let process = handle.identity();
        if start.is_some_and(|start| start != process.start_time_ticks) {
            let pid = process.pid;
            return Err(trouble("unknown", format!("pid {pid} is another process by now")));
        }
        unless_spared(look(&handle).map_err(no_process)?)
    }
}

/// Nobody manages what would hang the machine or allotd, nor a thread of it.
fn unless_spared(found: Found) -> Result<Found, Trouble> {
    match (found.spared, found.client.member.within_process()) {
        (Some(what), Some(ProcessIdentity { pid, .. })) => {
            Err(trouble("forbidden", format!("pid {pid} is {what}, which nobody may manage")))
        }
        _ => Ok(found),
    }
}

/// Who a process is and whose.
///
/// # Errors
/// When it is gone.
pub fn look(handle: &ProcessHandle) -> Result<Found, ProcessError> {
    let facts = handle.facts()?;
    let (process, uid, gid) = (handle.identity(), facts.real_uid, facts.real_gid);
    let own = std::process::id();
    let spared = match process.pid {
        _ if facts.is_kernel_thread => Some("a thread of the kernel"),
        1 => Some("init"),
        pid if pid == own => Some("allotd itself"),
        _ if facts.parent_pid == own => Some("the guardian of allotd"),
        _ => None,
    };
    Ok(Found { client: NewClient::process(process, uid, gid), command: facts.comm, spared })
}

/// Where a policy puts a user.
pub fn placements(
    policy: &FundingPolicy,
    names: &mut Names,
    uid: u32,
    gid: u32,
) -> Option<Placements> {
    policy.placements(&Who { uid, gid, user: names.user(uid), group: names.group(gid) })
}

fn identity(pid: u32) -> Result<ProcessIdentity, Trouble> {
    ProcessHandle::open(pid).map(|handle| handle.identity()).map_err(no_process)
}

fn subject(text: &str) -> Result<Subject, Trouble> {
    let bad = || {
        trouble("invalid", format!("`{text}` names nobody; write uid:1000, gid:100 or pid:4711"))
    };
    let (what, number) = text.split_once(':').ok_or_else(bad)?;
    let number: u32 = number.parse().map_err(|_| bad())?;
    match what {
        "uid" => Ok(Subject::Uid(number)),
        "gid" => Ok(Subject::Gid(number)),
        "pid" => Ok(Subject::Process(identity(number)?)),
        _ => Err(bad()),
    }
}

fn number(whole: &str, part: &str) -> Result<u32, Trouble> {
    part.parse().map_err(|_| trouble("invalid", format!("`{whole}` names no pid or thread")))
}

fn disk_limit(limit: wire::DiskLimit) -> DiskLimit {
    let wire::DiskLimit { read_bytes, written_bytes, reads, writes } = limit;
    DiskLimit { read_bytes, written_bytes, reads, writes }
}

fn resource_or_cpu(resource: Option<String>) -> Result<Resource, Trouble> {
    resource.map_or(Ok(Resource::Cpu), |text| text.parse().map_err(invalid))
}

fn funding(amount: &Amount) -> Result<Funding, Trouble> {
    let resource = amount.resource.parse().map_err(invalid)?;
    Ok(Funding { resource, kind: ticket_kind(amount.kind), amount: amount.amount })
}

fn ticket_kind(kind: wire::TicketKind) -> TicketKind {
    match kind {
        wire::TicketKind::Soft => TicketKind::Soft,
        wire::TicketKind::Hard => TicketKind::Hard,
        wire::TicketKind::Transfer => TicketKind::Transfer,
    }
}

fn good(good: &wire::Good) -> Result<Good, Trouble> {
    let resource = good.resource.parse().map_err(invalid)?;
    Ok(Good { resource, kind: ticket_kind(good.kind) })
}

/// What is over before it begins is a mistake.
fn to_come(until_s: Option<u64>) -> Result<Option<u64>, Trouble> {
    let now = unix_ms() / 1000;
    match until_s {
        Some(until_s) if until_s <= now => {
            Err(trouble("invalid", format!("until_s {until_s} is over; it is {now} now")))
        }
        other => Ok(other),
    }
}

fn invalid(error: impl std::fmt::Display) -> Trouble {
    trouble("invalid", error.to_string())
}

fn unknown(reference: &str) -> Trouble {
    trouble("unknown", format!("there is no currency `{reference}`; `allot tree` shows all"))
}

/// What went wrong with a process.
pub fn no_process(error: ProcessError) -> Trouble {
    trouble("unknown", error.to_string())
}
