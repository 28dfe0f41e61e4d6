//! The machine's ledger: intents, and what follows from them.
use ledger::operation::{Adopt, CreateCurrency, Fund, SetClass};

use ledger::{
    Authority, BASE, Caller, Change, Class, CurrencyId, CurrencyKind, Funding, Intent, KindName,
    Ledger, Mode, NewClient, ProcessIdentity, Refusal, Resource, TicketKind, decide,
};
use policy::idle::Idle;
use std::collections::VecDeque;

use super::{Client, DISK, LINK, Machine, TicketsCount, Usage};

/// Values are rounded down by less than so many parts of the whole, along any path that is not absurd. All that is
/// added by it, for a million clients and pages, is at most a page in all.
const ROUNDING_PARTS: u64 = 1 << 8;

/// Root, who may do everything.
pub fn root() -> Authority {
    Authority::Caller(Caller { uid: 0, gid: 0, groups: Vec::new(), process: None })
}

/// Tickets for one resource.
pub fn funding(resource: Resource, kind: TicketKind, amount: u64) -> Funding {
    Funding { resource, kind, amount }
}

/// The machine's disk, as the ledger names it.
pub fn disk() -> Resource {
    Resource::disk(DISK)
}

/// The machine's link, as the ledger names it.
pub fn link() -> Resource {
    Resource::net(LINK)
}

impl Machine {
    /// Asks the broker; what it allows is done, and everything follows. A new client is ready to have threads.
    ///
    /// # Errors
    /// The broker's refusal; nothing has changed.
    pub fn ask(&mut self, authority: Authority, intent: Intent) -> Result<Vec<Change>, Refusal> {
        let authorised = decide(&self.ledger, authority, intent)?;
        let changes = self.ledger.apply(authorised);
        for change in &changes {
            self.cpus.funding.follow(change);
            self.memory_graph.follow(change);
            self.disk.follow(change);
            self.link.follow(change);
            match change {
                Change::Currency { id, before: None, after: Some(record) } => {
                    if matches!(record.kind, CurrencyKind::Client { .. }) {
                        self.admit(*id);
                    }
                }
                Change::Currency { .. } | Change::Exchange { .. } => self.guarantees_stale = true,
                Change::Ticket { before, after, .. } => {
                    let memory = |ticket: &ledger::Ticket| ticket.resource.is_amount();
                    self.guarantees_stale |= before.iter().chain(after).any(memory);
                }
                _ => {}
            }
        }
        Ok(changes)
    }

    /// A pure currency with tickets from `issuer`, made by root.
    ///
    /// # Errors
    /// The broker's refusal. The currency may be there without its tickets.
    pub fn add_currency(
        &mut self,
        name: &str,
        issuer: CurrencyId,
        tickets: &[Funding],
    ) -> Result<CurrencyId, Refusal> {
        let name = name.to_owned();
        let create = Intent::from(CreateCurrency { name, owner: 0, group: 0, mode: Mode::PRIVATE });
        let holder = created(&self.ask(root(), create)?);
        for funding in tickets {
            let funding = funding.clone();
            self.ask(root(), Intent::from(Fund { holder, issuer, funding }))?;
        }
        Ok(holder)
    }

    /// A client with tickets from `issuer`, adopted by root: a process that does nothing yet.
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn add_client(
        &mut self,
        issuer: CurrencyId,
        tickets: &[Funding],
    ) -> Result<CurrencyId, Refusal> {
        let pid = self.clients.len() as u32 + 1;
        let process = ProcessIdentity { pid, start_time_ticks: 0 };
        let client = NewClient::process(process, 0, 0);
        let adopt = Intent::from(Adopt { client, issuer, funding: tickets.to_vec() });
        Ok(created(&self.ask(root(), adopt)?))
    }

    /// A client competes with no host from now on (paper 4, section 2).
    ///
    /// # Errors
    /// The broker's refusal.
    pub fn make_guest(&mut self, client: CurrencyId) -> Result<(), Refusal> {
        self.ask(root(), Intent::from(SetClass { client, class: Class::Guest })).map(drop)
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What a client is due now of a resource, in parts of [`valuation::WHOLE`]; 0 of a resource that the machine
    /// does not have.
    pub fn value(&mut self, resource: &Resource, client: CurrencyId) -> u64 {
        match (resource.kind(), resource.instance()) {
            (KindName::CPU, None) => self.cpus.funding.graph().value(client),
            (KindName::MEMORY, None) => self.memory_graph.value(client),
            (KindName::DISK, Some(DISK)) => self.disk.queue().graph().value(client),
            (KindName::NET, Some(LINK)) => self.link.queue().graph().value(client),
            _ => 0,
        }
    }

    /// How many pages base's memory tickets divide.
    pub fn reservable_pages(&self) -> u64 {
        self.settings.memory.pages - self.settings.memory.free_high_pages
    }

    fn admit(&mut self, id: CurrencyId) {
        let place = self.clients.len();
        self.client_places.insert(id, place);
        self.cpus.add_client(id.0);
        self.clients.push(Client {
            id,
            owner: self.memory.add_owner(),
            runnable: 0,
            usage: Usage::default(),
            writing_back: 0,
            waiting_to_change: VecDeque::new(),
            active_pages: 0,
            refaults_seen: 0,
            refault_rate: 0,
            idle: match self.settings.memory.tickets {
                TicketsCount::UnlessIdle(options) => Some(Idle::new(options)),
                TicketsCount::Always | TicketsCount::WhileRunnable => None,
            },
        });
        if self.settings.memory.tickets != TicketsCount::WhileRunnable {
            self.memory_graph.set_active(id, true);
        }
    }

    /// After changes of tickets, before anything happens.
    pub(super) fn settle_guarantees(&mut self) {
        if std::mem::replace(&mut self.guarantees_stale, false) {
            (0..self.clients.len()).for_each(|place| self.settle_guarantee(place));
        }
    }

    /// A client's memory tickets count from now on, or no longer.
    pub(super) fn count_memory_tickets(&mut self, place: usize, count: bool) {
        if self.memory_graph.set_active(self.clients[place].id, count) {
            self.settle_guarantee(place);
        }
    }

    /// A client is sure to keep its part of all that can be had, while its tickets count. Hard tickets from base
    /// are an amount: they do not grow when others' are not active.
    fn settle_guarantee(&mut self, place: usize) {
        let Client { id, owner, .. } = self.clients[place];
        let counts = self.settings.memory.guarantees && self.memory_graph.is_active(id);
        let sure = if counts { self.memory_graph.guaranteed(id) } else { 0 };
        // A share that is whole pages but for the rounding of values is that many.
        let sure = if sure > 0 { sure + ROUNDING_PARTS } else { 0 };
        let pages = u128::from(self.reservable_pages()) * u128::from(sure);
        self.memory.guarantee(owner, (pages / u128::from(valuation::WHOLE)) as u64);
    }
}

/// The first currency that was made.
fn created(changes: &[Change]) -> CurrencyId {
    let made = changes.iter().find_map(|change| match change {
        Change::Currency { id, before: None, .. } => Some(*id),
        _ => None,
    });
    made.unwrap_or(BASE)
}
