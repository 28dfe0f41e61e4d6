//! What is shared.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A resource that tickets are specific to (paper 1, 3.1): a ticket for one never competes
/// for another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Resource {
    /// CPU time.
    Cpu,
    /// Physical memory.
    Memory,
    /// The bandwidth of one block device, by its kernel name (`sda`).
    Disk(String),
    /// The bandwidth of one network interface, by its name (`eth0`).
    Net(String),
}

/// A word that names no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no resource; use cpu, memory, disk:DEVICE or net:INTERFACE")]
pub struct UnknownResource(pub String);

impl FromStr for Resource {
    type Err = UnknownResource;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let named = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            (!name.is_empty() && name.len() <= 32 && name.chars().all(plain))
                .then(|| name.to_owned())
        };
        match word.split_once(':') {
            None if word == "cpu" => Some(Resource::Cpu),
            None if word == "memory" => Some(Resource::Memory),
            Some(("disk", device)) => named(device).map(Resource::Disk),
            Some(("net", interface)) => named(interface).map(Resource::Net),
            _ => None,
        }
        .ok_or_else(|| UnknownResource(word.to_owned()))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Cpu => f.write_str("cpu"),
            Resource::Memory => f.write_str("memory"),
            Resource::Disk(device) => write!(f, "disk:{device}"),
            Resource::Net(interface) => write!(f, "net:{interface}"),
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
