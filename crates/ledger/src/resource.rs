//! Resources: a kind, and one instance of it where a machine has several.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest name of a kind of resource, in bytes.
pub const KIND_LEN_MAX: usize = 16;
/// The longest name of an instance, in bytes.
pub const INSTANCE_LEN_MAX: usize = 32;

/// The name of a kind of resource: a letter, then letters, digits and `-`, all of them small, at
/// most [`KIND_LEN_MAX`] bytes. It is held in place, because the ledger compares names on every
/// operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KindName([u8; KIND_LEN_MAX]);

impl KindName {
    /// CPU time.
    pub const CPU: KindName = KindName::literal("cpu");
    /// Physical memory.
    pub const MEMORY: KindName = KindName::literal("memory");
    /// The bandwidth of block devices.
    pub const DISK: KindName = KindName::literal("disk");
    /// The bandwidth of network interfaces.
    pub const NET: KindName = KindName::literal("net");

    /// The kinds that come before all others, in this order. Journals were written in it.
    const FIRST: [KindName; 4] = [KindName::CPU, KindName::MEMORY, KindName::DISK, KindName::NET];

    /// A name that is known to be one.
    ///
    /// # Panics
    /// If it is none; in a constant, that does not compile.
    pub const fn literal(name: &str) -> KindName {
        match KindName::parse(name) {
            Some(name) => name,
            None => panic!("not the name of a kind of resource"),
        }
    }

    const fn parse(name: &str) -> Option<KindName> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > KIND_LEN_MAX || !bytes[0].is_ascii_lowercase() {
            return None;
        }
        let mut held = [0; KIND_LEN_MAX];
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if !(byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
                return None;
            }
            held[at] = byte;
            at += 1;
        }
        Some(KindName(held))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(KIND_LEN_MAX);
        // Invariant: only ASCII is ever put in.
        std::str::from_utf8(&self.0[..length]).expect("names of kinds are ASCII")
    }

    fn rank(&self) -> usize {
        KindName::FIRST.iter().position(|first| first == self).unwrap_or(KindName::FIRST.len())
    }
}

impl PartialOrd for KindName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KindName {
    /// `cpu`, `memory`, `disk`, `net`, then all others by their letters.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self == other {
            return std::cmp::Ordering::Equal;
        }
        self.rank().cmp(&other.rank()).then_with(|| self.0.cmp(&other.0))
    }
}

/// A word that cannot name a kind of resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name a kind of resource: use 1 to {KIND_LEN_MAX} of a-z 0-9 -, a letter first"
)]
pub struct BadKindName(pub String);

impl TryFrom<String> for KindName {
    type Error = BadKindName;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        KindName::parse(&word).ok_or(BadKindName(word))
    }
}

impl From<KindName> for String {
    fn from(name: KindName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A resource that tickets are specific to (paper 1, 3.1): a ticket for one never competes
/// for another. Written `cpu`, or `disk:sda` where the kind has instances.
///
/// The ledger knows what a resource is called, not which there are: the daemon refuses kinds that
/// nobody enforces ([`ResourceKinds`](crate::ResourceKinds)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resource {
    kind: KindName,
    instance: Option<Box<str>>,
}

impl Resource {
    /// CPU time.
    pub const CPU: Resource = Resource::of(KindName::CPU);
    /// Physical memory.
    pub const MEMORY: Resource = Resource::of(KindName::MEMORY);

    /// The resource of a kind without instances.
    pub const fn of(kind: KindName) -> Resource {
        Resource { kind, instance: None }
    }

    /// An instance of a kind, by a name that the kernel or an enforcer gives.
    pub fn named(kind: KindName, instance: impl Into<Box<str>>) -> Resource {
        Resource { kind, instance: Some(instance.into()) }
    }

    /// The bandwidth of one block device, by its kernel name (`sda`).
    pub fn disk(device: impl Into<Box<str>>) -> Resource {
        Resource::named(KindName::DISK, device)
    }

