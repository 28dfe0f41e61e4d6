//! Persons, services, and users who are neither: by login.defs(5), the name services and
//! the kernel's logins. And where a process lives, for the rules of the funding policy.

use crate::names::Names;
use observe::Surroundings;
use std::ops::RangeInclusive;

/// Users of systemd-homed (systemd.io/UIDS-GIDS).
const HOMED: RangeInclusive<u32> = 60_001..=60_513;
/// Services that systemd gives a user while they run (`DynamicUser=`).
const DYNAMIC_SERVICES: RangeInclusive<u32> = 61_184..=65_519;
/// `nobody`, and the two numbers that mean no user in 16 and 32 bits.
const NOBODY: [u32; 3] = [65_534, 65_535, u32::MAX];
/// Above this are directory services' users (SSSD, FreeIPA), and those of containers.
const FIRST_BEYOND: u32 = 65_536;

/// The user of a process, and the place where it lives.
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
    /// The names of all groups that the user is a member of.
    pub groups: Vec<String>,
    /// The user who logged in, where a login has started it.
    pub login_uid: Option<u32>,
    /// Its cgroup; empty where a user is asked about and no process.
    pub cgroup: String,
    /// Whether its uid is one of another user namespace.
    pub has_own_users: bool,
}

/// The kind of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody who logs in.
    Person,
    /// The machine itself, and what it serves with.
    Service,
    /// Nobody whom this machine knows: a container's user.
    Unknown,
}

/// The uids that this machine gives to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct People {
    first: u32,
    last: u32,
}

impl Default for People {
    /// As login.defs(5) has it where nothing is said.
    fn default() -> Self {
        People { first: 1000, last: 60_000 }
    }
}

impl People {
    /// Reads /etc/login.defs, or the vendor's where there is none.
    pub fn read() -> People {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let text = read("/etc/login.defs").or_else(|| read("/usr/etc/login.defs"));
        People::parse(&text.unwrap_or_default())
    }

    pub(crate) fn parse(text: &str) -> People {
        let default = People::default();
        let value = |name: &str| {
            text.lines().rev().find_map(|line| {
                let mut words = line.split_whitespace();
                (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
            })
        };
        let first = value("UID_MIN").unwrap_or(default.first);
        let last = value("UID_MAX").unwrap_or(default.last);
        if first <= last { People { first, last } } else { default }
    }

    /// The uids of services, whoever the name services know.
    pub fn services(&self) -> [RangeInclusive<u32>; 2] {
        [0..=self.first.saturating_sub(1), DYNAMIC_SERVICES]
    }

    /// The uids that can be a person's: those of this machine, and all that the name services may know.
    pub fn persons(&self) -> [RangeInclusive<u32>; 4] {
        let [between, beyond] = self.beyond();
        [self.first..=self.last, HOMED, between, beyond]
    }

    /// The uids beyond those of this machine, which a directory of users may give.
    pub fn beyond(&self) -> [RangeInclusive<u32>; 2] {
        [self.last.saturating_add(1)..=DYNAMIC_SERVICES.start() - 1, FIRST_BEYOND..=u32::MAX - 1]
    }

    /// Returns the kind of user that a process has. Uids that no range names are people's where the name
    /// services know them, or where they have logged in.
    pub fn kind(&self, who: &Who) -> Kind {
        let uid = who.uid;
        if who.is_elsewhere() || NOBODY.contains(&uid) {
            return Kind::Unknown;
        }
        if (self.first..=self.last).contains(&uid) || HOMED.contains(&uid) {
            return Kind::Person;
        }
        if uid < self.first || DYNAMIC_SERVICES.contains(&uid) {
            let foreign = who.has_own_users;
            return if foreign { Kind::Unknown } else { Kind::Service };
        }
        let known = who.user.is_some() || who.login_uid == Some(uid);
        if known { Kind::Person } else { Kind::Unknown }
    }
}

impl Who {
    /// A user, by the names that the system knows.
    pub fn user(names: &mut Names, uid: u32, gid: u32) -> Who {
        let (user, group) = (names.user(uid), names.group(gid));
        let groups = names.groups_of(uid, gid);
        Who { uid, gid, user, group, groups, ..Who::default() }
    }

    /// A process, of whose user and surroundings the kernel said that. What a user's own container
    /// runs under uids that were lent to that user is the user's.
    pub fn process(names: &mut Names, uid: u32, gid: u32, at: Surroundings) -> Who {
        let lent = uid >= FIRST_BEYOND && names.user(uid).is_none();
        let (uid, gid) = match user_of_slice(&at.cgroup).filter(|_| lent) {
            Some(owner) => (owner, names.gid_of(owner).unwrap_or(gid)),
            None => (uid, gid),
        };
        let Surroundings { login_uid, cgroup, has_own_users } = at;
        Who { login_uid, cgroup, has_own_users, ..Who::user(names, uid, gid) }
    }

    /// The container that it runs in, as `ENGINE:NAME`.
    pub fn container(&self) -> Option<String> {
        let mut parts = self.cgroup.split('/').peekable();
        while let Some(part) = parts.next() {
            if let Some(name) = container_of(part, parts.peek().copied()) {
                return Some(name);
            }
        }
        None
    }

