//! Offers, exchanges and prices as people read them.

use crate::events::local_time;
use command_line::style::{Style, Table, Tone, clean};
use command_line::users::user_name;
use command_line::{CliError, GlobalOptions, connection, output};
use jiff::tz::TimeZone;
use wire::{ExchangeView, Good, OfferView, OperationsDone, PriceView, TicketKind};

/// What is offered and exchanged.
pub fn list(global: &GlobalOptions) -> Result<(), CliError> {
    let market = connection::connect(global)?.market()?;
    if global.json {
        return output::json(&market);
    }
    if market.offers.is_empty() && market.exchanges.is_empty() {
        return output::text("nothing is offered or exchanged");
    }
    let mut text = String::new();
    for offer in &market.offers {
        text.push_str(&format!("{}\n", offer_line(offer)));
    }
    for exchange in &market.exchanges {
        text.push_str(&format!("{}\n", exchange_line(exchange)));
    }
    output::text(&text)
}

/// What the last clearings paid.
pub fn prices(global: &GlobalOptions) -> Result<(), CliError> {
    let market = connection::connect(global)?.market()?;
    if global.json {
        return output::json(&market.prices);
    }
    if market.prices.is_empty() {
        return output::text("nothing was cleared since allotd began");
    }
    let mut table = Table::new(&[
        ("WHEN", false),
        ("FOR ONE", false),
        ("OF", false),
        ("PRICE", true),
        ("LOWEST", true),
        ("HIGHEST", true),
        ("TRADES", true),
    ]);
    for price in &market.prices {
        table.row(price_row(price).into_iter().map(|cell| (Tone::Plain, cell)).collect());
    }
    output::text(&table.render(Style::of_stdout()))
}

/// What came of an offer: its number, and what conflicts with it.
pub fn offered(done: &OperationsDone) -> String {
    let Some(result) = done.results.first() else { return String::new() };
    let mut text = format!("offer {}", result.offer.unwrap_or(0));
    if !result.conflicts.is_empty() {
        text.push_str("\nnot met, by the rate alone, by");
    }
    for conflict in &result.conflicts {
        let apart = conflict.gap_millionths as f64 / 10_000.0;
        text.push_str(&format!("\n  {} ({apart:.0} % apart)", offer_line(&conflict.offer)));
    }
    text
}

fn offer_line(offer: &OfferView) -> String {
    let points: Vec<String> =
        offer.points.iter().map(|point| format!("{} for {}", point.give, point.want)).collect();
    let mut text = format!(
        "offer {}: {} of {} gives {} for {}, {}",
        offer.id,
        clean(&offer.party_name),
        user_name(offer.owner),
        good(&offer.gives),
        good(&offer.wants),
        points.join(", ")
    );
    if offer.partial {
        text.push_str(", or parts of it");
    }
    if offer.least > 0 {
        text.push_str(&format!(", at least {} at a time", offer.least));
    }
    if offer.points.first().is_some_and(|point| point.give > offer.spare) {
        text.push_str(&format!("; waits: it has {} to give", offer.spare));
    }
    text + &until(offer.until_s)
}

fn exchange_line(exchange: &ExchangeView) -> String {
    let legs: Vec<String> = exchange
        .legs
        .iter()
        .map(|leg| {
            let (giver, receiver) = (clean(&leg.giver_name), clean(&leg.receiver_name));
            format!("{giver} gives {} {} to {receiver}", leg.amount, good(&leg.good))
        })
        .collect();
    format!("exchange {}: {}{}", exchange.id, legs.join(", "), until(exchange.until_s))
}

fn until(until_s: Option<u64>) -> String {
    let time = |at_s: u64| local_time(at_s.saturating_mul(1000), TimeZone::system());
    until_s.map_or_else(String::new, |at_s| format!("; until {}", time(at_s)))
}

fn good(good: &Good) -> String {
    match (good.kind, good.resource.as_str()) {
        (TicketKind::Hard, "memory") => "KiB of memory".to_owned(),
        (TicketKind::Hard, resource) => format!("hard {resource}"),
        (_, resource) => resource.to_owned(),
    }
}

fn price_row(price: &PriceView) -> Vec<String> {
    let rate = |(one, other): (u64, u64)| format!("{:.3}", other as f64 / one.max(1) as f64);
    vec![
        local_time(price.at_s.saturating_mul(1000), TimeZone::system()),
        good(&price.good),
        good(&price.other),
        rate(price.amounts),
        rate(price.lowest),
        rate(price.highest),
        price.trades.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{LegView, OfferPoint};

    fn soft(resource: &str) -> Good {
        Good { resource: resource.to_owned(), kind: TicketKind::Soft }
    }

    #[test]
    fn offers_and_exchanges_are_told_in_a_line() {
        let offer = OfferView {
            id: 4,
            party: 9,
            party_name: "build\x1b".to_owned(),
            owner: 0,
            gives: soft("disk:sda"),
            wants: Good { resource: "memory".to_owned(), kind: TicketKind::Hard },
            points: vec![OfferPoint { give: 100, want: 2048 }],
            partial: true,
            least: 5,
            most: 4096,
            until_s: None,
            lease: None,
            spare: 7,
        };
        assert_eq!(
            offer_line(&offer),
            "offer 4: build? of root gives disk:sda for KiB of memory, 100 for 2048, or parts of \
             it, at least 5 at a time; waits: it has 7 to give"
        );
        let exchange = ExchangeView {
            id: 3,
            legs: vec![LegView {
                giver: 1,
                giver_name: "a".to_owned(),
                receiver: 2,
                receiver_name: "b".to_owned(),
                good: soft("cpu"),
                amount: 5,
            }],
            until_s: None,
            offers: Vec::new(),
            leases: Vec::new(),
        };
        assert_eq!(exchange_line(&exchange), "exchange 3: a gives 5 cpu to b");
    }
}
