//! Amounts in the funding policy: `500` tickets, `"20%"` of what there is, or a size as in `"4G"`.

use ledger::{DiskLimit, Funding, KindName, Resource, TicketKind};
use serde::Deserialize;
use std::collections::BTreeMap;

/// An amount as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum Share {
    /// Tickets: a part relative to all others that ask.
    Tickets(u64),
    /// Thousandths of what there is: a guaranteed part.
    Part(u64),
    /// Bytes: a guaranteed amount.
    Size(u64),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u64),
    Text(String),
}

impl TryFrom<Written> for Share {
    type Error = String;

    fn try_from(written: Written) -> Result<Share, String> {
        let text = match written {
            Written::Number(tickets) => return Ok(Share::Tickets(tickets)),
            Written::Text(text) => text,
        };
        let bad = || {
            format!(
                "`{text}` is no amount; write tickets, as in 500, a part, as in \"20%\", or a size, as in \"4G\""
            )
        };
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
            let is_part = (0.0..=100.0).contains(&percent);
            return if is_part {
                Ok(Share::Part((percent * 10.0).round() as u64))
            } else {
                Err(bad())
            };
        }
        let config = parse_size::Config::new().with_binary();
        config.parse_size(&text).map(Share::Size).map_err(|_| bad())
    }
}

/// Hard caps on one disk, as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitRule {
    read: Option<Share>,
    write: Option<Share>,
    reads: Option<u64>,
    writes: Option<u64>,
}

impl LimitRule {
    fn limit(&self) -> Result<DiskLimit, String> {
        let bytes = |share: Option<Share>| match share {
            None => Ok(None),
            Some(Share::Size(bytes) | Share::Tickets(bytes)) => Ok(Some(bytes)),
            Some(Share::Part(_)) => Err("write bytes a second, as in \"10M\"".to_owned()),
        };
        let (read_bytes, written_bytes) = (bytes(self.read)?, bytes(self.write)?);
        let (reads, writes) = (self.reads, self.writes);
        let limit = DiskLimit { read_bytes, written_bytes, reads, writes };
        match limit.is_none() {
            true => Err("it limits nothing; add `read`, `write`, `reads` or `writes`".to_owned()),
            false => limit.wrong().map_or(Ok(limit), Err),
        }
    }
}

/// The amounts that a currency gets of the resources besides the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Others<'a> {
    pub memory: Option<Share>,
    pub disk: &'a BTreeMap<String, Share>,
    pub net: &'a BTreeMap<String, Share>,
    pub limits: &'a BTreeMap<String, LimitRule>,
}

impl Others<'_> {
    /// Base's tickets of it. Parts of memory are parts of `memory_kib`, which base has to promise.
    pub fn funding(&self, memory_kib: u64) -> Vec<Funding> {
        let memory = self.memory.map(|share| match share {
            Share::Tickets(tickets) => funding(Resource::MEMORY, TicketKind::Soft, tickets),
            Share::Size(bytes) => funding(Resource::MEMORY, TicketKind::Hard, bytes / 1024),
            Share::Part(part) => {
                let kib = u128::from(memory_kib) * u128::from(part) / 1000;
                funding(Resource::MEMORY, TicketKind::Hard, kib as u64)
            }
        });
        let named = |kind, shares: &BTreeMap<String, Share>| -> Vec<Funding> {
            let all = shares
                .iter()
                .map(|(name, share)| thousandths(Resource::named(kind, name.as_str()), *share));
            all.collect()
        };
        let disks = named(KindName::DISK, self.disk);
        memory.into_iter().chain(disks).chain(named(KindName::NET, self.net)).collect()
    }

    /// The hard caps.
    pub fn limits(&self) -> BTreeMap<Resource, DiskLimit> {
        let limit = |(disk, rule): (&String, &LimitRule)| {
            Some((Resource::disk(disk.as_str()), rule.limit().ok()?))
        };
        self.limits.iter().filter_map(limit).collect()
    }

    /// Returns what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let instances = self.disk.iter().chain(self.net);
        for (name, share) in instances {
            check_name(name)?;
            if let Share::Size(_) = share {
                return Err(format!("{name}: write tickets, as in 500, or a part, as in \"20%\""));
            }
        }
        for (disk, rule) in self.limits {
            check_name(disk)?;
            rule.limit().map_err(|why| format!("limits on {disk}: {why}"))?;
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let named = format!("disk:{name}").parse::<Resource>();
    named.map(drop).map_err(|_| format!("`{name}` names no device"))
}

/// Tickets, or a hard ticket of so many thousandths.
pub fn thousandths(resource: Resource, share: Share) -> Funding {
    match share {
        Share::Tickets(tickets) | Share::Size(tickets) => {
            funding(resource, TicketKind::Soft, tickets)
        }
        Share::Part(part) => funding(resource, TicketKind::Hard, part),
    }
}

fn funding(resource: Resource, kind: TicketKind, amount: u64) -> Funding {
    Funding { resource, kind, amount }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(text: &str) -> Result<Share, String> {
        Share::try_from(Written::Text(text.to_owned()))
    }

    #[test]
    fn amounts_as_people_write_them() {
        assert_eq!(share("20%"), Ok(Share::Part(200)));
        assert_eq!(share("2.5%"), Ok(Share::Part(25)));
        assert_eq!(share("4G"), Ok(Share::Size(4 << 30)));
        assert_eq!(Share::try_from(Written::Number(7)), Ok(Share::Tickets(7)));
        for bad in ["101%", "-1%", "%", "NaN%", "much", ""] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
