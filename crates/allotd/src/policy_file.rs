//! The funding policy: who gets which currency, and how much (paper 1, 5.2: `cid_for_client`).
//!
//! A TOML file, read once at the start. Rules are tried in their order, then `[system]`, then
//! `[users]`; the first that matches decides. Whom none matches is not managed.

use ledger::{
    Funding, Member, Mode, Placement, Placements, PolicyKey, Resource, Rights, TicketKind,
};
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Thousandths of the machine for the kernel's threads.
const KERNEL_HARD: u64 = 100;

/// Who a process belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Real uid.
    pub uid: u32,
    /// Real gid.
    pub gid: u32,
    /// The user's name, where there is one.
    pub user: Option<String>,
    /// The group's name, where there is one.
    pub group: Option<String>,
}

/// A funding policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// It cannot be read.
    #[error("cannot read the funding policy {path}: {cause}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It is not what a policy looks like.
    #[error("the funding policy {path} is wrong: {cause}")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What and where.
        cause: String,
    },
}

/// A funding policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FundingPolicy {
    system: Option<SystemRule>,
    users: Option<UsersRule>,
    processes: ProcessRule,
    kernel: Everybodys,
    rest: Everybodys,
    rule: Vec<Rule>,
}

/// What one of the clients is made with that are everybody's: the kernel's threads, and the
/// processes that nobody manages. Where neither is given, the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Everybodys {
    /// Soft base tickets.
    cpu: Option<u64>,
    /// A hard ticket from base, in thousandths.
    hard: Option<u64>,
}

/// System services: one currency with a floor that users' tickets cannot take.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SystemRule {
    uids: UidRange,
    /// A hard ticket from base, in thousandths of the CPU.
    floor: u64,
}

/// Everybody else.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UsersRule {
    uids: UidRange,
    one_currency: Per,
    /// Soft base tickets of each user (or group).
    cpu: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Per {
    User,
    Group,
}

/// What each process gets from the currency that funds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProcessRule {
    cpu: u64,
}

/// Whoever matches any of `users`, `groups` and `uids`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    name: String,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    uids: Option<UidRange>,
    /// Soft base tickets.
    #[serde(default)]
    cpu: Option<u64>,
    /// A hard ticket from base, in thousandths.
    #[serde(default)]
    hard: Option<u64>,
    /// Each user has a currency of their own beneath the rule's.
    #[serde(default)]
    each_user: bool,
}

/// `1000-59999`, or one uid.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct UidRange(RangeInclusive<u32>);

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

impl Default for FundingPolicy {
    fn default() -> Self {
        FundingPolicy {
            system: Some(SystemRule::default()),
            users: Some(UsersRule::default()),
            processes: ProcessRule::default(),
            kernel: Everybodys::default(),
            rest: Everybodys::default(),
            rule: Vec::new(),
        }
    }
}

impl Default for SystemRule {
    fn default() -> Self {
        SystemRule { uids: UidRange(0..=999), floor: 100 }
    }
}

impl Default for UsersRule {
    fn default() -> Self {
        UsersRule { uids: UidRange(1000..=59_999), one_currency: Per::User, cpu: 1000 }
    }
}

impl Default for ProcessRule {
    fn default() -> Self {
        ProcessRule { cpu: 1000 }
    }
}

