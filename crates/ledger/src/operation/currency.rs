//! Pure currencies: made and destroyed, their owners, modes and grants.

use super::Operation;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{
    Authority, Caller, CurrencyId, CurrencyKind, CurrencyRecord, GRANTS_MAX, Mode, NAME_LEN_MAX,
    Part, Refusal, Rights, Subject,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

family! {
    /// What is done to a pure currency itself.
    CurrencyOperation as Currency {
        "create_currency" => CreateCurrency,
        "destroy_currency" => DestroyCurrency,
        "change_mode" => ChangeMode,
        "change_owner" => ChangeOwner,
        "grant" => Grant,
    }
}

/// Makes a pure currency (paper 1, table 1: the caller must match uid and gid).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateCurrency {
    pub name: String,
    pub owner: u32,
    pub group: u32,
    pub mode: Mode,
}

impl Operation for CreateCurrency {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let CreateCurrency { name, owner, group, .. } = self;
        let (owner, group) = (*owner, *group);
        if let Authority::Caller(caller) = broker.authority
            && !broker.is_superuser()
        {
            if caller.uid != owner || !in_group(caller, group) {
                return Err(Refusal::NotSelf { owner, group });
            }
            broker.quota(owner, Part::Currency, 1)?;
        }
        if !is_name(name) {
            return Err(Refusal::BadName(name.clone()));
        }
        match broker.ledger.named(owner, name) {
            None => Ok(()),
            Some(currency) => Err(Refusal::NameTaken { owner, name: name.clone(), currency }),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let CreateCurrency { name, owner, group, mode } = self;
        writer.create(CurrencyRecord {
            name,
            owner,
            group,
            mode,
            grants: Vec::new(),
            limits: BTreeMap::new(),
            kind: CurrencyKind::Pure,
        });
    }

    fn describe(&self) -> String {
        let CreateCurrency { name, owner, mode, .. } = self;
        format!("currency {name} made for uid {owner}, mode {mode}")
    }
}

/// Destroys a pure currency that funds nothing. Needs `c`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestroyCurrency {
    pub currency: CurrencyId,
}

impl Operation for DestroyCurrency {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let currency = broker.pure(self.currency, "be destroyed")?;
        broker.must_have(currency, Rights::CHANGE)?;
        if broker.ledger.homes().any(|(_, home)| home.currency == currency.id) {
            broker.superuser("destroy a currency that the funding policy keeps")?;
        }
        match currency.issued.len() {
            0 => Ok(()),
            holders => Err(Refusal::StillFunds { currency: currency.id, holders }),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.destroy(self.currency);
    }

    fn describe(&self) -> String {
        format!("currency {} destroyed", self.currency)
    }
}

/// Sets the mode. Owner or superuser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeMode {
    pub currency: CurrencyId,
    pub mode: Mode,
}

impl Operation for ChangeMode {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.owner_of(broker.currency(self.currency)?, "change the mode")
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.edit(self.currency, |record| record.mode = self.mode);
    }

    fn describe(&self) -> String {
        format!("currency {} has mode {}", self.currency, self.mode)
    }
}

/// Gives a currency another owner, which only the superuser may, or another group, which its
/// owner may if it is a group of theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOwner {
    pub currency: CurrencyId,
    pub owner: Option<u32>,
    pub group: Option<u32>,
}

impl Operation for ChangeOwner {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let currency = broker.pure(self.currency, "change hands")?;
        let record = &currency.record;
        if let Some(owner) = self.owner.filter(|owner| *owner != record.owner) {
            broker.superuser("give a currency to another user")?;
            if let Some(other) = broker.ledger.named(owner, &record.name) {
                let name = record.name.clone();
                return Err(Refusal::NameTaken { owner, name, currency: other });
            }
        }
        broker.owner_of(currency, "change the group")?;
        match (broker.authority, self.group) {
            (Authority::Caller(caller), Some(group))
                if !broker.is_superuser() && !in_group(caller, group) =>
            {
                Err(Refusal::NotSelf { owner: record.owner, group })
            }
            _ => Ok(()),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let ChangeOwner { currency, owner, group } = self;
        let now = writer.ledger.currency(currency).expect("it exists").record.owner;
        if owner.is_some_and(|owner| owner != now) {
            writer.end_trades_of(currency);
        }
        writer.edit(currency, |record| {
            record.owner = owner.unwrap_or(record.owner);
            record.group = group.unwrap_or(record.group);
        });
    }

    fn describe(&self) -> String {
        let to =
            |what: &str, id: Option<u32>| id.map_or(String::new(), |id| format!(" {what} {id}"));
        let (owner, group) = (to("uid", self.owner), to("gid", self.group));
        format!("currency {} given to{owner}{group}", self.currency)
    }
}

/// Grants rights besides the mode, in place of what the subject was granted before; no rights
/// take the grant back. Owner or superuser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub currency: CurrencyId,
    pub subject: Subject,
    pub rights: Rights,
}

impl Operation for Grant {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let currency = broker.currency(self.currency)?;
        broker.owner_of(currency, "grant rights")?;
        let grants = &currency.record.grants;
        let known = grants.iter().any(|(other, _)| *other == self.subject);
        if !known && self.rights != Rights::NONE {
            if grants.len() >= GRANTS_MAX {
                return Err(Refusal::TooManyGrants(currency.id));
            }
            broker.quota(currency.record.owner, Part::Grant, 1)?;
        }
        match self.subject {
            Subject::Process(process) if broker.ledger.client_of(process).is_none() => {
                Err(Refusal::UnknownProcess(process))
            }
            _ => Ok(()),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let Grant { currency, subject, rights } = self;
        writer.edit(currency, |record| {
            record.grants.retain(|(other, _)| *other != subject);
            if rights != Rights::NONE {
                record.grants.push((subject, rights));
                record.grants.sort_by_key(|(subject, _)| *subject);
            }
        });
    }

    fn describe(&self) -> String {
        format!("{} granted {} on {}", self.subject, self.rights, self.currency)
    }
}

fn in_group(caller: &Caller, gid: u32) -> bool {
    caller.gid == gid || caller.groups.contains(&gid)
}

/// Whether a currency can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let first = name.chars().next();
    let first = first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let rest = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
    first && name.len() <= NAME_LEN_MAX && name.chars().all(rest) && name != "base"
}
