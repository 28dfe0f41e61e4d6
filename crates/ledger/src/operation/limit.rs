//! Hard caps on disks.

use super::Operation;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{Authority, BASE, CurrencyId, DiskLimit, LIMITS_MAX, Refusal, Resource, SetLimit};
use serde::{Deserialize, Serialize};

family! {
    /// Hard caps.
    LimitOperation as Limit {
        "limit_disk" => LimitDisk,
    }
}

/// Limits what a currency's clients do on a disk, all together, in place of the limit that there
/// was; one that limits nothing takes it away. Owner or superuser; a limit that the superuser has
/// set, the superuser alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitDisk {
    pub currency: CurrencyId,
    pub resource: Resource,
    pub limit: DiskLimit,
}

impl Operation for LimitDisk {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let currency = broker.currency(self.currency)?;
        broker.owner_of(currency, "limit its use of a disk")?;
        let bad = |why: &str| Err(Refusal::BadLimit(why.to_owned()));
        if !self.resource.has_limits() {
            return bad("only disks have limits");
        }
        if currency.id == BASE {
            return bad("base is all there is; limit currencies or clients");
        }
        if let Some(why) = self.limit.wrong() {
            return Err(Refusal::BadLimit(why));
        }
        let limits = &currency.record.limits;
        match limits.get(&self.resource) {
            Some(set) if set.by_superuser => {
                broker.superuser("change a limit that the superuser has set")
            }
            None if !self.limit.is_none() && limits.len() >= LIMITS_MAX => {
                let why = format!("a currency has limits on {LIMITS_MAX} disks at most");
                Err(Refusal::BadLimit(why))
            }
            _ => Ok(()),
        }
    }

    fn apply(self, writer: &mut Writer<'_>) {
        let LimitDisk { currency, resource, limit } = self;
        let by_superuser = match writer.authority {
            Authority::System => true,
            Authority::Caller(caller) => writer.ledger.is_superuser(caller.uid),
        };
        writer.edit(currency, |record| match limit.is_none() {
            true => drop(record.limits.remove(&resource)),
            false => {
                record.limits.insert(resource, SetLimit { limit, by_superuser });
            }
        });
    }

    fn describe(&self) -> String {
        let disk = self.resource.disk_name().unwrap_or_default();
        match self.limit.is_none() {
            true => format!("{} is no longer limited on {disk}", self.currency),
            false => format!("{} limited on {disk}", self.currency),
        }
    }
}
