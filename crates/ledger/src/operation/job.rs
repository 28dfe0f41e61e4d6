//! Jobs: a process and all that it starts, funded out of the caller's own currencies.

use super::Operation;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{
    AMOUNT_MAX, Authority, BACKERS_MAX, BASE, Class, CurrencyId, Funding, JOB_SHARE, Ledger, Loan,
    NewClient, Part, PolicyKey, Refusal, Resource, TicketId, TicketKind,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

family! {
    /// What makes jobs.
    JobOperation as Job {
        "nice" => Nice,
    }
}

/// Runs a process as a job funded from base, taken out of the caller's own currencies for as long
/// as the job lives (paper 1, 4.4 and 5.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nice {
    /// The caller's process, thread or cgroup; a client already, or a new one.
    pub client: NewClient,
    pub resource: Resource,
    /// Soft base tickets, at least 1.
    pub amount: u64,
}

impl Operation for Nice {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Nice { client, resource, amount: asked } = self;
        let (member, asked) = (client.member, *asked);
        let Authority::Caller(caller) = broker.authority else {
            return Err(Refusal::NotSuperuser("be niced; a caller must ask for it"));
        };
        broker.own_member(client)?;
        broker.particular(member, "be niced; fund its client")?;
        if broker.ledger.joined_by(&member).is_some() {
            let what = "be niced while it is part of another client; let it leave first";
            return Err(Refusal::BadMember { member, what });
        }
        if asked == 0 {
            return Err(Refusal::NiceNothing);
        }
        if asked > AMOUNT_MAX {
            return Err(Refusal::AmountTooLarge(asked));
        }
        broker.quota(caller.uid, Part::Currency, 1)?;
        // The job's own from base, and the client's from the job.
        match broker.ledger.founded_by(&member) {
            Some(_) => broker.quota(caller.uid, Part::Ticket, 2)?,
            None => broker.quota_of_client(client, 2)?,
        }
        if let Some(id) = broker.ledger.founded_by(&member) {
            let others = broker.held_besides_transfers(id).filter(|t| t.resource != *resource);
            if others.count() >= BACKERS_MAX {
                return Err(Refusal::TooManyBackers(id));
            }
        }
        let available = lenders(broker.ledger, caller.uid, resource).map(|it| it.spare).sum();
        if asked > available {
            let (uid, resource) = (caller.uid, resource.clone());
            return Err(Refusal::NothingToLend { uid, resource, available, asked });
        }
        Ok(())
    }

    /// Makes a currency for the job, funded with the base tickets that were asked for, which the
    /// caller's own currencies lack meanwhile (paper 1, 5.6).
    fn apply(self, writer: &mut Writer<'_>) {
        let Nice { client, resource, amount } = self;
        let Authority::Caller(caller) = writer.authority else {
            unreachable!("the broker lets only callers be niced")
        };
        let lenders: Vec<Lender> = lenders(writer.ledger, caller.uid, &resource).collect();
        let mut wanted = amount;
        let mut loans = Vec::new();
        for Lender { currency: lender, ticket, spare } in lenders {
            let amount = spare.min(wanted);
            if amount > 0 {
                let left = writer.ledger.ticket(ticket).expect("a lender's ticket").amount - amount;
                writer.set_amount(ticket, left);
                loans.push(Loan { lender, resource: resource.clone(), amount });
                wanted -= amount;
            }
        }
        assert_eq!(wanted, 0, "the broker counted what can be lent");
        let job = writer.create_job(caller.uid, caller.gid, loans);
        writer.fund(job, BASE, &Funding::soft(&resource, amount));
        let id = match writer.ledger.founded_by(&client.member) {
            Some(id) => id,
            None => writer.new_client(client, false, Class::Host),
        };
        writer.fund(id, job, &Funding::soft(&resource, JOB_SHARE));
        writer.revoke_all(id, |ticket| {
            let funds = ticket.kind != TicketKind::Transfer && ticket.issuer != job;
            funds && ticket.resource == resource
        });
    }

    fn describe(&self) -> String {
        let Nice { client, resource, amount } = self;
        format!("{} niced to {amount} {resource} base tickets", client.member.short())
    }
}

/// A currency that can lend soft base tickets.
struct Lender {
    currency: CurrencyId,
    ticket: TicketId,
    /// The number that it can spare: one must remain.
    spare: u64,
}

/// The currencies of a user's own from which nice may take soft base tickets.
fn lenders(ledger: &Ledger, uid: u32, resource: &Resource) -> impl Iterator<Item = Lender> {
    // What the policy keeps for a group or a rule is not its owner's own (paper 1, 5.6).
    let shared: BTreeSet<CurrencyId> = ledger
        .homes()
        .filter(|(key, _)| **key != PolicyKey::User(uid))
        .map(|(_, home)| home.currency)
        .collect();
    let own = ledger.names_of(uid).filter(move |id| *id != BASE && !shared.contains(id));
    own.filter_map(move |currency| {
        let (ticket, held) = ledger.held(currency, BASE, resource, TicketKind::Soft)?;
        (held.amount > 1).then(|| Lender { currency, ticket, spare: held.amount - 1 })
    })
}