    /// The bandwidth of one network interface, by its name (`eth0`).
    pub fn net(interface: impl Into<Box<str>>) -> Resource {
        Resource::named(KindName::NET, interface)
    }

    /// The kind.
    pub fn kind(&self) -> KindName {
        self.kind
    }

    /// The instance, where the kind has several.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// The device, of a disk.
    pub fn disk_name(&self) -> Option<&str> {
        self.instance().filter(|_| self.kind == KindName::DISK)
    }

    /// Whether base's hard tickets are an amount, of what [`Ledger::memory_kib`] says there is,
    /// instead of thousandths of the whole (paper 1, 5.4).
    ///
    /// [`Ledger::memory_kib`]: crate::Ledger::memory_kib
    pub fn is_amount(&self) -> bool {
        *self == Resource::MEMORY
    }

    /// Whether a currency can have a hard cap on it ([`DiskLimit`](crate::DiskLimit)).
    pub fn has_limits(&self) -> bool {
        self.disk_name().is_some()
    }
}

/// A word that names no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` names no resource; use {usage}")]
pub struct UnknownResource {
    /// The word.
    pub word: String,
    /// What can be written instead.
    pub usage: String,
}

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let is_instance = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            !name.is_empty() && name.len() <= INSTANCE_LEN_MAX && name.chars().all(plain)
        };
        let resource = match word.split_once(':') {
            None => KindName::parse(word).map(Resource::of),
            Some((kind, name)) => KindName::parse(kind)
                .filter(|_| is_instance(name))
                .map(|kind| Resource::named(kind, name)),
        };
        resource.ok_or_else(|| UnknownResource {
            word: word.to_owned(),
            usage: "KIND or KIND:INSTANCE, as in cpu or disk:sda".to_owned(),
        })
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        match &self.instance {
            Some(instance) => write!(f, ":{instance}"),
            None => Ok(()),
        }
    }
}

impl TryFrom<String> for Resource {
    type Error = UnknownResource;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        word.parse()
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> Self {
        resource.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for word in ["cpu", "memory", "disk:sda", "net:eth0", "token:licences", "gpu-2", "a:A._-9"]
        {
            let resource: Resource = word.parse().expect(word);
            assert_eq!(resource.to_string(), word);
            let json = serde_json::to_string(&resource).expect("text");
            assert_eq!(json, format!("\"{word}\""));
            assert_eq!(serde_json::from_str::<Resource>(&json).expect("text"), resource);
        }
        let long = "k".repeat(KIND_LEN_MAX + 1);
        let long_instance = format!("disk:{}", "d".repeat(INSTANCE_LEN_MAX + 1));
        for word in ["", ":", "cpu:", ":sda", "CPU", "2d", "-x", "a b", "disk:a/b", "disk:a:b"] {
            assert!(word.parse::<Resource>().is_err(), "{word}");
        }
        assert!(long.parse::<Resource>().is_err());
        assert!(long[1..].parse::<Resource>().is_ok());
        assert!(long_instance.parse::<Resource>().is_err());
    }

    #[test]
    fn the_order_of_journals() {
        let words = [
            "cpu", "memory", "disk:sda", "disk:sdb", "net:eth0", "net:lo", "bus", "gpu:0", "token",
            "token:a",
        ];
        let resources: Vec<Resource> = words.iter().map(|it| it.parse().expect("good")).collect();
        let mut sorted = resources.clone();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, resources);
    }

    #[test]
    fn what_is_peculiar() {
        assert!(Resource::MEMORY.is_amount() && !Resource::CPU.is_amount());
        assert!(Resource::disk("sda").has_limits() && !Resource::net("eth0").has_limits());
        assert_eq!(Resource::disk("sda").disk_name(), Some("sda"));
        assert_eq!(Resource::net("eth0").disk_name(), None);
    }
}
