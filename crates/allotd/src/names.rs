//! Names of users and groups, asked of the system once each for a while.

use nix::unistd::{Gid, Group, Uid, User};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an answer is good for.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most answers: callers choose what is asked.
const ANSWERS_MAX: usize = 10_000;

/// Remembers names: the system may have to ask a directory server for them, while others wait.
#[derive(Debug)]
pub struct Names {
    users: BTreeMap<u32, Option<(String, u32)>>,
    uids: BTreeMap<String, Option<u32>>,
    groups: BTreeMap<u32, Option<String>>,
    since: Instant,
}

impl Default for Names {
    fn default() -> Self {
        let (users, uids, groups) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Names { users, uids, groups, since: Instant::now() }
    }
}

impl Names {
    /// The name of a user, where there is one.
    pub fn user(&mut self, uid: u32) -> Option<String> {
        self.entry_of(uid).map(|(name, _)| name)
    }

    /// The group of a user by the system's list of users.
    pub fn gid_of(&mut self, uid: u32) -> Option<u32> {
        self.entry_of(uid).map(|(_, gid)| gid)
    }

    /// The name of a group, where there is one.
    pub fn group(&mut self, gid: u32) -> Option<String> {
        self.forget_the_old();
        let ask = || Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name);
        self.groups.entry(gid).or_insert_with(ask).clone()
    }

    /// The uid of a user, by name or number.
    pub fn uid_of(&mut self, user: &str) -> Option<u32> {
        if let Ok(uid) = user.parse() {
            return Some(uid);
        }
        self.forget_the_old();
        let ask = || User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
        *self.uids.entry(user.to_owned()).or_insert_with(ask)
    }

    fn entry_of(&mut self, uid: u32) -> Option<(String, u32)> {
        self.forget_the_old();
        let ask = || {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
            Some((user.name, user.gid.as_raw()))
        };
        self.users.entry(uid).or_insert_with(ask).clone()
    }

    fn forget_the_old(&mut self) {
        let answers = self.users.len() + self.uids.len() + self.groups.len();
        if self.since.elapsed() > REMEMBERED || answers > ANSWERS_MAX {
            *self = Names::default();
        }
    }
}
