//! The rules of a funding policy: what each says of whom, as it is written in the file.

use super::amount::{LimitRule, Others, Share, thousandths};
use crate::people::{Kind, Who};
use ledger::{DiskLimit, Funding, Mode, Placement, PolicyKey, Resource, Rights, TicketKind};
use nix::unistd::{Group, User};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Hard caps, by disk.
pub(super) type Limits = BTreeMap<Resource, DiskLimit>;

/// The tickets and hard caps of a currency.
pub(super) type Given = (Vec<Funding>, Limits);

/// The settings of a client that is everybody's: the kernel's threads, or the
/// processes that nobody manages. Where neither is given, the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Everybodys {
    /// Soft base tickets.
    pub(super) cpu: Option<u64>,
    /// A hard ticket from base, in thousandths.
    pub(super) hard: Option<u64>,
}

/// System services: one currency with a floor that users' tickets cannot take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SystemRule {
    /// False: services are not managed.
    pub(super) managed: bool,
    /// Whether the superuser may give tickets to those by hand that are not managed.
    pub(super) by_hand: bool,
    /// The uids of services; where it is left out, [`crate::people::People::kind`] says.
    pub(super) uids: Option<UidRange>,
    /// A hard ticket from base, in thousandths of the CPU.
    pub(super) floor: u64,
    pub(super) memory: Option<Share>,
    pub(super) disk: BTreeMap<String, Share>,
    pub(super) net: BTreeMap<String, Share>,
    pub(super) limits: BTreeMap<String, LimitRule>,
}

/// Everybody else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UsersRule {
    /// False: only those whom rules name are managed.
    pub(super) managed: bool,
    /// Whether those may be given tickets by hand that are not managed.
    pub(super) by_hand: bool,
    /// The uids of persons; where it is left out, [`crate::people::People::kind`] says.
    pub(super) uids: Option<UidRange>,
    pub(super) one_currency: Per,
    /// Base tickets of each user (or group), or a part.
    pub(super) cpu: Share,
    pub(super) memory: Option<Share>,
    pub(super) disk: BTreeMap<String, Share>,
    pub(super) net: BTreeMap<String, Share>,
    pub(super) limits: BTreeMap<String, LimitRule>,
    /// Whether a user's own limit of a disk may start the enforcer of disks, a tree of cgroups for the whole machine.
    pub(super) disk_limits: bool,
}

/// The currency of what runs in containers of the machine's, under uids that are not its users'.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContainersRule {
    /// False: they are not managed.
    pub(super) managed: bool,
    /// Whether those may be given tickets by hand that are not managed.
    pub(super) by_hand: bool,
    /// Base tickets, or a part.
    pub(super) cpu: Share,
    pub(super) memory: Option<Share>,
    pub(super) disk: BTreeMap<String, Share>,
    pub(super) net: BTreeMap<String, Share>,
    pub(super) limits: BTreeMap<String, LimitRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Per {
    User,
    Group,
}

/// The tickets that each process gets from the currency that funds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProcessRule {
    pub(super) cpu: u64,
}

/// Whoever matches any of `users`, `groups` and `uids`, or runs in any of `cgroups`, `slices` and
/// `containers`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) name: String,
    #[serde(default)]
    pub(super) users: Vec<String>,
    #[serde(default)]
    pub(super) groups: Vec<String>,
    #[serde(default)]
    pub(super) uids: Option<UidRange>,
    /// Cgroups and all below them, by path.
    #[serde(default)]
    pub(super) cgroups: Vec<String>,
    /// Slices of systemd, as in `batch.slice`.
    #[serde(default)]
    pub(super) slices: Vec<String>,
    /// Containers, as in `docker:*` or `lxc:web`.
    #[serde(default)]
    pub(super) containers: Vec<String>,
    /// Base tickets, or a part.
    #[serde(default)]
    pub(super) cpu: Option<Share>,
    #[serde(default)]
    pub(super) memory: Option<Share>,
    #[serde(default)]
    pub(super) disk: BTreeMap<String, Share>,
    #[serde(default)]
    pub(super) net: BTreeMap<String, Share>,
    #[serde(default)]
    pub(super) limits: BTreeMap<String, LimitRule>,
    /// A hard ticket from base, in thousandths.
    #[serde(default)]
    pub(super) hard: Option<u64>,
    /// Each user has a currency of their own beneath the rule's.
    #[serde(default)]
    pub(super) each_user: bool,
}

