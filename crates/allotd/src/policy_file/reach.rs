//! The reach of a funding policy: whose processes it can name. The enforcing process touches nobody else's.

use super::FundingPolicy;
use super::rules::Rule;
use crate::people::Who;
use enforcement::Reach;
use nix::unistd::User;
use std::ops::RangeInclusive;

/// The uids that a policy can name. A rule that names places, and containers, can be about anybody's processes.
pub(super) fn of(policy: &FundingPolicy) -> Reach {
    let FundingPolicy { system, users, containers, people, rule, .. } = policy;
    if containers.managed || containers.by_hand || rule.iter().any(Rule::names_places) {
        return Reach::everybody();
    }
    let mut uids: Vec<RangeInclusive<u32>> = Vec::new();
    // By hand it is all of a kind, whichever uids are managed.
    match (system.by_hand, &system.uids) {
        (false, Some(given)) if system.managed => uids.push(given.0.clone()),
        (by_hand, _) if by_hand || system.managed => uids.extend(people.services()),
        _ => {}
    }
    match (users.by_hand, &users.uids) {
        (false, Some(given)) if users.managed => uids.push(given.0.clone()),
        (by_hand, _) if by_hand || users.managed => uids.extend(people.persons()),
        _ => {}
    }
    uids.extend(rule.iter().filter_map(|rule| Some(rule.uids.as_ref()?.0.clone())));
    let by_name: Vec<&Rule> =
        rule.iter().filter(|rule| !rule.users.is_empty() || !rule.groups.is_empty()).collect();
    if !by_name.is_empty() {
        let local = local_users();
        let named = local.iter().filter(|who| by_name.iter().any(|rule| rule.matches_user(who)));
        uids.extend(named.map(|who| who.uid..=who.uid));
        let names = by_name.iter().flat_map(|rule| &rule.users);
        let known = names.filter_map(|name| User::from_name(name).ok().flatten());
        uids.extend(known.map(|user| user.uid.as_raw()..=user.uid.as_raw()));
        // Users of a directory, who cannot all be listed.
        let is_pattern = |name: &String| name.contains(['*', '?']);
        if by_name.iter().any(|it| !it.groups.is_empty() || it.users.iter().any(is_pattern)) {
            uids.extend(people.beyond());
        }
    }
    Reach::of(uids)
}

/// The users of /etc/passwd, with their groups there and in /etc/group.
fn local_users() -> Vec<Who> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let groups = read("/etc/group");
    let groups: Vec<(&str, u32, &str)> = groups.lines().filter_map(group).collect();
    let who = |line: &str| {
        let mut fields = line.split(':');
        let (name, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        let is_in = |(_, number, members): &&(&str, u32, &str)| {
            *number == gid || members.split(',').any(|member| member == name)
        };
        let of = groups.iter().filter(is_in).map(|(name, ..)| (*name).to_owned());
        Some(Who { uid, gid, user: Some(name.to_owned()), groups: of.collect(), ..Who::default() })
    };
    read("/etc/passwd").lines().filter_map(who).collect()
}

fn group(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.split(':');
    let (name, number) = (fields.next()?, fields.nth(1)?);
    Some((name, number.parse().ok()?, fields.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whom_the_policy_manages_or_lets_manage_by_hand() {
        let reach = |text: &str| of(&FundingPolicy::parse(text).expect("a good policy"));
        let nobody = "[containers]\nmanaged = false\n[system]\nmanaged = false\n";
        let users = "[users]\nuids = \"2000-2999\"\n";
        let only_users = reach(&format!("{nobody}{users}"));
        let within = |reach: &Reach| [0, 33, 2000, 2999, 3000, 70_000].map(|uid| reach.has(uid));
        assert_eq!(within(&only_users), [false, false, true, true, false, false]);
        let by_hand = reach(&format!("{nobody}by_hand = true\n{users}"));
        assert_eq!(within(&by_hand), [true, true, true, true, false, false]);
        assert_eq!(within(&reach(nobody)), [false, false, true, true, true, true]);
        assert_eq!(within(&reach("")), [true; 6], "containers may be anybody's");
        let place = "[[rule]]\nname = \"batch\"\nslices = [\"batch.slice\"]\ncpu = 5\n";
        assert_eq!(within(&reach(&format!("{nobody}{place}"))), [true; 6]);
        let root =
            "[users]\nmanaged = false\n[[rule]]\nname = \"r\"\nusers = [\"root\"]\ncpu = 5\n";
        let named = reach(&format!("{nobody}{root}"));
        assert_eq!(within(&named), [true, false, false, false, false, false]);
    }
}