    /// Whether it runs in a container of the machine's, whose uids are not those of this machine's
    /// users. In a container that a user has started, that user's uid is the user.
    pub fn is_elsewhere(&self) -> bool {
        self.container().is_some() && user_of_slice(&self.cgroup) != Some(self.uid)
    }
}

/// The uid of whose slice a cgroup is in. Only the superuser puts anybody there.
fn user_of_slice(cgroup: &str) -> Option<u32> {
    let slice = cgroup.split('/').find_map(|part| part.strip_prefix("user-"))?;
    slice.strip_suffix(".slice")?.parse().ok()
}

/// The container that one directory of a cgroup's path stands for; `below` is the next one.
fn container_of(part: &str, below: Option<&str>) -> Option<String> {
    let scope = part.strip_suffix(".scope").unwrap_or(part);
    let engines = [
        ("docker-", "docker"),
        ("libpod-", "podman"),
        ("crio-", "crio"),
        ("cri-containerd-", "containerd"),
        ("lxc.payload.", "lxc"),
        ("machine-", "machine"),
    ];
    let by_prefix = engines.iter().find_map(|(prefix, engine)| {
        let name = scope.strip_prefix(prefix)?;
        // podman's monitor, which runs outside.
        (!name.is_empty() && !name.starts_with("conmon")).then(|| format!("{engine}:{name}"))
    });
    let nspawn = part.strip_prefix("systemd-nspawn@").and_then(|it| it.strip_suffix(".service"));
    by_prefix.or_else(|| nspawn.map(|name| format!("machine:{name}"))).or_else(|| {
        let engine = ["docker", "lxc"].into_iter().find(|engine| *engine == part)?;
        below.filter(|name| !name.is_empty()).map(|name| format!("{engine}:{name}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(uid: u32, cgroup: &str) -> Who {
        Who { uid, cgroup: cgroup.to_owned(), ..Who::default() }
    }

    fn known(uid: u32) -> Who {
        Who { user: Some("somebody".to_owned()), ..who(uid, "/") }
    }

    #[test]
    fn login_defs_says_where_people_begin() {
        let text = "# UID_MIN 5\nUID_MIN\t\t  500\nUID_MAX 70000 # many\nGID_MIN 7\n";
        let people = People::parse(text);
        assert_eq!(people, People { first: 500, last: 70_000 });
        assert_eq!(people.kind(&who(999, "/")), Kind::Person);
        assert_eq!(people.kind(&who(499, "/")), Kind::Service);
        for broken in ["", "UID_MIN many", "UID_MIN 9\nUID_MAX 8"] {
            assert_eq!(People::parse(broken), People::default(), "{broken}");
        }
    }

    #[test]
    fn people_of_directories_and_homed_are_people_and_services_are_not() {
        let people = People::default();
        for uid in [1000, 60_000, 60_001, 60_513] {
            assert_eq!(people.kind(&who(uid, "/")), Kind::Person, "{uid}");
        }
        for uid in [0, 33, 999, 61_184, 65_519] {
            assert_eq!(people.kind(&who(uid, "/")), Kind::Service, "{uid}");
        }
        // SSSD's and FreeIPA's uids, which the name services know.
        for uid in [100_500, 786_400_001, 1_890_600_003] {
            assert_eq!(people.kind(&known(uid)), Kind::Person, "{uid}");
            assert_eq!(people.kind(&who(uid, "/")), Kind::Unknown, "{uid}");
            let login = Who { login_uid: Some(uid), ..who(uid, "/") };
            assert_eq!(people.kind(&login), Kind::Person, "{uid}");
        }
        for uid in NOBODY {
            assert_eq!(people.kind(&known(uid)), Kind::Unknown, "{uid}");
        }
    }

    #[test]
    fn a_containers_users_are_not_this_machines() {
        let people = People::default();
        let docker = "/system.slice/docker-0123456789ab.scope";
        for uid in [0, 33, 1000] {
            assert_eq!(people.kind(&who(uid, docker)), Kind::Unknown, "{uid}");
        }
        let mapped = Who { has_own_users: true, ..who(0, "/system.slice/x.service") };
        assert_eq!(people.kind(&mapped), Kind::Unknown, "root of another user namespace");
        let sandbox = Who { has_own_users: true, ..who(1000, "/user.slice/user-1000.slice/s") };
        assert_eq!(people.kind(&sandbox), Kind::Person, "a browser's sandbox");
        let own = "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-12.scope/c";
        assert_eq!(people.kind(&who(1000, own)), Kind::Person, "the user's own container");
        assert_eq!(people.kind(&who(1001, own)), Kind::Unknown);
    }

    #[test]
    fn what_a_user_lends_to_a_container_of_theirs_stays_theirs() {
        let at = |cgroup: &str| Surroundings { cgroup: cgroup.to_owned(), ..Default::default() };
        let own = "/user.slice/user-4242.slice/user@4242.service/user.slice/libpod-12.scope";
        let mut names = Names::default();
        assert_eq!(Who::process(&mut names, 200_999, 200_999, at(own)).uid, 4242);
        assert_eq!(Who::process(&mut names, 200_999, 200_999, at("/a")).uid, 200_999);
        assert_eq!(Who::process(&mut names, 33, 33, at(own)).uid, 33, "not lent");
    }

    #[test]
    fn containers_have_names() {
        for (cgroup, name) in [
            ("/system.slice/docker-12ab.scope", Some("docker:12ab")),
            ("/docker/12ab/child", Some("docker:12ab")),
            ("/machine.slice/libpod-12ab.scope/container", Some("podman:12ab")),
            ("/machine.slice/libpod-conmon-12ab.scope", None),
            ("/lxc.payload.web/system.slice", Some("lxc:web")),
            ("/machine.slice/systemd-nspawn@db.service/payload", Some("machine:db")),
            ("/kubepods.slice/pod1.slice/cri-containerd-9f.scope", Some("containerd:9f")),
            ("/system.slice/docker.service", None),
            ("/docker", None),
            ("/", None),
        ] {
            assert_eq!(who(0, cgroup).container().as_deref(), name, "{cgroup}");
        }
    }
}