impl FundingPolicy {
    /// Read a policy. A file that is missing is the default policy.
    ///
    /// # Errors
    /// Where it cannot be read or understood.
    pub fn read(path: &Path) -> Result<FundingPolicy, PolicyFileError> {
        match std::fs::read_to_string(path) {
            Ok(text) => FundingPolicy::parse(&text)
                .map_err(|cause| PolicyFileError::Malformed { path: path.to_owned(), cause }),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                Ok(FundingPolicy::default())
            }
            Err(cause) => Err(PolicyFileError::Unreadable { path: path.to_owned(), cause }),
        }
    }

    /// Understand a policy's text. A section that is left out is left out: a file with rules
    /// alone manages only whom they name.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<FundingPolicy, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            system: Option<SystemRule>,
            users: Option<UsersRule>,
            #[serde(default)]
            processes: ProcessRule,
            #[serde(default)]
            kernel: Everybodys,
            #[serde(default)]
            rest: Everybodys,
            #[serde(default)]
            rule: Vec<Rule>,
        }
        let File { system, users, processes, kernel, rest, rule } =
            toml::from_str(text).map_err(|error| error.to_string())?;
        let policy = FundingPolicy { system, users, processes, kernel, rest, rule };
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), String> {
        let soft = |what: &str, amount: u64| {
            let fits = amount <= ledger::AMOUNT_MAX;
            let most = ledger::AMOUNT_MAX;
            if fits { Ok(()) } else { Err(format!("{what}: at most {most} tickets")) }
        };
        soft("[processes] cpu", self.processes.cpu)?;
        if let Some(users) = &self.users {
            soft("[users] cpu", users.cpu)?;
        }
        let mut hard = self.system.as_ref().map_or(0, |system| system.floor);
        for (member, funding) in self.everybodys() {
            for ticket in funding {
                match ticket.kind {
                    TicketKind::Hard => hard = hard.saturating_add(ticket.amount),
                    _ => soft(&member.to_string(), ticket.amount)?,
                }
            }
        }
        for rule in &self.rule {
            let name = &rule.name;
            if !usable(name) {
                return Err(ledger::Refusal::BadName(name.clone()).to_string());
            }
            soft(&format!("rule `{name}`"), rule.cpu.unwrap_or(0))?;
            if rule.cpu.is_none() && rule.hard.is_none() {
                return Err(format!("rule `{name}` gives nothing; add `cpu` or `hard`"));
            }
            if rule.users.is_empty() && rule.groups.is_empty() && rule.uids.is_none() {
                return Err(format!(
                    "rule `{name}` matches nobody; add `users`, `groups` or `uids`"
                ));
            }
            if self.rule.iter().filter(|other| other.name == *name).count() > 1 || name == "system"
            {
                return Err(format!("there are two rules named `{name}`"));
            }
            hard = hard.saturating_add(rule.hard.unwrap_or(0));
        }
        let total = ledger::HARD_TOTAL;
        if hard > total {
            return Err(format!("the hard shares add up to {hard} thousandths; {total} are all"));
        }
        Ok(())
    }

    /// The clients that the kernel's scheduler needs besides processes', with what they are made
    /// with: the kernel's threads have a tenth of the machine that nobody else's tickets can take,
    /// for they work for everybody; all that nobody manages has as much as one user.
    pub fn everybodys(&self) -> [(Member, Vec<Funding>); 2] {
        let of = |given: &Everybodys, default: Funding| match (given.hard, given.cpu) {
            (None, None) => vec![default],
            (given_hard, given_soft) => {
                given_hard.map(hard).into_iter().chain(given_soft.map(soft)).collect()
            }
        };
        [
            (Member::Kernel, of(&self.kernel, hard(KERNEL_HARD))),
            (Member::Rest, of(&self.rest, soft(UsersRule::default().cpu))),
        ]
    }

    /// Where a process of this user belongs; `None`: it is not managed.
    pub fn placements(&self, who: &Who) -> Option<Placements> {
        let levels = self
            .rule
            .iter()
            .find(|rule| rule.matches(who))
            .map(|rule| rule.levels(who))
            .or_else(|| self.system.as_ref().and_then(|system| system.levels(who)))
            .or_else(|| self.users.as_ref().and_then(|users| users.levels(who)))?;
        let process = vec![soft(self.processes.cpu)];
        Some(Placements { levels, process })
    }
}

impl Rule {
    fn matches(&self, who: &Who) -> bool {
        let among = |patterns: &[String], name: &Option<String>| {
            name.as_ref()
                .is_some_and(|name| patterns.iter().any(|pattern| wire::matches(pattern, name)))
        };
        among(&self.users, &who.user)
            || among(&self.groups, &who.group)
            || self.uids.as_ref().is_some_and(|uids| uids.0.contains(&who.uid))
    }

    fn levels(&self, who: &Who) -> Vec<Placement> {
        let hard = self.hard.map(hard);
        let funding: Vec<Funding> = hard.into_iter().chain(self.cpu.map(soft)).collect();
        // Where users share one currency, each may issue from it only what the policy gives:
        // their forks divide what they have (see the ledger's `fork`).
        let top = shared(PolicyKey::Rule(self.name.clone()), &self.name, funding);
        if self.each_user { vec![top, own(who, 1000)] } else { vec![top] }
    }
}

impl SystemRule {
    fn levels(&self, who: &Who) -> Option<Vec<Placement>> {
        let funding = match self.floor {
            0 => soft(UsersRule::default().cpu),
            floor => hard(floor),
        };
        let top = || shared(PolicyKey::Rule("system".to_owned()), "system", vec![funding]);
        self.uids.0.contains(&who.uid).then(|| vec![top()])
    }
}

impl UsersRule {
    fn levels(&self, who: &Who) -> Option<Vec<Placement>> {
        if !self.uids.0.contains(&who.uid) {
            return None;
        }
        Some(match self.one_currency {
            Per::User => vec![own(who, self.cpu)],
            Per::Group => {
                let name = named("gid", who.gid, &who.group);
                let top = shared(PolicyKey::Group(who.gid), &name, vec![soft(self.cpu)]);
                vec![top, own(who, 1000)]
            }
        })
    }
}