/// `1000-59999`, or one uid.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct UidRange(pub(super) RangeInclusive<u32>);

impl TryFrom<String> for UidRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bad = || format!("`{text}` is no range of uids; write 1000-59999, or one uid");
        let (first, last) = text.split_once('-').unwrap_or((&text, &text));
        let uid = |part: &str| part.trim().parse::<u32>().map_err(|_| bad());
        let (first, last) = (uid(first)?, uid(last)?);
        if first > last { Err(bad()) } else { Ok(UidRange(first..=last)) }
    }
}

/// Soft base tickets of one user, where nothing is said.
pub(super) const USER_CPU: u64 = 1000;

impl Default for SystemRule {
    fn default() -> Self {
        let (memory, disk, net, limits) = Default::default();
        SystemRule {
            managed: true,
            by_hand: false,
            uids: None,
            floor: 100,
            memory,
            disk,
            net,
            limits,
        }
    }
}

impl Default for UsersRule {
    fn default() -> Self {
        let (memory, disk, net, limits) = Default::default();
        let (cpu, one_currency) = (Share::Tickets(USER_CPU), Per::User);
        UsersRule {
            managed: true,
            by_hand: false,
            uids: None,
            one_currency,
            cpu,
            memory,
            disk,
            net,
            limits,
            disk_limits: false,
        }
    }
}

impl Default for ContainersRule {
    fn default() -> Self {
        let (memory, disk, net, limits) = Default::default();
        let cpu = Share::Tickets(USER_CPU);
        ContainersRule { managed: true, by_hand: false, cpu, memory, disk, net, limits }
    }
}

/// The name of the currency of containers.
pub(super) const CONTAINERS: &str = "containers";

impl Default for ProcessRule {
    fn default() -> Self {
        ProcessRule { cpu: 1000 }
    }
}

