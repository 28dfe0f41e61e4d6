//! The lives of processes, as the daemon observes them.

use super::Operation;
use super::placement::check_placements;
use crate::broker::Broker;
use crate::writer::Writer;
use crate::{
    Caller, Change, Currency, CurrencyKind, Funding, ISSUED_MAX, JOB_SHARE, Member, NewClient,
    Placements, ProcessIdentity, Refusal, Resource, Rights, Ticket, TicketId, TicketKind,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

family! {
    /// What happens to processes.
    ProcessOperation as Process {
        "fork" => Fork,
        "exit" => Exit,
        "user_changed" => UserChanged,
    }
}

/// A client forked. The child is funded by every issuer that funds its parent (paper 1, 5.2,
/// footnote 3). The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub parent: ProcessIdentity,
    pub child: NewClient,
}

impl Operation for Fork {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        let Fork { parent, child } = self;
        broker.system("report forks")?;
        broker.process(child)?;
        broker.not_yet_client(child)?;
        if let Some(client) = broker.ledger.joined_by(&child.member) {
            return Err(Refusal::AlreadyClient { member: child.member, client });
        }
        let known = broker.ledger.client_of_member(&Member::Process(*parent));
        known.ok_or(Refusal::UnknownProcess(*parent)).map(drop)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.fork(self.parent, self.child);
        writer.join_as_parent(self.parent, self.child);
    }

    fn describe(&self) -> String {
        format!("pid {} forked {}", self.parent.pid, self.child.member.short())
    }
}

/// A member is gone, with the client that it founded; of a process also what its threads have
/// founded or joined. The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    #[serde(flatten)]
    pub member: Member,
}

impl Operation for Exit {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.system("report exits")?;
        broker.particular(self.member, "be gone before the machine is")?;
        broker.known(self.member)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        if let Some(process) = self.member.process() {
            writer.end_threads(process);
        }
        writer.end(self.member);
    }

    fn describe(&self) -> String {
        format!("{} exited", self.member.short())
    }
}

/// A process's real uid or gid changed; where the policy has a place for it its client is funded
/// anew (paper 1, 5.2). What had been arranged between clients of the former user ends: what the
/// process and its threads have joined or its threads founded, who joined its client, and what it
/// has lent; and where the new user has no place, the client itself, for nobody's funding holds
/// what nobody of theirs owns. The system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserChanged {
    pub client: NewClient,
    /// Where the process belongs now; `None` leaves its funding to the same user, and ends another's.
    pub placements: Option<Placements>,
}

impl Operation for UserChanged {
    fn check(&self, broker: &Broker<'_>) -> Result<(), Refusal> {
        broker.system("report changes of user")?;
        broker.process(&self.client)?;
        broker.known(self.client.member)?;
        self.placements.iter().try_for_each(check_placements)
    }

    fn apply(self, writer: &mut Writer<'_>) {
        writer.change_user(self.client, self.placements.as_ref());
    }

    fn describe(&self) -> String {
        format!("{} now belongs to uid {}", self.client.member.short(), self.client.uid)
    }
}

