//! Members: processes, threads and cgroups that consume as part of a client.

use super::Operation;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{CurrencyId, NewClient, Part, Refusal, Rights};
use serde::{Deserialize, Serialize};

family! {
    /// Who consumes as part of which client.
    MembershipOperation as Membership {
        "join" => Join,
        "leave" => Leave,
    }
}

/// Lets a process, a thread or a cgroup consume as part of a client from now on (paper 2, 2.5:
/// tags and `chcpures`), wherever it was. The caller's own (or superuser). To use a client's share
/// is to spend its tickets, so the caller must own the client, or have `i` on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    pub member: NewClient,
    pub client: CurrencyId,
}

impl Operation for Join {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.own_member(&self.member)?;
        let member = self.member.member;
        if member.outlives_boot() {
            broker.superuser("move the kernel's threads, or the processes that nobody manages")?;
        }
        if broker.ledger.founded_by(&member) == Some(self.client) {
            let what = "join the client that it founded; let it leave the one that it has joined";
            return Err(Refusal::BadMember { member, what });
        }
        let client = broker.client(self.client)?;
        broker.owner_or(client, Rights::ISSUE)?;
        let joined = broker.ledger.joined_by(&member);
        let before = joined.and_then(|id| broker.ledger.currency(id)).map(|it| it.record.owner);
        let more = usize::from(member.process().is_none());
        broker.quota_of_moved(before, client.record.owner, Part::Member, more)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.join(self.member.member, Some(self.client));
    }

    fn describe(&self) -> String {
        format!("{} joined client {}", self.member.member.short(), self.client)
    }
}

/// Undoes [`Join`]: the member is where it would be without. The member's owner, or `c` on the
/// client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leave {
    pub member: NewClient,
}

impl Operation for Leave {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let member = self.member.member;
        let joined = broker.ledger.joined_by(&member).ok_or(Refusal::NotJoined(member))?;
        if broker.rights(broker.currency(joined)?).contain(Rights::CHANGE) {
            return Ok(());
        }
        broker.own_member(&self.member)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.join(self.member.member, None);
    }

    fn describe(&self) -> String {
        format!("{} is its own again", self.member.member.short())
    }
}