impl Rule {
    pub(super) fn others(&self) -> Others<'_> {
        let Rule { memory, disk, net, limits, .. } = self;
        Others { memory: *memory, disk, net, limits }
    }

    pub(super) fn names_places(&self) -> bool {
        !(self.cgroups.is_empty() && self.slices.is_empty() && self.containers.is_empty())
    }

    pub(super) fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !usable(name) {
            return Err(ledger::Refusal::BadName(name.clone()).to_string());
        }
        if self.funding(0).is_empty() {
            return Err(format!(
                "rule `{name}` gives nothing; add `cpu`, `hard`, `memory` or `disk`"
            ));
        }
        if self.hard.is_some() && matches!(self.cpu, Some(Share::Part(_))) {
            return Err(format!(
                "rule `{name}` gives a part of the CPU twice; write `hard` or `cpu = \"20%\"`"
            ));
        }
        self.check_places().map_err(|why| format!("rule `{name}`: {why}"))?;
        let names_users = !(self.users.is_empty() && self.groups.is_empty() && self.uids.is_none());
        match names_users || self.names_places() {
            true => Ok(()),
            false => Err(format!(
                "rule `{name}` matches nobody; add `users`, `groups`, `uids`, `cgroups`, `slices` or \
                 `containers`"
            )),
        }
    }

    /// Checks that what names a place can match any. A star stands for whatever is needed.
    fn check_places(&self) -> Result<(), String> {
        let all = |patterns: &[String], is_one: fn(&str) -> bool, what: &str| {
            let wrong = patterns.iter().find(|it| !it.contains('*') && !is_one(it));
            wrong.map_or(Ok(()), |wrong| Err(format!("`{wrong}` names no {what}")))
        };
        let is_cgroup = |path: &str| path.starts_with('/') && !path.ends_with('/');
        let is_slice = |name: &str| name.ends_with(".slice") && !name.contains('/');
        let cgroup = "cgroup; write its path, as in `/system.slice/nginx.service`";
        all(&self.cgroups, is_cgroup, cgroup)?;
        all(&self.slices, is_slice, "slice; write `batch.slice`")?;
        let container = "container; write ENGINE:NAME, as in `docker:web`";
        all(&self.containers, |name| name.contains(':'), container)
    }

    /// The users and groups that it names, without patterns, as the words `user NAME` and `group NAME`,
    /// as far as the machine does not know them.
    pub(super) fn strangers(&self) -> Vec<String> {
        let is_plain = |name: &&String| !name.contains('*');
        let is_no_user = |name: &&String| matches!(User::from_name(name), Ok(None));
        let is_no_group = |name: &&String| matches!(Group::from_name(name), Ok(None));
        let users = self.users.iter().filter(is_plain).filter(is_no_user);
        let groups = self.groups.iter().filter(is_plain).filter(is_no_group);
        let users = users.map(|name| format!("user `{name}`"));
        users.chain(groups.map(|name| format!("group `{name}`"))).collect()
    }

    pub(super) fn matches(&self, who: &Who) -> bool {
        self.matches_place(who) || (!who.is_elsewhere() && self.matches_user(who))
    }

    pub(super) fn matches_user(&self, who: &Who) -> bool {
        let any = |patterns: &[String], name: &String| {
            patterns.iter().any(|pattern| wire::matches(pattern, name))
        };
        who.user.iter().any(|name| any(&self.users, name))
            || who.group.iter().chain(&who.groups).any(|name| any(&self.groups, name))
            || self.uids.as_ref().is_some_and(|uids| uids.0.contains(&who.uid))
    }

    pub(super) fn matches_place(&self, who: &Who) -> bool {
        let path = who.cgroup.as_str();
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let mut above = ends.map(|end| &path[..end]).filter(|path| !path.is_empty());
        let container = who.container();
        let any = |patterns: &[String], name: &str| {
            patterns.iter().any(|pattern| wire::matches(pattern, name))
        };
        above.any(|path| any(&self.cgroups, path))
            || path.split('/').any(|part| any(&self.slices, part))
            || container.is_some_and(|name| any(&self.containers, &name))
    }

    /// Its tickets from base.
    pub(super) fn funding(&self, memory_kib: u64) -> Vec<Funding> {
        let cpu = self.cpu.map(|share| thousandths(Resource::CPU, share));
        let hard = self.hard.map(hard);
        hard.into_iter().chain(cpu).chain(self.others().funding(memory_kib)).collect()
    }

    pub(super) fn levels(&self, who: &Who, memory_kib: u64) -> Vec<Placement> {
        // Where users share one currency, each may issue from it only what the policy gives:
        // their forks divide what they have (see the ledger's `fork`).
        let funding = self.funding(memory_kib);
        let limits = self.others().limits();
        let top = shared(PolicyKey::Rule(self.name.clone()), &self.name, (funding, limits));
        let own = || own(who, (vec![soft(1000)], Limits::new()));
        if self.each_user { vec![top, own()] } else { vec![top] }
    }
}

