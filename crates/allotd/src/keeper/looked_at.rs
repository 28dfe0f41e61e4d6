//! Looks at the machine for one request: each resource is looked at once, in however many operations it is named.

use ledger::Resource;
use std::collections::BTreeMap;

/// The results of the looks at the machine for one request.
#[derive(Debug, Default)]
pub(super) struct LookedAt {
    /// Reasons why resources are not there.
    pub missing: Memo,
    /// Reasons why tickets of resources have no effect.
    pub without_effect: Memo,
}

/// Answers to one question about resources; `None` where nothing is the matter.
#[derive(Debug, Default)]
pub(super) struct Memo(BTreeMap<Resource, Option<String>>);

impl Memo {
    /// Returns what `look` said of a resource when it was first asked.
    pub fn look_at(
        &mut self,
        resource: &Resource,
        look: impl FnOnce(&Resource) -> Option<String>,
    ) -> Option<String> {
        self.0.entry(resource.clone()).or_insert_with(|| look(resource)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_is_looked_at_once() {
        let mut memo = Memo::default();
        let mut looked = Vec::new();
        let [one, other] = ["sda", "sdb"].map(Resource::disk);
        for resource in [&one, &one, &other, &one, &other] {
            let said = memo.look_at(resource, |resource| {
                looked.push(resource.clone());
                (*resource == other).then(|| format!("{resource} is not there"))
            });
            assert_eq!(said.is_some(), *resource == other);
        }
        assert_eq!(looked, [one, other]);
    }
}