impl Writer<'_> {
    fn change_user(&mut self, client: NewClient, placements: Option<&Placements>) {
        let own = self.ledger.founded_by(&client.member);
        let owner = own.map(|id| self.ledger.currency(id).expect("it exists").record.owner);
        if owner != Some(client.uid) {
            self.join(client.member, None);
            self.end_threads(client.member.process().expect("the broker found a process"));
            if let Some(id) = own {
                self.dismiss(id);
                self.take_back_all(id);
                self.end_trades_of(id);
            }
        }
        let Some(id) = own else { return };
        if owner != Some(client.uid) && placements.is_none() {
            self.destroy(id);
            return;
        }
        self.edit(id, |record| {
            record.owner = client.uid;
            record.group = client.gid;
        });
        if let Some(placements) = placements {
            self.revoke_all(id, |ticket| ticket.kind != TicketKind::Transfer);
            self.edit(id, |record| {
                if let CurrencyKind::Client { placed, .. } = &mut record.kind {
                    *placed = true;
                }
            });
            self.place(id, placements);
        }
    }

    /// A child is tagged as its parent (paper 2, 2.5), unless it has become somebody else's who
    /// might not join that client themselves.
    fn join_as_parent(&mut self, parent: ProcessIdentity, child: NewClient) {
        let Some(id) = self.ledger.joined_by(&Member::Process(parent)) else { return };
        let client = self.ledger.currency(id).expect("what was joined exists");
        let own = self.ledger.client_of(parent).and_then(|id| self.ledger.currency(id));
        let as_parent = own.is_some_and(|own| own.record.owner == child.uid);
        let caller = Caller { uid: child.uid, gid: child.gid, groups: Vec::new(), process: None };
        let may = child.uid == client.record.owner || self.may_surely_issue(&caller, client);
        if as_parent || may {
            self.join(child.member, Some(id));
        }
    }

    /// A member is gone.
    fn end(&mut self, member: Member) {
        self.join(member, None);
        if let Some(client) = self.ledger.founded_by(&member) {
            self.destroy(client);
        }
    }

    fn end_threads(&mut self, process: ProcessIdentity) {
        for thread in self.ledger.threads_of(process) {
            self.end(thread);
        }
    }

    /// A child is funded by every issuer that funds its parent (paper 1, footnote 3). Where the
    /// child's user may not issue, its ticket must come out of the parent's, or a fork would
    /// dilute the issuer's others: the parent's ticket then backs a job currency that funds
    /// both. What others have lent the parent is not the child's. A guest's child is a guest, and a
    /// limited one's has the same limits.
    fn fork(&mut self, parent: ProcessIdentity, child: NewClient) {
        let Some(parent) = self.ledger.client_of(parent) else { return };
        let (placed, class) = match self.ledger.currency(parent).map(|c| &c.record.kind) {
            Some(CurrencyKind::Client { placed, class, .. }) => (*placed, *class),
            _ => unreachable!("a process's currency is a client"),
        };
        let caller = Caller {
            uid: child.uid,
            gid: child.gid,
            groups: Vec::new(),
            process: self.ledger.currency(parent).and_then(|currency| currency.process()),
        };
        let held: Vec<(TicketId, Ticket)> = self
            .ledger
            .backing(parent)
            .filter(|(_, ticket)| ticket.kind != TicketKind::Transfer)
            .map(|(id, ticket)| (id, ticket.clone()))
            .collect();
        let id = self.new_client(child, placed, class);
        let limits = self.ledger.currency(parent).map(|currency| currency.record.limits.clone());
        self.edit(id, |record| record.limits = limits.unwrap_or_default());
        let mut shared = Vec::new();
        for (ticket_id, ticket) in held {
            if self.may_inflate(&caller, &ticket) {
                self.issue(Ticket { holder: id, ..ticket });
            } else {
                shared.push((ticket_id, ticket));
            }
        }
        if shared.is_empty() {
            return;
        }
        let (owner, group) = self.owner_of_base();
        let family = self.create_job(owner, group, Vec::new());
        let resources: BTreeSet<Resource> =
            shared.iter().map(|(_, ticket)| ticket.resource.clone()).collect();
        for (ticket_id, ticket) in shared {
            self.write(Change::Ticket {
                id: ticket_id,
                after: Some(Ticket { holder: family, ..ticket.clone() }),
                before: Some(ticket),
            });
        }
        for resource in resources {
            self.fund(parent, family, &Funding::soft(&resource, JOB_SHARE));
            self.fund(id, family, &Funding::soft(&resource, JOB_SHARE));
        }
    }

    /// Whether the child may have a ticket like its parent's besides. In a family yes: it is
    /// there to be shared. A niced job is its owner's, like any currency: others whom that
    /// funds share what they hold.
    fn may_inflate(&self, caller: &Caller, ticket: &Ticket) -> bool {
        let issuer = self.ledger.currency(ticket.issuer).expect("an issuer exists");
        let family = match &issuer.record.kind {
            CurrencyKind::Job { loans } => loans.is_empty(),
            _ => false,
        };
        let allowed = family || self.may_surely_issue(caller, issuer);
        let room = issuer.issued_of(&ticket.resource).soft + ticket.amount <= ISSUED_MAX;
        allowed && room && ticket.kind == TicketKind::Soft
    }

    /// Whether `i` is a caller's whose supplementary groups are not known: it must not hang on
    /// them, either way.
    fn may_surely_issue(&self, caller: &Caller, currency: &Currency) -> bool {
        let member = Caller { groups: vec![currency.record.group], ..caller.clone() };
        let may = |caller| self.ledger.rights(caller, currency).contain(Rights::ISSUE);
        may(caller) && may(&member)
    }
}
