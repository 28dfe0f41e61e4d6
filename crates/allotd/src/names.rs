//! Names of users and groups, asked of the system once each.

use nix::unistd::{Gid, Group, Uid, User};
use std::collections::BTreeMap;

/// Remembers names: the system may have to ask a directory server for them.
#[derive(Debug, Default)]
pub struct Names {
    users: BTreeMap<u32, Option<String>>,
    groups: BTreeMap<u32, Option<String>>,
}

impl Names {
    /// The name of a user, where there is one.
    pub fn user(&mut self, uid: u32) -> Option<String> {
        let ask = || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
        self.users.entry(uid).or_insert_with(ask).clone()
    }

    /// The name of a group, where there is one.
    pub fn group(&mut self, gid: u32) -> Option<String> {
        let ask = || Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name);
        self.groups.entry(gid).or_insert_with(ask).clone()
    }
}

/// The uid of a user, by name or number.
pub fn uid_of(user: &str) -> Option<u32> {
    user.parse().ok().or_else(|| User::from_name(user).ok().flatten().map(|user| user.uid.as_raw()))
}
