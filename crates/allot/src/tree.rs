//! `allot tree`: the funding graph, as a tree from base for each resource.

use crate::graph::{Graph, label, member_label, value};
use clap::Args;
use command_line::style::{Style, Table, Tone, clean, percent};
use command_line::{CliError, GlobalOptions, connection, output};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use wire::{Class, Client, CurrencyKind, CurrencyView, LedgerView, Status, TicketKind, TicketView};

/// A currency's hard tickets are thousandths (base's of memory are KiB of what there is); what is left of them is its soft tickets' (paper
/// 1, 3.3, figure 4).
const HARD_TOTAL: u64 = 1000;

/// Show who funds whom, as a tree from base
///
/// NOW is what a currency's tickets are worth among those who compete at this moment; SURE is
/// what they are worth when all compete. Both are parts of the whole machine.
#[derive(Args)]
#[command(
    after_help = "Example:\n  allot tree\n  allot tree --resource memory\n  allot tree --json"
)]
pub struct TreeArgs {
    /// Of what: cpu, memory, disk:DEVICE or net:INTERFACE; all that have tickets, where it is
    /// left out
    #[arg(long)]
    pub resource: Option<String>,
}

/// Shows it.
pub(crate) fn tree(global: &GlobalOptions, args: &TreeArgs) -> Result<ExitCode, CliError> {
    let client = connection::connect(global)?;
    let view = client.ledger()?;
    if global.json {
        output::json(&view)?;
    } else {
        if let Some(resource) = args.resource.as_deref() {
            must_be_known(resource, &view, &client)?;
        }
        let enforced = Enforced::of(&client.status()?);
        output::text(&render(&view, args.resource.as_deref(), &enforced, Style::of_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses a resource of which nobody has tickets and that this allotd does not know.
fn must_be_known(resource: &str, view: &LedgerView, client: &Client) -> Result<(), CliError> {
    if Graph::new(view).resources().iter().any(|known| known == resource) {
        return Ok(());
    }
    let known: Vec<String> =
        client.doctor()?.resources.into_iter().map(|found| found.resource).collect();
    // A kind of which nobody listed the instances stands there as `net:INTERFACE`.
    let is_any = |known: &str| match (known.split_once(':'), resource.split_once(':')) {
        (Some((kind, any)), Some((of, _))) => {
            kind == of && any.chars().all(|letter| letter.is_ascii_uppercase())
        }
        _ => known == resource,
    };
    match known.iter().any(|known| is_any(known) || known == resource) {
        true => Ok(()),
        false => Err(CliError::Unknown(format!(
            "`{}` names no resource here; there are {}",
            clean(resource),
            clean(&known.join(", "))
        ))),
    }
}

/// The effect that enforcers give to tickets.
#[derive(Debug, Default)]
pub struct Enforced {
    /// The part of the CPUs that one client can have, where that is less than all.
    pub most_of_one: Option<f64>,
    /// Why tickets of a resource have no effect, by resource.
    pub without_effect: BTreeMap<String, String>,
}

impl Enforced {
    /// Takes it from an allotd's status.
    pub fn of(status: &Status) -> Enforced {
        let cpus = status.cpu.cpus.len();
        // An enforcer that holds whole processes gives each one CPU at a time.
        let most_of_one = (status.cpu.name == "user-level" && cpus > 1).then(|| 1.0 / cpus as f64);
        let cpu = ("cpu", status.cpu.name.as_str(), status.cpu.why.as_str());
        let others = status.others.iter();
        let others = others.map(|it| (it.resource.as_str(), it.enforcer.as_str(), it.why.as_str()));
        let idle = std::iter::once(cpu).chain(others).filter(|(_, name, _)| *name == "none");
        let without_effect = idle.map(|(resource, _, why)| (resource.to_owned(), why.to_owned()));
        Enforced { most_of_one, without_effect: without_effect.collect() }
    }
}

/// The tree of one resource, or of each that has tickets.
pub fn render(
    view: &LedgerView,
    resource: Option<&str>,
    enforced: &Enforced,
    style: Style,
) -> String {
    let graph = Graph::new(view);
    let resources = match resource {
        Some(resource) => vec![resource.to_owned()],
        None => graph.resources(),
    };
    let mut trees = Vec::new();
    for resource in &resources {
        let mut tree = String::new();
        if resources.len() > 1 {
            tree.push_str(&style.paint(Tone::Strong, &clean(resource)));
            tree.push('\n');
        }
        let most = enforced.most_of_one.filter(|_| resource == "cpu");
        tree.push_str(&Drawing::new(&graph, resource, most).render(style));
        if let Some(why) = enforced.without_effect.get(resource) {
            let says = format!("kept in the ledger and without effect now: {}", clean(why));
            tree.push_str(&style.paint(Tone::Warning, &says));
            tree.push('\n');
        }
        trees.push(tree);
    }
    trees.join("\n")
}

/// A tree that is drawn, line by line.
struct Drawing<'a> {
    graph: &'a Graph<'a>,
    resource: &'a str,
    table: Table,
    /// Currencies whose holders have been drawn: they are not drawn again, so that a graph with
    /// many paths stays as long as it has tickets.
    drawn: BTreeSet<u64>,
    several: bool,
    /// The part that one client can have at most.
    most: Option<f64>,
    /// Some client's tickets are worth more than that.
    capped: bool,
}

/// Where a line hangs.
struct Place {
    /// Before its name.
    lead: String,
    /// Before its holders' names.
    below: String,
}

impl Place {
    fn root() -> Place {
        Place { lead: String::new(), below: String::new() }
    }

    fn under(&self, last: bool) -> Place {
        let (turn, line) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        Place { lead: format!("{}{turn}", self.below), below: format!("{}{line}", self.below) }
    }
}

impl<'a> Drawing<'a> {
    fn new(graph: &'a Graph<'a>, resource: &'a str, most: Option<f64>) -> Drawing<'a> {
        let table = Table::new(&[
            ("CURRENCY", false),
            ("MODE", false),
            ("OWNER", false),
            ("TICKETS", true),
            ("NOW", true),
            ("SURE", true),
            ("", false),
        ]);
        let drawn = BTreeSet::new();
        Drawing { graph, resource, table, drawn, several: false, most, capped: false }
    }

    fn render(mut self, style: Style) -> String {
        for base in self.graph.currencies().filter(|one| one.kind == CurrencyKind::Base) {
            self.draw(base, None, &Place::root());
        }
        let unfunded: Vec<&CurrencyView> =
            self.graph.currencies().filter(|one| self.is_loose(one)).collect();
        if !unfunded.is_empty() {
            self.table.row(vec![(Tone::Faint, "without tickets:".to_owned())]);
        }
        for (index, one) in unfunded.iter().enumerate() {
            self.draw(one, None, &Place::root().under(index + 1 == unfunded.len()));
        }
        let mut out = self.table.render(style);
        if self.several {
            out.push_str("* funded by several: NOW and SURE are the sum\n");
        }
        if let Some(most) = self.most.filter(|_| self.capped) {
            out.push_str(&format!(
                "NOW is what tickets are worth; a process has one CPU at a time, so `allot top` \
                 promises it {} at most\n",
                percent(most)
            ));
        }
        out
    }

    fn is_mine(&self, ticket: &TicketView) -> bool {
        ticket.resource == self.resource
    }

    /// Hangs nowhere: it holds no ticket of this resource though it issues some, or it holds no
    /// ticket of any (and is then shown with the CPU).
    fn is_loose(&self, one: &CurrencyView) -> bool {
        let held = self.graph.held(one.id);
        one.kind != CurrencyKind::Base
            && !held.iter().any(|ticket| self.is_mine(ticket))
            && (self.graph.issued(one.id).iter().any(|ticket| self.is_mine(ticket))
                || (self.resource == "cpu" && held.is_empty()))
    }

    fn draw(&mut self, one: &CurrencyView, by: Option<&TicketView>, place: &Place) {
        let issued: Vec<&TicketView> = self
            .graph
            .issued(one.id)
            .iter()
            .copied()
            .filter(|ticket| self.is_mine(ticket))
            .collect();
        let again = !issued.is_empty() && !self.drawn.insert(one.id);
        self.line(one, by, place, again);
        if again {
            return;
        }
        let (hard, soft): (Vec<_>, Vec<_>) =
            issued.into_iter().partition(|ticket| ticket.kind == TicketKind::Hard);
        if hard.is_empty() {
            return self.holders(&soft, place, true);
        }
        self.holders(&hard, place, soft.is_empty());
        if !soft.is_empty() {
            // The soft-ticket subcurrency, which has what the hard tickets leave.
            let given: u64 = hard.iter().map(|ticket| ticket.amount).sum();
            let value = one.resources.iter().find(|value| value.resource == self.resource);
            let total = value.map_or(HARD_TOTAL, |value| value.hard_total);
            let rest = total.saturating_sub(given);
            let subcurrency = place.under(true);
            let name = format!("{}soft_tix {rest}/{total}", subcurrency.lead);
            self.table.row(vec![(Tone::Faint, name)]);
            self.holders(&soft, &subcurrency, true);
        }
    }

    fn holders(&mut self, tickets: &[&TicketView], place: &Place, last_below: bool) {
        for (index, ticket) in tickets.iter().enumerate() {
            let last = last_below && index + 1 == tickets.len();
            if let Some(holder) = self.graph.get(ticket.holder) {
                self.draw(holder, Some(ticket), &place.under(last));
            }
        }
    }

    fn line(&mut self, one: &CurrencyView, by: Option<&TicketView>, place: &Place, again: bool) {
        let worth = value(one, self.resource);
        let backers = self.graph.held(one.id).iter().filter(|ticket| self.is_mine(ticket)).count();
        let several = backers > 1;
        self.several |= several;
        let active = worth.is_some_and(|worth| worth.active);
        if let (CurrencyKind::Client, Some(worth), Some(most)) = (one.kind, worth, self.most) {
            self.capped |= worth.value > most;
        }
        let tone = match one.kind {
            _ if one.frozen => Tone::Bad,
            CurrencyKind::Client if active => Tone::Good,
            CurrencyKind::Base | CurrencyKind::Pure | CurrencyKind::Job if active => Tone::Strong,
            _ => Tone::Faint,
        };
        let tickets = match by {
            Some(ticket) if ticket.kind == TicketKind::Hard => format!("{} hard", ticket.amount),
            Some(ticket) if ticket.kind == TicketKind::Transfer => "lent".to_owned(),
            Some(ticket) => ticket.amount.to_string(),
            None => String::new(),
        };
        let mut notes = Vec::new();
        if one.frozen {
            notes.push("frozen".to_owned());
        } else if one.kind == CurrencyKind::Client && worth.is_some() && !active {
            notes.push("asleep".to_owned());
        }
        if one.class == Class::Guest {
            notes.push("guest".to_owned());
        }
        if self
            .graph
            .issued(one.id)
            .iter()
            .any(|ticket| ticket.kind == TicketKind::Transfer && self.is_mine(ticket))
        {
            notes.push("lends all it has".to_owned());
        }
        if let Some(client) = one.joined.and_then(|id| self.graph.get(id)) {
            notes.push(format!("consumes as {}", label(client)));
        }
        match one.members.as_slice() {
            [] => {}
            [only] => notes.push(format!("with {}", member_label(only))),
            several => notes.push(format!("with {} others", several.len())),
        }
        if let Some(lent) = worth.map(|worth| worth.lent).filter(|lent| *lent > 0) {
            notes.push(format!("{lent} lent"));
        }
        for (amount, kind) in worth.map_or([(0, ""); 2], |worth| {
            [(worth.exchanged_soft, ""), (worth.exchanged_hard, " hard")]
        }) {
            if amount != 0 {
                notes.push(format!("{amount:+}{kind} exchanged"));
            }
        }
        if again {
            notes.push("see above".to_owned());
        }
        let share = |share: Option<f64>| share.map(percent).unwrap_or_default();
        let star = if several { " *" } else { "" };
        self.table.row(vec![
            (tone, format!("{}{}{star}", place.lead, label(one))),
            (Tone::Plain, clean(&one.mode)),
            (Tone::Plain, clean(&one.owner_name)),
            (Tone::Plain, tickets),
            (if active { Tone::Plain } else { Tone::Faint }, share(worth.map(|worth| worth.value))),
            (Tone::Plain, share(worth.map(|worth| worth.guaranteed))),
            (if one.frozen { Tone::Bad } else { Tone::Faint }, notes.join(", ")),
        ]);
    }
}
