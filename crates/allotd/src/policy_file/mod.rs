//! The funding policy: who gets which currency, and how much (paper 1, 5.2: `cid_for_client`).
//!
//! A TOML file, read once at the start. Rules are tried in their order, then `[containers]`,
//! `[system]` and `[users]`; the first that matches decides. Whom none matches is not managed. What
//! a file leaves out is as without a file.

mod amount;
mod reach;
mod rules;

use crate::names::Names;
use crate::people::{People, Who};
use amount::{Others, Share};
use enforcement::Reach;
use ledger::{
    BASE, CurrencyId, Funding, Home, Ledger, Member, Placement, Placements, PolicyKey, Resource,
    TicketKind,
};
use observe::Surroundings;
use rules::{
    CONTAINERS, ContainersRule, Everybodys, Given, Per, ProcessRule, Rule, SystemRule, USER_CPU,
    UsersRule, hard, soft,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Thousandths of the machine for the kernel's threads.
const KERNEL_HARD: u64 = 100;

/// A funding policy file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    /// It cannot be read.
    #[error("cannot read the funding policy {path}: {cause}")]
    Unreadable {
        /// The file's path.
        path: PathBuf,
        /// The system's reason.
        cause: std::io::Error,
    },
    /// It is not what a policy looks like.
    #[error("the funding policy {path} is wrong: {cause}")]
    Malformed {
        /// The file's path.
        path: PathBuf,
        /// The mistake and its place.
        cause: String,
    },
}

/// A funding policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FundingPolicy {
    system: SystemRule,
    users: UsersRule,
    containers: ContainersRule,
    processes: ProcessRule,
    kernel: Everybodys,
    rest: Everybodys,
    rule: Vec<Rule>,
    #[serde(skip)]
    people: People,
    /// Memory that base can promise, in KiB; 0 where that is not known.
    #[serde(skip)]
    memory_kib: u64,
    #[serde(skip)]
    reach: Reach,
}

impl FundingPolicy {
    /// Read a policy. A file that is missing is the default policy. `memory_kib` is what base has of
    /// memory to promise, where that is known.
    ///
    /// # Errors
    /// Where it cannot be read or understood.
    pub fn read(path: &Path, memory_kib: Option<u64>) -> Result<FundingPolicy, PolicyFileError> {
        let malformed = |cause| PolicyFileError::Malformed { path: path.to_owned(), cause };
        let policy = match std::fs::read_to_string(path) {
            Ok(text) => FundingPolicy::parse(&text).map_err(malformed)?,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => FundingPolicy::default(),
            Err(cause) => {
                return Err(PolicyFileError::Unreadable { path: path.to_owned(), cause });
            }
        };
        policy.on_machine(People::read(), memory_kib.unwrap_or(0)).map_err(malformed)
    }

    /// The policy for a machine with these people and so much memory for base to promise.
    pub(crate) fn on_machine(self, people: People, memory_kib: u64) -> Result<Self, String> {
        let mut policy = FundingPolicy { people, memory_kib, ..self };
        policy.check_sums()?;
        policy.reach = reach::of(&policy);
        Ok(policy)
    }

    /// Returns the users whose processes it names, as far as uids tell.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether users may have what starts machine-wide enforcement of disks.
    pub fn lets_users_limit_disks(&self) -> bool {
        self.users.disk_limits
    }

    /// Understand a policy's text. What it leaves out is as in the default policy.
    ///
    /// # Errors
    /// A text of what is wrong with it, and where.
    pub fn parse(text: &str) -> Result<FundingPolicy, String> {
        let policy: FundingPolicy = toml::from_str(text).map_err(|error| error.to_string())?;
        policy.check()?;
        policy.check_sums()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), String> {
        let soft = |what: &str, amount: u64| {
            let fits = amount <= ledger::AMOUNT_MAX;
            let most = ledger::AMOUNT_MAX;
            if fits { Ok(()) } else { Err(format!("{what}: at most {most} tickets")) }
        };
        let cpu = |what: &str, share: Share| match share {
            Share::Tickets(tickets) => soft(what, tickets),
            Share::Part(_) => Ok(()),
            Share::Size(_) => {
                Err(format!("{what}: write tickets, as in 500, or a part, as in \"20%\""))
            }
        };
        soft("[processes] cpu", self.processes.cpu)?;
        cpu("[users] cpu", self.users.cpu)?;
        cpu("[containers] cpu", self.containers.cpu)?;
        for (member, funding) in self.everybodys() {
            for ticket in funding.iter().filter(|ticket| ticket.kind != TicketKind::Hard) {
                soft(&member.to_string(), ticket.amount)?;
            }
        }
        for (what, others) in self.all_others() {
            others.check().map_err(|why| format!("{what}: {why}"))?;
            for ticket in others.funding(0).iter().filter(|it| it.kind == TicketKind::Soft) {
                soft(&what, ticket.amount)?;
            }
        }
        for rule in &self.rule {
            rule.check()?;
            if let Some(share) = rule.cpu {
                cpu(&format!("rule `{}`", rule.name), share)?;
            }
            let same = self.rule.iter().filter(|other| other.name == rule.name).count() > 1;
            if same || [CONTAINERS, "system"].contains(&rule.name.as_str()) {
                return Err(format!("there are two rules named `{}`", rule.name));
            }
        }
        Ok(())
    }

