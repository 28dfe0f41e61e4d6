//! What is told while negotiating: a line for each action and verdict.

use crate::style::{clean, duration};
use serde::Serialize;
use std::io::{self, Write};
use wire::Good;

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum News {
    /// It trades for somebody from now on.
    Began {
        /// Exchanges that it took over from a negotiator before it.
        exchanges: Vec<u64>,
    },
    /// It trades no more.
    Ended {
        /// Why.
        why: String,
    },
    /// A good is not traded, or something else cannot be as it should.
    Limited {
        /// What, and why.
        why: String,
    },
    /// An offer stands.
    Offered {
        /// Its number.
        offer: u64,
        /// What it gives at most.
        gives: Good,
        /// How many tickets.
        give: u64,
        /// What it wants.
        wants: Good,
        /// How many tickets for all.
        want: u64,
    },
    /// allotd did not do something.
    Refused {
        /// What, and why not.
        why: String,
    },
    /// An offer was filled, wholly or in part.
    Exchanged {
        /// The exchange.
        exchange: u64,
        /// What was given.
        gave: u64,
        /// What was got.
        got: u64,
    },
    /// Somebody else ended an exchange, or its time was over.
    Lost {
        /// Which.
        exchange: u64,
    },
    /// What was traded helped and stays.
    Kept {
        /// Which.
        exchanges: Vec<u64>,
        /// More progress, as a part of it.
        effect: f64,
    },
    /// What was traded is undone.
    TakenBack {
        /// Which.
        exchanges: Vec<u64>,
        /// As above.
        effect: f64,
    },
    /// The load is another.
    LoadChanged {
        /// Exchanges that hurt now, and are ended.
        ended: Vec<u64>,
    },
    /// What it has cost.
    Cost {
        /// Looks at clients.
        steps: u64,
        /// CPU time for them all, in ns.
        cpu_ns: u64,
        /// CPU time for each, in ns.
        step_ns: u64,
    },
}

impl News {
    fn text(&self) -> String {
        let good = |good: &Good| match (good.kind, good.resource.as_str()) {
            (wire::TicketKind::Hard, "memory") => "KiB of memory".to_owned(),
            (wire::TicketKind::Hard, resource) => format!("hard {resource}"),
            (_, resource) => resource.to_owned(),
        };
        match self {
            News::Began { exchanges } if exchanges.is_empty() => "negotiating".to_owned(),
            News::Began { exchanges } => format!("negotiating; took over {}", list(exchanges)),
            News::Ended { why } | News::Limited { why } => why.clone(),
            News::Offered { offer, gives, give, wants, want } => {
                format!("offered {give} {} for {want} {} (offer {offer})", good(gives), good(wants))
            }
            News::Refused { why } => format!("refused: {why}"),
            News::Exchanged { exchange, gave, got } => {
                format!("exchanged {gave} for {got} (exchange {exchange}), on trial")
            }
            News::Lost { exchange } => format!("exchange {exchange} was ended by others"),
            News::Kept { exchanges, effect } => {
                format!("kept: {} (exchange {})", signed(*effect), numbers(exchanges))
            }
            News::TakenBack { exchanges, effect } => {
                format!("taken back: {} (exchange {})", signed(*effect), numbers(exchanges))
            }
            News::LoadChanged { ended } if ended.is_empty() => "the load changed".to_owned(),
            News::LoadChanged { ended } => format!("the load changed: ended {}", list(ended)),
            News::Cost { steps, cpu_ns, step_ns } => {
                let (all, each) = (duration(*cpu_ns), duration(*step_ns));
                format!("{all} of CPU time in {steps} looks, {each} each")
            }
        }
    }
}

fn numbers(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn list(exchanges: &[u64]) -> String {
    format!("exchange {}", numbers(exchanges))
}

fn signed(effect: f64) -> String {
    if effect.is_finite() { format!("{:+.1} %", effect * 100.0) } else { "from nothing".to_owned() }
}

/// Tells it.
#[derive(Clone, Copy, Debug)]
pub struct Teller {
    /// As JSON, an object a line.
    pub json: bool,
    /// On standard error, where standard output is a command's.
    pub on_stderr: bool,
}

impl Teller {
    /// Tells something of a client, or of the negotiator itself (`None`). Who does not listen is not
    /// waited for.
    pub fn tell(&self, client: Option<(u64, &str)>, news: &News) {
        let line = match (self.json, client) {
            (true, client) => {
                let mut value = serde_json::to_value(news).unwrap_or_default();
                if let (Some((id, name)), Some(value)) = (client, value.as_object_mut()) {
                    value.insert("client".to_owned(), id.into());
                    value.insert("name".to_owned(), name.into());
                }
                value.to_string()
            }
            (false, Some((id, name))) => format!("{} #{id}: {}", clean(name), clean(&news.text())),
            (false, None) => clean(&news.text()),
        };
        let _ = match self.on_stderr {
            true => writeln!(io::stderr(), "{line}"),
            false => writeln!(io::stdout(), "{line}").and_then(|()| io::stdout().flush()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_told() {
        let kept = News::Kept { exchanges: vec![3], effect: 0.1234 };
        assert_eq!(kept.text(), "kept: +12.3 % (exchange 3)");
        let back = News::TakenBack { exchanges: vec![3, 4], effect: -0.05 };
        assert_eq!(back.text(), "taken back: -5.0 % (exchange 3, 4)");
        let from_nothing = News::Kept { exchanges: vec![], effect: f64::INFINITY };
        assert!(from_nothing.text().contains("from nothing"));
        let json = serde_json::to_value(&kept).expect("JSON");
        assert_eq!(json["what"], "kept");
        assert_eq!(json["exchanges"][0], 3);
        let cost = News::Cost { steps: 4, cpu_ns: 8_000_000, step_ns: 2_000_000 };
        assert_eq!(cost.text(), "8 ms of CPU time in 4 looks, 2 ms each");
    }
}
