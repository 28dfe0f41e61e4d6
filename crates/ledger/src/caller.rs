//! Those who ask, and those about whom.

use crate::{Member, ProcessIdentity};
use serde::{Deserialize, Serialize};

/// A caller, as the kernel names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary group ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<u32>,
    /// The calling process, where rights granted to a process may matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

/// On whose authority something is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authority {
    /// The daemon itself, reporting what it observed.
    System,
    /// Somebody who asked.
    Caller(Caller),
}

/// Somebody who is to become a client, or a member of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewClient {
    /// Who.
    #[serde(flatten)]
    pub member: Member,
    /// The owner's uid, as observed: the real uid of a process (a thread's, its process's), the
    /// owner of a cgroup's directory.
    pub uid: u32,
    /// The gid, likewise.
    pub gid: u32,
}

impl NewClient {
    /// A process and whose it is.
    pub fn process(process: ProcessIdentity, uid: u32, gid: u32) -> NewClient {
        NewClient { member: Member::Process(process), uid, gid }
    }
}