    /// Checks that promises which hold whoever comes can be kept: users' amounts are first come, first
    /// served.
    fn check_sums(&self) -> Result<(), String> {
        let mut sums: BTreeMap<Resource, u64> = BTreeMap::new();
        let cpu = [hard(if self.system.managed { self.system.floor } else { 0 })];
        let everybodys = self.everybodys().into_iter().flat_map(|(_, funding)| funding);
        let rules = self.rule.iter().flat_map(|rule| rule.funding(self.memory_kib));
        let system = self.system.others().funding(self.memory_kib);
        let (containers, _) = self.containers.given(self.memory_kib);
        let all = cpu.into_iter().chain(everybodys).chain(rules).chain(system).chain(containers);
        for ticket in all.filter(|ticket| ticket.kind == TicketKind::Hard) {
            let sum = sums.entry(ticket.resource).or_default();
            *sum = sum.saturating_add(ticket.amount);
        }
        for (resource, sum) in sums {
            let (total, unit) = match resource == Resource::MEMORY {
                true if self.memory_kib == 0 => continue,
                true => (self.memory_kib, "KiB"),
                false => (ledger::HARD_TOTAL, "thousandths"),
            };
            if sum > total {
                return Err(format!(
                    "the hard shares of {resource} add up to {sum} {unit}; {total} are all"
                ));
            }
        }
        Ok(())
    }

    /// Returns what each section gives of the resources besides the CPU.
    fn all_others(&self) -> impl Iterator<Item = (String, Others<'_>)> {
        let sections = [
            ("[system]", self.system.others()),
            ("[users]", self.users.others()),
            ("[containers]", self.containers.others()),
        ];
        let sections = sections.into_iter().map(|(name, others)| (name.to_owned(), others));
        sections
            .chain(self.rule.iter().map(|rule| (format!("rule `{}`", rule.name), rule.others())))
    }

