//! Clients: taken up, let go, and how they compete.

use super::Operation;
use super::placement::in_range_of_base;
use crate::broker::Broker;
use crate::ledger::Lift;
use crate::writer::Writer;
use crate::{
    BACKERS_MAX, BASE, Class, CurrencyId, CurrencyKind, Funding, Member, NewClient, Refusal, Rights,
};
use serde::{Deserialize, Serialize};

family! {
    /// What is done to clients.
    ClientOperation as Client {
        "adopt" => Adopt,
        "release" => Release,
        "set_class" => SetClass,
        "ensure" => Ensure,
    }
}

/// Makes a process, a thread or a cgroup a client with tickets from `issuer`. The caller's own
/// (or superuser); needs `i` on the issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    pub client: NewClient,
    pub issuer: CurrencyId,
    /// Nothing leaves the client frozen.
    pub funding: Vec<Funding>,
}

impl Operation for Adopt {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Adopt { client, issuer, funding } = self;
        broker.own_member(client)?;
        broker.particular(client.member, "be adopted; the daemon makes it a client")?;
        broker.not_yet_client(client)?;
        let issuer = broker.issuer(*issuer)?;
        broker.must_have(issuer, Rights::ISSUE)?;
        if funding.len() > BACKERS_MAX {
            return Err(Refusal::TooManyBackers(broker.ledger.fresh_currency()));
        }
        broker.quota_of_client(client, funding.len())?;
        if broker.ledger.lift(issuer.id, None) == Lift::TooDeep {
            return Err(Refusal::TooDeep(broker.ledger.fresh_currency()));
        }
        funding.iter().try_for_each(|funding| broker.room(issuer, funding, 0))
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let id = writer.new_client(self.client, false, Class::Host);
        self.funding.iter().for_each(|funding| writer.fund(id, self.issuer, funding));
    }

    fn describe(&self) -> String {
        let list: Vec<String> = self.funding.iter().map(Funding::to_string).collect();
        let (member, list) = (self.client.member.short(), list.join(", "));
        format!("{member} adopted by {} with {list}", self.issuer)
    }
}

/// Manages a client no longer; its members are again where they belong. Needs `c` on it; superuser
/// where it is the client of a process that the policy names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub client: CurrencyId,
    /// The policy names the user whose process founded it, as looked up now: how it became a client
    /// does not matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
}

impl Operation for Release {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let currency = broker.client(self.client)?;
        if self.named && currency.process().is_some() {
            broker.superuser("release a process that the funding policy names")?;
        }
        broker.must_have(currency, Rights::CHANGE)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.destroy(self.client);
    }

    fn describe(&self) -> String {
        format!("client {} released", self.client)
    }
}

/// Lets a client compete as a host or as a guest (paper 4). Owner, or `c` on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetClass {
    pub client: CurrencyId,
    pub class: Class,
}

impl Operation for SetClass {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.owner_or(broker.client(self.client)?, Rights::CHANGE)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.edit(self.client, |record| {
            if let CurrencyKind::Client { class, .. } = &mut record.kind {
                *class = self.class;
            }
        });
    }

    fn describe(&self) -> String {
        match self.class {
            Class::Host => format!("client {} competes", self.client),
            Class::Guest => format!("client {} is a guest", self.client),
        }
    }
}

/// Sees that the kernel's threads, or the processes that no other member covers, are a client
/// funded from base like anyone. Makes the client where it is missing, and else leaves it as it
/// is. The system, or the superuser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ensure {
    /// [`Member::Kernel`] or [`Member::Rest`].
    #[serde(flatten)]
    pub member: Member,
    /// Base tickets of a new client.
    pub funding: Vec<Funding>,
}

impl Operation for Ensure {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.superuser("fund the kernel's threads, or the processes that nobody manages")?;
        let member = self.member;
        if !member.outlives_boot() {
            return Err(Refusal::BadMember { member, what: "be ensured; it can be adopted" });
        }
        if self.funding.iter().all(in_range_of_base) {
            return Ok(());
        }
        let why = "its amounts are out of range".to_owned();
        Err(Refusal::BadPlacement { name: member.to_string(), why })
    }

    fn apply(self, writer: &mut Writer<'_>) {
        if writer.ledger.founded_by(&self.member).is_some() {
            return;
        }
        let (uid, gid) = writer.owner_of_base();
        let client = NewClient { member: self.member, uid, gid };
        let id = writer.new_client(client, true, Class::Host);
        for funding in &self.funding {
            let funding = writer.fit(BASE, funding, 0);
            writer.fund(id, BASE, &funding);
        }
    }

    fn describe(&self) -> String {
        format!("{} funded from base", self.member.short())
    }
}