impl ContainersRule {
    pub(super) fn others(&self) -> Others<'_> {
        let ContainersRule { memory, disk, net, limits, .. } = self;
        Others { memory: *memory, disk, net, limits }
    }

    pub(super) fn levels(&self, who: &Who, memory_kib: u64) -> Option<Vec<Placement>> {
        let key = PolicyKey::Rule(CONTAINERS.to_owned());
        let top = || shared(key, CONTAINERS, self.given(memory_kib));
        (self.managed && who.is_elsewhere()).then(|| vec![top()])
    }

    /// Returns what the currency of containers is given.
    pub(super) fn given(&self, memory_kib: u64) -> Given {
        let cpu = thousandths(Resource::CPU, self.cpu);
        let funding = std::iter::once(cpu).chain(self.others().funding(memory_kib)).collect();
        (funding, self.others().limits())
    }
}

impl SystemRule {
    pub(super) fn others(&self) -> Others<'_> {
        let SystemRule { memory, disk, net, limits, .. } = self;
        Others { memory: *memory, disk, net, limits }
    }

    pub(super) fn levels(&self, who: &Who, kind: Kind, memory_kib: u64) -> Option<Vec<Placement>> {
        let is_ours = match &self.uids {
            Some(uids) => !who.is_elsewhere() && uids.0.contains(&who.uid),
            None => kind == Kind::Service,
        };
        if !self.managed || !is_ours {
            return None;
        }
        let key = PolicyKey::Rule("system".to_owned());
        Some(vec![shared(key, "system", self.given(memory_kib))])
    }

    /// Returns what the currency of services is given.
    pub(super) fn given(&self, memory_kib: u64) -> Given {
        let cpu = match self.floor {
            0 => soft(USER_CPU),
            floor => hard(floor),
        };
        let funding = std::iter::once(cpu).chain(self.others().funding(memory_kib)).collect();
        (funding, self.others().limits())
    }
}

impl UsersRule {
    pub(super) fn others(&self) -> Others<'_> {
        let UsersRule { memory, disk, net, limits, .. } = self;
        Others { memory: *memory, disk, net, limits }
    }

    pub(super) fn levels(&self, who: &Who, kind: Kind, memory_kib: u64) -> Option<Vec<Placement>> {
        let is_ours = match &self.uids {
            Some(uids) => !who.is_elsewhere() && uids.0.contains(&who.uid),
            None => kind == Kind::Person,
        };
        if !self.managed || !is_ours {
            return None;
        }
        let given = self.given(memory_kib);
        Some(match self.one_currency {
            Per::User => vec![own(who, given)],
            Per::Group => {
                let name = named("gid", who.gid, &who.group);
                let top = shared(PolicyKey::Group(who.gid), &name, given);
                vec![top, own(who, (vec![soft(1000)], Limits::new()))]
            }
        })
    }

    /// Returns what each user, or each group, is given.
    pub(super) fn given(&self, memory_kib: u64) -> Given {
        let cpu = thousandths(Resource::CPU, self.cpu);
        let funding = std::iter::once(cpu).chain(self.others().funding(memory_kib)).collect();
        (funding, self.others().limits())
    }
}

pub(super) fn own(who: &Who, (funding, limits): Given) -> Placement {
    Placement {
        key: PolicyKey::User(who.uid),
        name: named("uid", who.uid, &who.user),
        owner: who.uid,
        group: who.gid,
        mode: Mode::new(Rights::ALL, Rights::NONE, Rights::NONE),
        funding,
        limits,
    }
}

pub(super) fn shared(key: PolicyKey, name: &str, (funding, limits): Given) -> Placement {
    let (name, mode) = (name.to_owned(), Mode::PRIVATE);
    Placement { key, name, owner: 0, group: 0, mode, funding, limits }
}

/// A name that a currency can have: not every user name is one.
pub(super) fn named(what: &str, id: u32, name: &Option<String>) -> String {
    name.as_ref().filter(|name| usable(name)).cloned().unwrap_or_else(|| format!("{what}-{id}"))
}

/// Whether a currency can have this name.
pub(super) fn usable(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.len() <= ledger::NAME_LEN_MAX
        && name.chars().all(plain)
        && name != "base"
}

pub(super) fn soft(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }
}

pub(super) fn hard(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Hard, amount }
}