    /// Every resource besides the CPU that it gives anybody or limits.
    pub fn resources(&self) -> Vec<Resource> {
        let of = |others: Others<'_>| {
            let funded = others.funding(0).into_iter().map(|funding| funding.resource);
            funded.chain(others.limits().into_keys()).collect::<Vec<_>>()
        };
        let mut all: Vec<Resource> = self.all_others().flat_map(|(_, others)| of(others)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Says which of the users and groups that its rules name this machine does not know.
    pub fn strangers(&self) -> Vec<String> {
        let of = |rule: &Rule| {
            let name = rule.name.clone();
            rule.strangers().into_iter().map(move |who| {
                format!("rule `{name}` names the {who}, whom this machine does not know")
            })
        };
        self.rule.iter().flat_map(of).collect()
    }

    /// Returns what it gives now to a currency that it keeps below base; `None` where it has that no more.
    fn given(&self, key: &PolicyKey) -> Option<Given> {
        let per = match key {
            PolicyKey::User(_) => Per::User,
            PolicyKey::Group(_) => Per::Group,
            PolicyKey::Rule(name) if name == "system" => {
                return self.system.managed.then(|| self.system.given(self.memory_kib));
            }
            PolicyKey::Rule(name) if name == CONTAINERS => {
                return self.containers.managed.then(|| self.containers.given(self.memory_kib));
            }
            PolicyKey::Rule(name) => {
                let rule = self.rule.iter().find(|rule| rule.name == *name)?;
                return Some((rule.funding(self.memory_kib), rule.others().limits()));
            }
        };
        let is_so = self.users.managed && self.users.one_currency == per;
        is_so.then(|| self.users.given(self.memory_kib))
    }

    /// The first levels that were made by another policy than this one, as this one has them. Where this one does not have
    /// them, they keep their CPU, for there may be processes, and nothing else.
    pub fn changed(&self, ledger: &Ledger) -> Vec<Placement> {
        let changed = |(key, home): (&PolicyKey, &Home)| {
            let issuers: Vec<CurrencyId> =
                ledger.backing(home.currency).map(|(_, ticket)| ticket.issuer).collect();
            if !issuers.is_empty() && !issuers.contains(&BASE) {
                return None;
            }
            let (funding, limits) = self.given(key).unwrap_or_else(|| {
                let cpu = home.given.iter().filter(|it| it.resource == Resource::CPU);
                (cpu.cloned().collect(), BTreeMap::new())
            });
            if funding == home.given && limits == home.limits {
                return None;
            }
            let record = &ledger.currency(home.currency)?.record;
            let (key, name, mode) = (key.clone(), record.name.clone(), record.mode);
            let (owner, group) = (record.owner, record.group);
            Some(Placement { key, name, owner, group, mode, funding, limits })
        };
        let mut levels: Vec<Placement> = ledger.homes().filter_map(changed).collect();
        // Levels that shrink come first: others can have what they give up.
        levels.sort_by_key(|level| ledger.home(&level.key).is_some_and(|home| grows(home, level)));
        levels
    }

    /// Whether it hangs on where a process runs, and not on its user alone, that it is placed there.
    pub fn is_by_place(&self, key: &PolicyKey) -> bool {
        let PolicyKey::Rule(name) = key else { return false };
        let by_place = |rule: &Rule| rule.name == *name && rule.names_places();
        name == CONTAINERS || self.rule.iter().any(by_place)
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
            (Member::Rest, of(&self.rest, soft(USER_CPU))),
        ]
    }

    /// Where a process of this user belongs; `None`: it is not managed.
    pub fn placements(&self, who: &Who) -> Option<Placements> {
        let kind = self.people.kind(who);
        let rule = self.rule.iter().find(|rule| rule.matches(who));
        let levels = rule
            .map(|rule| rule.levels(who, self.memory_kib))
            .or_else(|| self.containers.levels(who, self.memory_kib))
            .or_else(|| self.system.levels(who, kind, self.memory_kib))
            .or_else(|| self.users.levels(who, kind, self.memory_kib))?;
        let process = vec![soft(self.processes.cpu)];
        Some(Placements { levels, process })
    }
}

/// Whether a policy promises a currency more of something than it did.
fn grows(home: &Home, level: &Placement) -> bool {
    let before = |new: &Funding| {
        let same = |old: &&Funding| old.resource == new.resource && old.kind == new.kind;
        home.given.iter().find(same).map_or(0, |old| old.amount)
    };
    let mut hard = level.funding.iter().filter(|it| it.kind == TicketKind::Hard);
    hard.any(|new| new.amount > before(new))
}

