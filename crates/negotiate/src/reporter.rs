//! Reports while negotiating: a line for each action and verdict.

use command_line::output::json_line;
use command_line::style::{clean, duration};
use serde::Serialize;
use std::io::{self, Write};
use wire::Good;

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum News {
    /// It trades for a client from now on.
    Began {
        /// Exchanges taken over from an earlier negotiator.
        exchanges: Vec<u64>,
    },
    /// It trades no more.
    Ended { why: String },
    /// A good is not traded, or something else cannot be as it should.
    Limited { why: String },
    /// An offer stands.
    Offered { offer: u64, gives: Good, give: u64, wants: Good, want: u64 },
    /// allotd refused an operation.
    Refused { why: String },
    /// An offer was filled, wholly or in part.
    Exchanged { exchange: u64, gave: u64, got: u64 },
    /// An exchange ended that this negotiator did not end.
    Lost { exchange: u64 },
    /// The trade helped and stays.
    Kept {
        exchanges: Vec<u64>,
        /// The gain of progress, as a part of it.
        effect: f64,
    },
    /// The trade is undone.
    TakenBack { exchanges: Vec<u64>, effect: f64 },
    /// The load has changed.
    LoadChanged {
        /// Exchanges that hurt now and are ended.
        ended: Vec<u64>,
    },
    /// The negotiator's own cost.
    Cost {
        /// The number of looks at clients.
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

/// Writes news.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    /// Writes JSON, an object a line.
    pub json: bool,
    /// Writes on standard error, because standard output is a command's.
    pub on_stderr: bool,
}

impl Reporter {
    /// Writes news of a client, or of the negotiator itself (`None`). Does not wait for a reader.
    pub fn tell(&self, client: Option<(u64, &str)>, news: &News) {
        let line = match (self.json, client) {
            (true, client) => {
                let mut value = serde_json::to_value(news).unwrap_or_default();
                if let (Some((id, name)), Some(value)) = (client, value.as_object_mut()) {
                    value.insert("client".to_owned(), id.into());
                    value.insert("name".to_owned(), name.into());
                }
                json_line(&value).unwrap_or_default()
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
