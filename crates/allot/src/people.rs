//! Users and groups by name or number.

use crate::error::CliError;
use nix::unistd::{Gid, Group, Uid, User};

/// The uid of a user, given by name or number.
pub fn uid(user: &str) -> Result<u32, CliError> {
    match User::from_name(user) {
        Ok(Some(found)) => Ok(found.uid.as_raw()),
        Ok(None) => number(user, "uid").ok_or_else(|| {
            CliError::Unknown(format!(
                "there is no user `{user}` on this machine; give a name that `id` knows, or a uid"
            ))
        }),
        Err(error) => {
            Err(CliError::Failed(format!("the user `{user}` cannot be looked up: {error}")))
        }
    }
}

/// The gid of a group, given by name or number.
pub fn gid(group: &str) -> Result<u32, CliError> {
    match Group::from_name(group) {
        Ok(Some(found)) => Ok(found.gid.as_raw()),
        Ok(None) => number(group, "gid").ok_or_else(|| {
            CliError::Unknown(format!(
                "there is no group `{group}` on this machine; give a name that `getent group` \
                 knows, or a gid"
            ))
        }),
        Err(error) => {
            Err(CliError::Failed(format!("the group `{group}` cannot be looked up: {error}")))
        }
    }
}

/// `12` or `uid:12`; the largest number means "nobody in particular" to the kernel and is none.
fn number(text: &str, prefix: &str) -> Option<u32> {
    let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text);
    digits.parse().ok().filter(|&id| id != u32::MAX)
}

/// A uid's name, else the number.
pub fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// A gid's name, else the number.
pub fn group_name(gid: u32) -> String {
    match Group::from_gid(Gid::from_raw(gid)) {
        Ok(Some(group)) => group.name,
        _ => gid.to_string(),
    }
}

/// `USER`, `USER:GROUP` or `:GROUP`, as chown(1) takes them.
pub fn owner_and_group(text: &str) -> Result<(Option<u32>, Option<u32>), CliError> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let owner = if user.is_empty() { None } else { Some(uid(user)?) };
    let group = match group {
        None | Some("") => None,
        Some(group) => Some(gid(group)?),
    };
    if owner.is_none() && group.is_none() {
        return Err(CliError::Usage(format!(
            "`{text}` names nobody; write USER, USER:GROUP or :GROUP"
        )));
    }
    Ok((owner, group))
}

/// Whom rights are granted to, as allotd writes it (`uid:1000`, `gid:100`, `pid:4711`), from
/// `paul`, `user:paul`, `uid:1000`, `group:staff`, `gid:100` or `pid:4711`.
pub fn subject(text: &str) -> Result<String, CliError> {
    match text.split_once(':') {
        None => Ok(format!("uid:{}", uid(text)?)),
        Some(("user" | "uid", user)) => Ok(format!("uid:{}", uid(user)?)),
        Some(("group" | "gid", group)) => Ok(format!("gid:{}", gid(group)?)),
        Some(("pid", process)) => match crate::numbers::pid(process) {
            Ok(pid) => Ok(format!("pid:{pid}")),
            Err(why) => Err(CliError::Usage(format!("`{text}`: {why}"))),
        },
        Some(_) => Err(CliError::Usage(format!(
            "`{text}` names nobody; write USER, user:USER, group:GROUP or pid:PID"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_by_name_and_number() {
        assert_eq!(uid("root").unwrap(), 0);
        assert_eq!(uid("0").unwrap(), 0);
        assert_eq!(uid("123456").unwrap(), 123_456);
        assert_eq!(gid("root").unwrap(), 0);
        assert!(uid("no-such-user-here").unwrap_err().to_string().contains("no-such-user-here"));
        assert!(gid("no-such-group-here").is_err());
        assert!(uid("-1").is_err());
        assert!(uid("4294967295").is_err(), "chown's `leave as it is` is nobody");
    }

    #[test]
    fn owners() {
        assert_eq!(owner_and_group("root").unwrap(), (Some(0), None));
        assert_eq!(owner_and_group("7:8").unwrap(), (Some(7), Some(8)));
        assert_eq!(owner_and_group(":root").unwrap(), (None, Some(0)));
        assert_eq!(owner_and_group("").unwrap_err().status(), crate::error::USAGE);
        assert!(owner_and_group(":").is_err());
    }

    #[test]
    fn subjects() {
        assert_eq!(subject("root").unwrap(), "uid:0");
        assert_eq!(subject("user:root").unwrap(), "uid:0");
        assert_eq!(subject("uid:12").unwrap(), "uid:12");
        assert_eq!(subject("group:root").unwrap(), "gid:0");
        assert_eq!(subject("pid:12").unwrap(), "pid:12");
        assert!(subject("pid:x").is_err());
        assert!(subject("planet:mars").is_err());
    }
}
