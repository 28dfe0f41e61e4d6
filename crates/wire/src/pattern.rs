//! Patterns of names, as policies have them.

/// Whether a name matches a pattern in which `*` stands for anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, tail)) => name.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_anything() {
        assert!(matches("ci-*", "ci-7") && matches("*", "") && matches("a*c", "abc"));
        assert!(matches("a", "a") && matches("*\u{fc}*", "gr\u{fc}n"));
        assert!(!matches("ci-*", "xci-7") && !matches("a*c", "abd") && !matches("a", "ab"));
    }
}