fn own(who: &Who, cpu: u64) -> Placement {
    Placement {
        key: PolicyKey::User(who.uid),
        name: named("uid", who.uid, &who.user),
        owner: who.uid,
        group: who.gid,
        mode: Mode::new(Rights::ALL, Rights::NONE, Rights::NONE),
        funding: vec![soft(cpu)],
    }
}

fn shared(key: PolicyKey, name: &str, funding: Vec<Funding>) -> Placement {
    Placement { key, name: name.to_owned(), owner: 0, group: 0, mode: Mode::PRIVATE, funding }
}

/// A name that a currency can have: not every user name is one.
fn named(what: &str, id: u32, name: &Option<String>) -> String {
    name.as_ref().filter(|name| usable(name)).cloned().unwrap_or_else(|| format!("{what}-{id}"))
}

/// Whether a currency can have this name.
fn usable(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.len() <= ledger::NAME_LEN_MAX
        && name.chars().all(plain)
        && name != "base"
}

fn soft(amount: u64) -> Funding {
    Funding { resource: Resource::Cpu, kind: TicketKind::Soft, amount }
}

fn hard(amount: u64) -> Funding {
    Funding { resource: Resource::Cpu, kind: TicketKind::Hard, amount }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32, user: &str) -> Who {
        let (user, group) = (Some(user.to_owned()), Some("staff".to_owned()));
        Who { uid, gid: 50, user, group }
    }

    #[test]
    fn the_default_gives_each_user_a_currency_and_the_system_a_floor() {
        let policy = FundingPolicy::default();
        let alice = policy.placements(&who(1000, "alice")).expect("managed");
        assert_eq!(alice.levels.len(), 1);
        assert_eq!(alice.levels[0].key, PolicyKey::User(1000));
        assert_eq!(alice.levels[0].name, "alice");
        assert_eq!(alice.levels[0].funding, [soft(1000)]);
        let www = policy.placements(&who(33, "www-data")).expect("managed");
        assert_eq!(www.levels[0].funding, [hard(100)]);
        assert_eq!(policy.placements(&who(65_534, "nobody")), None);
    }

    #[test]
    fn rules_come_first_and_groups_hold_their_users() {
        let policy = FundingPolicy::parse(
            "[users]\none_currency = \"group\"\ncpu = 500\n[[rule]]\nname = \"ci\"\n\
             users = [\"ci-*\"]\nhard = 200\neach_user = true\n",
        )
        .expect("a good policy");
        let runner = policy.placements(&who(1001, "ci-7")).expect("managed");
        assert_eq!(runner.levels[0].key, PolicyKey::Rule("ci".to_owned()));
        assert_eq!(runner.levels[0].funding, [hard(200)]);
        assert_eq!(runner.levels[1].key, PolicyKey::User(1001));
        let alice = policy.placements(&who(1000, "alice")).expect("managed");
        assert_eq!(alice.levels[0].key, PolicyKey::Group(50));
        assert_eq!(alice.levels[0].funding, [soft(500)]);
        assert_eq!(policy.placements(&who(33, "www-data")), None, "no [system] section");
    }

    #[test]
    fn a_bad_policy_says_what_is_wrong() {
        for (text, what) in [
            ("[users]\ncpus = 3", "cpus"),
            ("[system]\nuids = \"9-1\"", "9-1"),
            ("[system]\nfloor = 800\n[[rule]]\nname=\"a\"\nuids=\"5\"\nhard=300", "1200"),
            ("[kernel]\nhard = 1001", "1001"),
            ("[kernel]\nfloor = 1", "floor"),
            ("[rest]\ncpu = 99999999999", "at most"),
            ("[[rule]]\nname=\"a\"\ncpu=1", "matches nobody"),
            ("[[rule]]\nname=\"a\"\nuids=\"5\"", "gives nothing"),
            ("[users]\ncpu = 99999999999", "at most"),
            ("[users", "line 1"),
            ("[[rule]]\nname=\"no name!\"\nuids=\"5\"\ncpu=1", "`no name!` cannot name"),
            ("[[rule]]\nname=\"base\"\nuids=\"5\"\ncpu=1", "`base` cannot name"),
        ] {
            let error = FundingPolicy::parse(text).expect_err(text);
            assert!(error.contains(what), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn the_kernel_has_a_floor_and_the_rest_what_a_user_has() {
        let default = FundingPolicy::default().everybodys();
        assert_eq!(default[0], (Member::Kernel, vec![hard(100)]));
        assert_eq!(default[1], (Member::Rest, vec![soft(1000)]));
        let given = FundingPolicy::parse("[kernel]\ncpu = 5\n[rest]\nhard = 50\ncpu = 7\n")
            .expect("a good policy")
            .everybodys();
        assert_eq!(given[0].1, [soft(5)]);
        assert_eq!(given[1].1, [hard(50), soft(7)]);
    }
}
