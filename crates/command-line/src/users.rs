//! Users and groups by name or number.

use crate::error::CliError;

/// The uid of the caller.
pub fn own_uid() -> u32 {
    rustix::process::getuid().as_raw()
}

/// The uid of a user, given by name or number.
pub fn uid(user: &str) -> Result<u32, CliError> {
    let found = uzers::get_user_by_name(user).map(|found| found.uid());
    found.or_else(|| number(user, "uid")).ok_or_else(|| {
        CliError::Unknown(format!(
            "there is no user `{user}` on this machine; give a name that `id` knows, or a uid"
        ))
    })
}

/// The gid of a group, given by name or number.
pub fn gid(group: &str) -> Result<u32, CliError> {
    let found = uzers::get_group_by_name(group).map(|found| found.gid());
    found.or_else(|| number(group, "gid")).ok_or_else(|| {
        CliError::Unknown(format!(
            "there is no group `{group}` on this machine; give a name that `getent group` knows, \
             or a gid"
        ))
    })
}

/// Parses `12` or `uid:12`. The largest number means "nobody in particular" to the kernel, and is refused.
fn number(text: &str, prefix: &str) -> Option<u32> {
    let digits = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text);
    digits.parse().ok().filter(|&id| id != u32::MAX)
}

/// A uid's name, else the number.
pub fn user_name(uid: u32) -> String {
    let user = uzers::get_user_by_uid(uid);
    user.map_or_else(|| uid.to_string(), |user| user.name().to_string_lossy().into_owned())
}

/// A gid's name, else the number.
pub fn group_name(gid: u32) -> String {
    let group = uzers::get_group_by_gid(gid);
    group.map_or_else(|| gid.to_string(), |group| group.name().to_string_lossy().into_owned())
}

/// Parses `USER`, `USER:GROUP` or `:GROUP`, as chown(1) does.
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

/// Parses the subject of a grant into allotd's form (`uid:1000`, `gid:100`, `pid:4711`), from
/// `paul`, `user:paul`, `uid:1000`, `group:staff`, `gid:100` or `pid:4711`.
pub fn subject(text: &str) -> Result<String, CliError> {
    match text.split_once(':') {
        None => Ok(format!("uid:{}", uid(text)?)),
        Some(("user" | "uid", user)) => Ok(format!("uid:{}", uid(user)?)),
        Some(("group" | "gid", group)) => Ok(format!("gid:{}", gid(group)?)),
        Some(("pid", process)) => match crate::argument_parsing::pid(process) {
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