/// The path of a process of a user, by the names that the system knows.
pub fn placements(
    policy: &FundingPolicy,
    names: &mut Names,
    uid: u32,
    gid: u32,
    at: Surroundings,
) -> Option<Placements> {
    policy.placements(&Who::process(names, uid, gid, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32, user: &str) -> Who {
        let (user, group) = (Some(user.to_owned()), Some("staff".to_owned()));
        Who { uid, gid: 50, user, group, ..Who::default() }
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
        let www = policy.placements(&who(33, "www-data")).expect("a section left out stays");
        assert_eq!(www.levels[0].funding, [hard(100)]);
    }

    #[test]
    fn a_file_keeps_the_defaults_that_it_does_not_change() {
        let one_rule = "[[rule]]\nname = \"ci\"\nusers = [\"ci\"]\ncpu = 5\n";
        let policy = FundingPolicy::parse(one_rule).expect("a good policy");
        let default = FundingPolicy::default();
        for other in [who(0, "root"), who(33, "www-data"), who(1000, "alice")] {
            assert!(default.placements(&other).is_some());
            assert_eq!(policy.placements(&other), default.placements(&other), "{other:?}");
        }
        let none = "[users]\nmanaged = false\n[system]\nmanaged = false\n";
        let policy = FundingPolicy::parse(&format!("{none}{one_rule}")).expect("a good policy");
        assert_eq!(policy.placements(&who(1000, "alice")), None);
        assert_eq!(policy.placements(&who(0, "root")), None);
        assert!(policy.placements(&who(1001, "ci")).is_some());
    }

    #[test]
    fn members_of_a_group_are_its_members_whichever_group_they_run_with() {
        let text = "[[rule]]\nname = \"labs\"\ngroups = [\"lab-*\"]\ncpu = \"20%\"\n";
        let policy = FundingPolicy::parse(text).expect("a good policy");
        let groups = vec!["staff".to_owned(), "lab-7".to_owned()];
        let member = Who { groups, ..who(1000, "alice") };
        let found = policy.placements(&member).expect("managed");
        assert_eq!(found.levels[0].key, PolicyKey::Rule("labs".to_owned()));
        assert_eq!(found.levels[0].funding, [hard(200)]);
    }

    #[test]
    fn rules_name_places_and_containers_are_no_system_services() {
        let text = "[[rule]]\nname = \"web\"\ncontainers = [\"docker:ab*\"]\ncpu = 7\n\
                    [[rule]]\nname = \"batch\"\nslices = [\"batch.slice\"]\ncpu = 5\n\
                    [[rule]]\nname = \"db\"\ncgroups = [\"/system.slice/postgres*\"]\nhard = 9\n";
        let policy = FundingPolicy::parse(text).expect("a good policy");
        let name = |uid: u32, cgroup: &str| {
            let who = Who { cgroup: cgroup.to_owned(), ..who(uid, "somebody") };
            policy.placements(&who).expect("managed").levels[0].name.clone()
        };
        assert_eq!(name(0, "/system.slice/docker-ab12.scope"), "web");
        assert_eq!(name(0, "/system.slice/docker-cd34.scope"), "containers");
        assert_eq!(name(1000, "/system.slice/docker-cd34.scope"), "containers");
        assert_eq!(name(0, "/batch.slice/night.service"), "batch");
        assert_eq!(name(26, "/system.slice/postgresql.service/w"), "db");
        assert_eq!(name(26, "/system.slice/nginx.service"), "system");
        for (key, by_place) in
            [("web", true), ("batch", true), ("containers", true), ("system", false)]
        {
            assert_eq!(policy.is_by_place(&PolicyKey::Rule(key.to_owned())), by_place, "{key}");
        }
    }

    #[test]
    fn users_have_memory_disks_and_limits() {
        let text = "[users]\nmemory = \"4G\"\ndisk = { sda = 500, sdb = \"20%\" }\n\
                    [users.limits.sda]\nread = \"10M\"\nwrites = 100\n\
                    [[rule]]\nname = \"big\"\nusers = [\"bob\"]\nmemory = \"25%\"\n";
        let mut policy = FundingPolicy::parse(text).expect("a good policy");
        policy.memory_kib = 8 << 20;
        let funding = |resource: &str, kind, amount| {
            let resource = resource.parse().expect("a resource");
            Funding { resource, kind, amount }
        };
        let alice = policy.placements(&who(1000, "alice")).expect("managed");
        let expected = [
            soft(1000),
            funding("memory", TicketKind::Hard, 4 << 20),
            funding("disk:sda", TicketKind::Soft, 500),
            funding("disk:sdb", TicketKind::Hard, 200),
        ];
        assert_eq!(alice.levels[0].funding, expected);
        let bob = policy.placements(&who(1001, "bob")).expect("managed");
        assert_eq!(bob.levels[0].funding, [funding("memory", TicketKind::Hard, 2 << 20)]);
        let limits = &alice.levels[0].limits;
        let limit = limits[&Resource::disk("sda")];
        assert_eq!((limit.read_bytes, limit.writes), (Some(10 << 20), Some(100)));
        assert!(bob.levels[0].limits.is_empty());
        let names: Vec<String> = policy.resources().iter().map(Resource::to_string).collect();
        assert_eq!(names, ["memory", "disk:sda", "disk:sdb"]);
    }

    #[test]
    fn containers_have_memory_disks_and_limits() {
        let text = "[containers]\nmemory = \"25%\"\ndisk = { sda = 5 }\n\
                    [containers.limits.sda]\nread = \"10M\"\n";
        let mut policy = FundingPolicy::parse(text).expect("a good policy");
        policy.memory_kib = 8 << 20;
        let docker = "/system.slice/docker-ab12.scope".to_owned();
        let placed = policy.placements(&Who { cgroup: docker, ..who(0, "root") });
        let level = &placed.expect("managed").levels[0];
        let funding = level.funding.iter().map(|it| (it.resource.to_string(), it.amount));
        let expected = [("cpu", 1000), ("memory", 2 << 20), ("disk:sda", 5)];
        assert!(funding.eq(expected.map(|(resource, amount)| (resource.to_owned(), amount))));
        assert_eq!(level.limits[&Resource::disk("sda")].read_bytes, Some(10 << 20));
        let given = policy.given(&level.key).expect("a changed file changes it");
        assert_eq!(given, (level.funding.clone(), level.limits.clone()));
        // Their promise must be there beside those of others.
        policy.system.memory = Some(Share::Part(800));
        assert!(policy.check_sums().expect_err("105 %").contains("memory"));
    }

    #[test]
    fn amounts_that_are_sure_to_be_too_much_are_refused() {
        let text = "[system]\nmemory = \"5G\"\n[[rule]]\nname = \"a\"\nuids = \"5\"\nmemory = \"4G\"\n\
                    [users]\nmemory = \"6G\"\n";
        let mut policy = FundingPolicy::parse(text).expect("nobody knows how much there is");
        policy.memory_kib = 8 << 20;
        let refused = policy.check_sums().expect_err("9 of 8 GiB");
        assert!(refused.contains("memory add up to 9437184 KiB; 8388608 are all"), "{refused}");
        policy.memory_kib = 9 << 20;
        policy.check_sums().expect("users' amounts are first come, first served");
    }

    #[test]
    fn a_bad_policy_says_what_is_wrong() {
        for (text, what) in [
            ("[users]\ncpus = 3", "cpus"),
            ("[system]\nuids = \"9-1\"", "9-1"),
            ("[system]\nfloor = 800\n[[rule]]\nname=\"a\"\nuids=\"5\"\nhard=300", "1200"),
            ("[kernel]\nhard = 1001", "1101"),
            ("[kernel]\nfloor = 1", "floor"),
            ("[rest]\ncpu = 99999999999", "at most"),
            ("[[rule]]\nname=\"a\"\ncpu=1", "matches nobody"),
            ("[[rule]]\nname=\"a\"\nuids=\"5\"", "gives nothing"),
            ("[users]\nmemory = \"much\"", "`much` is no amount"),
            ("[users]\ncpu = \"4G\"", "[users] cpu: write tickets"),
            ("[users.disk]\nsda = \"4G\"", "sda: write tickets"),
            ("[users.limits.sda]", "limits nothing"),
            ("[users.limits.sda]\nread = 5", "limits on sda"),
            (
                "[system]\ndisk = { sda = \"60%\" }\n[[rule]]\nname=\"a\"\nuids=\"5\"\ndisk = { sda = \"50%\" }",
                "1100",
            ),
            ("[[rule]]\nname=\"containers\"\nuids=\"5\"\ncpu=1", "two rules named `containers`"),
            ("[users]\ncpu = 99999999999", "at most"),
            ("[users", "line 1"),
            ("[[rule]]\nname=\"no name!\"\nuids=\"5\"\ncpu=1", "`no name!` cannot name"),
            ("[[rule]]\nname=\"a\"\nslices=[\"batch\"]\ncpu=1", "`batch` names no slice; write"),
            (
                "[[rule]]\nname=\"a\"\ncontainers=[\"web\"]\ncpu=1",
                "`web` names no container; write",
            ),
            ("[[rule]]\nname=\"a\"\ncgroups=[\"a.slice\"]\ncpu=1", "`a.slice` names no cgroup"),
            ("[[rule]]\nname=\"a\"\ncgroups=[\"/a.slice/\"]\ncpu=1", "`/a.slice/` names no cgroup"),
            ("[[rule]]\nname=\"a\"\nuids=\"5\"\nhard=5\ncpu=\"1%\"", "the CPU twice"),
            ("[[rule]]\nname=\"base\"\nuids=\"5\"\ncpu=1", "`base` cannot name"),
        ] {
            let error = FundingPolicy::parse(text).expect_err(text);
            assert!(error.contains(what), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn rules_for_users_whom_nobody_knows_are_told() {
        let text = "[[rule]]\nname=\"a\"\nusers=[\"root\", \"no such user\", \"nobody-*\"]\n\
                    groups=[\"root\", \"no such group\"]\ncpu=1\n";
        let strangers = FundingPolicy::parse(text).expect("a good policy").strangers();
        let expected = ["user `no such user`", "group `no such group`"];
        let expected = expected
            .map(|who| format!("rule `a` names the {who}, whom this machine does not know"));
        assert_eq!(strangers, expected);
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
