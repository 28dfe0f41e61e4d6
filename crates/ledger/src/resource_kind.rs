//! The kinds of resources that a machine shares: what an enforcer registers of each.

use crate::{KindName, Resource, UnknownResource};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A kind of resource, described: how its instances are called, and how amounts are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceKind {
    /// The name.
    pub name: KindName,
    /// The unit in which use is counted, as in `ns` or `bytes`.
    pub unit: Cow<'static, str>,
    /// The word for an instance, as in `DEVICE`, where a machine has several.
    pub instance: Option<Cow<'static, str>>,
    /// What a hard ticket from base is an amount of.
    pub hard: HardAmount,
}

/// The unit of hard tickets from base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HardAmount {
    /// Thousandths of the whole.
    Thousandths,
    /// Memory or the like, in units of so many bytes.
    Size {
        /// Bytes of one ticket.
        bytes: u64,
    },
}

impl HardAmount {
    /// An amount as text: `250/1000`, or `1.5 GiB`.
    pub fn show(&self, amount: u64) -> String {
        match self {
            HardAmount::Thousandths => format!("{amount}/{}", crate::HARD_TOTAL),
            HardAmount::Size { bytes } => size_text(u128::from(amount) * u128::from(*bytes)),
        }
    }
}

/// A size in the greatest unit of which it has at least one, with at most one decimal.
fn size_text(bytes: u128) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = (0..units.len()).rev().find(|power| bytes >> (10 * power) > 0).unwrap_or(0);
    let one = 1 << (10 * power);
    match (bytes % one) * 10 / one {
        0 => format!("{} {}", bytes / one, units[power]),
        tenths => format!("{}.{tenths} {}", bytes / one, units[power]),
    }
}

impl ResourceKind {
    /// CPU time.
    pub fn cpu() -> ResourceKind {
        ResourceKind::shared_by_thousandths(KindName::CPU, "ns", None)
    }

    /// Physical memory. Hard tickets from base are KiB.
    pub fn memory() -> ResourceKind {
        ResourceKind {
            name: KindName::MEMORY,
            unit: "bytes".into(),
            instance: None,
            hard: HardAmount::Size { bytes: 1024 },
        }
    }

    /// Block devices.
    pub fn disk() -> ResourceKind {
        ResourceKind::shared_by_thousandths(KindName::DISK, "ns", Some("DEVICE"))
    }

    /// Network interfaces.
    pub fn net() -> ResourceKind {
        ResourceKind::shared_by_thousandths(KindName::NET, "bytes", Some("INTERFACE"))
    }

    /// A kind whose hard tickets are thousandths everywhere.
    pub fn shared_by_thousandths(
        name: KindName,
        unit: &'static str,
        instance: Option<&'static str>,
    ) -> ResourceKind {
        let (unit, instance) = (unit.into(), instance.map(Cow::Borrowed));
        ResourceKind { name, unit, instance, hard: HardAmount::Thousandths }
    }

    /// How a resource of this kind is written: `cpu`, or `disk:DEVICE`.
    pub fn usage(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{}:{instance}", self.name),
            None => self.name.to_string(),
        }
    }
}

/// The kinds that were registered.
#[derive(Clone, Debug, Default)]
pub struct ResourceKinds(BTreeMap<KindName, ResourceKind>);

impl FromIterator<ResourceKind> for ResourceKinds {
    fn from_iter<I: IntoIterator<Item = ResourceKind>>(kinds: I) -> Self {
        ResourceKinds(kinds.into_iter().map(|kind| (kind.name, kind)).collect())
    }
}

impl ResourceKinds {
    /// The description of a kind.
    pub fn get(&self, name: KindName) -> Option<&ResourceKind> {
        self.0.get(&name)
    }

    /// The names of all kinds, in order.
    pub fn names(&self) -> impl Iterator<Item = KindName> {
        self.0.keys().copied()
    }

    /// All kinds, in order of name.
    pub fn all(&self) -> impl Iterator<Item = &ResourceKind> {
        self.0.values()
    }

    /// The resource that a word names.
    ///
    /// # Errors
    /// When nobody registered its kind, or it lacks an instance, or has one where there are none.
    pub fn parse(&self, word: &str) -> Result<Resource, UnknownResource> {
        let resource = word.parse().ok().filter(|resource: &Resource| {
            let kind = self.get(resource.kind());
            kind.is_some_and(|kind| kind.instance.is_some() == resource.instance().is_some())
        });
        resource.ok_or_else(|| UnknownResource { word: word.to_owned(), usage: self.usage() })
    }

    /// What can be written, as a person would list it.
    fn usage(&self) -> String {
        let all: Vec<String> = self.0.values().map(ResourceKind::usage).collect();
        match all.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "none: nothing is shared here".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> ResourceKinds {
        use ResourceKind as It;
        [It::net(), It::disk(), It::cpu(), It::memory()].into_iter().collect()
    }

    #[test]
    fn only_what_is_registered_is_known() {
        let token =
            ResourceKind::shared_by_thousandths(KindName::literal("token"), "tokens", Some("NAME"));
        for word in ["cpu", "memory", "disk:sda", "net:eth0"] {
            assert_eq!(all().parse(word).expect(word).to_string(), word);
        }
        for word in ["gpu", "token:licences", "cpu:0", "disk", "net", "memory:x", "Cpu", ""] {
            assert_eq!(
                all().parse(word).expect_err(word).to_string(),
                format!(
                    "`{word}` names no resource; use cpu, memory, disk:DEVICE or net:INTERFACE"
                )
            );
        }
        let with_tokens: ResourceKinds = all().0.into_values().chain([token]).collect();
        assert!(with_tokens.parse("token:licences").is_ok());
        assert!(with_tokens.parse("token").is_err());
    }

    #[test]
    fn amounts_are_shown_in_their_unit() {
        assert_eq!(ResourceKind::cpu().hard.show(250), "250/1000");
        let memory = ResourceKind::memory().hard;
        for (kib, text) in [(0, "0 B"), (1, "1 KiB"), (1 << 20, "1 GiB"), (3 << 19, "1.5 GiB")] {
            assert_eq!(memory.show(kib), text);
        }
    }

    #[test]
    fn a_description_crosses_a_process_boundary() {
        for kind in all().0.into_values() {
            let json = serde_json::to_string(&kind).expect("plain data");
            assert_eq!(serde_json::from_str::<ResourceKind>(&json).expect("plain data"), kind);
        }
    }
}
