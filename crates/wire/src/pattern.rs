//! Patterns of names, as policies have them.

/// Whether a name matches a pattern in which `*` stands for anything. O(pattern · name).
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let (middle, last) = tail.rsplit_once('*').unwrap_or(("", tail));
    let Some(rest) = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    // Where a part is found first, there is most room for those after it.
    let mut parts = middle.split('*');
    parts.try_fold(rest, |rest, part| Some(&rest[rest.find(part)? + part.len()..])).is_some()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("ci-*", "ci-7") && matches("*", "") && matches("a*c", "abc"));
        assert!(matches("a", "a") && matches("*\u{fc}*", "gr\u{fc}n") && matches("a**b*c", "abc"));
        assert!(!matches("ci-*", "xci-7") && !matches("a*c", "abd") && !matches("a", "ab"));
        assert!(!matches("ab*ba", "aba") && !matches("*a*a*", "a"), "no letter counts twice");
    }

    #[test]
    fn many_stars_take_no_longer_than_few() {
        let (pattern, name) = ("a*".repeat(100) + "b", "a".repeat(1000));
        assert!(!matches(&pattern, &name) && matches(&pattern, &(name + "b")));
    }
}
