//! The negotiator's own tickets: a hundredth of its clients', from their issuers (Waldspurger
//! 1995: managers are funded by a small percentage of their applications' funding).

use std::collections::BTreeMap;
use wire::{
    Amount, Client, ClientError, CurrencyRef, ErrorCode, Operation, TicketKind, TicketView,
};

/// One of so many of a client's tickets is its negotiator's.
const ONE_IN: u64 = 100;

/// The negotiator's tickets, by issuer and kind.
pub type Funds = BTreeMap<(u64, bool), u64>;

/// The tickets of a negotiator whose clients have these CPU tickets: a hundredth of each issuer's soft and
/// hard tickets, rounded down.
pub fn funds<'a>(tickets: impl Iterator<Item = &'a TicketView>) -> Funds {
    let mut sums = Funds::new();
    for ticket in tickets {
        if ticket.kind != TicketKind::Transfer {
            *sums.entry((ticket.issuer, ticket.kind == TicketKind::Hard)).or_default() +=
                ticket.amount;
        }
    }
    sums.retain(|_, amount| {
        *amount /= ONE_IN;
        *amount > 0
    });
    sums
}

/// Makes this process a client with these funds and no other CPU tickets; without any, it stays as
/// it is.
///
/// # Errors
/// When allotd refuses, or does not answer.
pub fn take(client: &Client, funds: &Funds) -> Result<(), ClientError> {
    if funds.is_empty() {
        return Ok(());
    }
    let own = format!("pid:{}", std::process::id());
    let held = match client.traders(&[&own]) {
        Ok(found) => found.traders.into_iter().next().map(|trader| trader.cpu_tickets),
        Err(ClientError::Refused(error)) if error.code == ErrorCode::Unknown => None,
        Err(error) => return Err(error),
    };
    client.operate_all(operations(&own, funds, held.as_deref())).map(drop)
}

fn operations(own: &str, funds: &Funds, held: Option<&[TicketView]>) -> Vec<Operation> {
    let kind = |hard: bool| if hard { TicketKind::Hard } else { TicketKind::Soft };
    let issuer = |id: u64| CurrencyRef(format!("#{id}"));
    let amount = |hard, amount| Amount { resource: "cpu".to_owned(), kind: kind(hard), amount };
    let mut operations = Vec::new();
    let mut rest = funds.iter();
    if held.is_none()
        && let Some((&(from, hard), &first)) = rest.next()
    {
        operations.push(Operation::Adopt {
            pid: None,
            start_time_ticks: None,
            from: Some(issuer(from)),
            funding: Some(vec![amount(hard, first)]),
        });
    }
    operations.extend(rest.map(|(&(from, hard), &more)| Operation::Fund {
        currency: own.into(),
        from: issuer(from),
        amount: amount(hard, more),
    }));
    let other = held.into_iter().flatten().filter(|ticket| {
        let hard = ticket.kind == TicketKind::Hard;
        ticket.kind != TicketKind::Transfer && !funds.contains_key(&(ticket.issuer, hard))
    });
    operations.extend(other.map(|ticket| Operation::Unfund {
        currency: own.into(),
        from: issuer(ticket.issuer),
        resource: "cpu".to_owned(),
        kind: ticket.kind,
    }));
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(issuer: u64, kind: TicketKind, amount: u64) -> TicketView {
        TicketView { id: 0, issuer, holder: 9, resource: "cpu".to_owned(), kind, amount }
    }

    #[test]
    fn it_is_never_more_than_a_hundredth() {
        let tickets = [
            ticket(1, TicketKind::Soft, 1050),
            ticket(2, TicketKind::Hard, 99),
            ticket(1, TicketKind::Soft, 50),
            ticket(3, TicketKind::Transfer, 1 << 40),
        ];
        let found = funds(tickets.iter());
        assert_eq!(found, Funds::from([((1, false), 11)]));
        assert_eq!(funds([].into_iter()), Funds::new());
    }

    #[test]
    fn a_client_already_has_these_and_no_other() {
        let wanted = Funds::from([((1, false), 11), ((4, true), 2)]);
        let fresh = operations("pid:5", &wanted, None);
        assert!(
            matches!(&fresh[..], [Operation::Adopt { .. }, Operation::Fund { .. }]),
            "{fresh:?}"
        );
        let held = [ticket(1, TicketKind::Soft, 1000), ticket(7, TicketKind::Soft, 1000)];
        let known = operations("pid:5", &wanted, Some(&held));
        let [Operation::Fund { .. }, Operation::Fund { .. }, Operation::Unfund { from, .. }] =
            &known[..]
        else {
            panic!("{known:?}")
        };
        assert_eq!(from.0, "#7");
    }
}
