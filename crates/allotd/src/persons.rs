//! The person behind a uid: shadow's `/etc/subuid` gives users ranges of uids for their containers.

use ledger::Persons;
use nix::unistd::User;
use std::ops::RangeInclusive;
use std::path::Path;

/// Reads the ranges of this machine. A file that is not there gives nobody any.
pub fn of_this_machine() -> Persons {
    let path = Path::new("/etc/subuid");
    match std::fs::read_to_string(path) {
        Ok(text) => Persons::of_ranges(ranges(&text, uid_of)),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(
                    "subordinate uids count as persons of their own: {}: {error}",
                    path.display()
                );
            }
            Persons::default()
        }
    }
}

/// The sources of subordinate uids that `/etc/nsswitch.conf` names besides the file. They answer for a user who is named
/// and have no list of users, so the ranges that they give cannot be known from a uid.
pub fn sources_not_read() -> Vec<String> {
    sources_besides_files(&std::fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default())
}

fn sources_besides_files(text: &str) -> Vec<String> {
    let without_comment = |line: &str| line.split('#').next().unwrap_or_default().to_owned();
    let lines = text.lines().map(without_comment);
    let subid =
        lines.filter_map(|line| line.trim().strip_prefix("subid:").map(str::to_owned)).next();
    let words = subid.unwrap_or_default();
    // In brackets is what to do with an answer.
    let sources = words.split_whitespace().filter(|word| !word.starts_with('['));
    sources.filter(|source| *source != "files").map(str::to_owned).collect()
}

fn uid_of(name: &str) -> Option<u32> {
    let by_name = || Some(User::from_name(name).ok()??.uid.as_raw());
    name.parse().ok().or_else(by_name)
}

/// Lines of `USER:FIRST:COUNT`, USER a name or a uid. Lines that are none are left out, as shadow does.
pub(crate) fn ranges(
    text: &str,
    uid_of: impl Fn(&str) -> Option<u32>,
) -> Vec<(RangeInclusive<u32>, u32)> {
    let range = |line: &str| {
        let mut fields = line.trim().splitn(3, ':');
        let owner = uid_of(fields.next()?)?;
        let first: u32 = fields.next()?.parse().ok()?;
        let count: u32 = fields.next()?.parse().ok()?;
        let last = first.checked_add(count.checked_sub(1)?)?;
        Some((first..=last, owner))
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sources_of_ranges_are_told() {
        for (text, sources) in [
            ("passwd: files\n", vec![]),
            ("subid: files # sss\n", vec![]),
            ("#subid: sss\nsubid:\tfiles [NOTFOUND=continue] sss\n", vec!["sss"]),
            (" subid: ldap\n", vec!["ldap"]),
        ] {
            assert_eq!(sources_besides_files(text), sources, "{text}");
        }
    }

    #[test]
    fn lines_of_shadow_are_read_and_others_left_out() {
        let text = "alice:100000:65536\n1001:165536:65536\n# nothing\nnobody-such:1:2\nalice:1:0\n\
                    alice:4294967295:2\nalice:231072:10:more\nbob:5\n";
        let uid_of = |name: &str| name.parse().ok().or((name == "alice").then_some(1000));
        assert_eq!(ranges(text, uid_of), [(100_000..=165_535, 1000), (165_536..=231_071, 1001)]);
    }
}
