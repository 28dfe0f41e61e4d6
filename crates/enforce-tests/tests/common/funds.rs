//! Funding graphs for tests, made through the ledger's own operations.

use enforcer::{Plan, PlannedClient, PlannedLimit};
use ledger::operation::{
    Adopt, CreateCurrency, Fund, LimitDisk, MakeExchange, Release, SetClass, SetMemory,
};
use ledger::{
    Authority, Caller, Class, CurrencyId, Funding, Good, Intent, Ledger, Leg, Member, Mode,
    NewClient, Resource, TicketKind,
};

/// A ledger, changed by its superuser.
pub struct Funds {
    ledger: Ledger,
    frozen: Vec<CurrencyId>,
}

fn soft(amount: u64) -> Funding {
    Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount }
}

impl Funds {
    /// An empty ledger.
    pub fn new() -> Funds {
        Funds { ledger: Ledger::new(0, 0), frozen: Vec::new() }
    }

    fn act(&mut self, intent: Intent) {
        let caller = Caller { uid: 0, gid: 0, groups: Vec::new(), process: None };
        let authorised = ledger::decide(&self.ledger, Authority::Caller(caller), intent)
            .expect("the superuser may");
        self.ledger.apply(authorised);
    }

    /// A pure currency with soft tickets from base.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn currency(&mut self, name: &str, amount: u64) -> CurrencyId {
        let holder = self.unfunded(name);
        self.act(Intent::from(Fund { holder, issuer: ledger::BASE, funding: soft(amount) }));
        holder
    }

    /// A pure currency without tickets.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn unfunded(&mut self, name: &str) -> CurrencyId {
        self.act(Intent::from(CreateCurrency {
            name: name.to_owned(),
            owner: 0,
            group: 0,
            mode: Mode::PRIVATE,
        }));
        self.ledger.named(0, name).expect("just made")
    }

    /// More soft tickets, from another currency.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn fund(&mut self, holder: CurrencyId, issuer: CurrencyId, amount: u64) {
        self.act(Intent::from(Fund { holder, issuer, funding: soft(amount) }));
    }

    /// More tickets of either kind, from another currency.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn fund_with(
        &mut self,
        holder: CurrencyId,
        issuer: CurrencyId,
        kind: TicketKind,
        amount: u64,
    ) {
        let funding = Funding { resource: Resource::CPU, kind, amount };
        self.act(Intent::from(Fund { holder, issuer, funding }));
    }

    /// Tickets of any resource.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn fund_of(&mut self, holder: CurrencyId, issuer: CurrencyId, funding: Funding) {
        self.act(Intent::from(Fund { holder, issuer, funding }));
    }

    /// How much memory base has to promise.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn memory(&mut self, kib: u64) {
        self.act(Intent::from(SetMemory { kib }));
    }

    /// A process with soft tickets from a currency.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn client(&mut self, issuer: CurrencyId, amount: u64, pid: u32) -> CurrencyId {
        let process = observe::ProcessHandle::open(pid).expect("it lives").identity();
        let client = NewClient::process(process, 0, 0);
        self.act(Intent::from(Adopt { client, issuer, funding: vec![soft(amount)] }));
        self.ledger.client_of(process).expect("just made")
    }

    /// Soft base tickets of the CPU go from one to the other.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn lend(&mut self, giver: CurrencyId, receiver: CurrencyId, amount: u64) {
        let good = Good { resource: Resource::CPU, kind: TicketKind::Soft };
        let legs = vec![Leg { giver, receiver, good, amount }];
        self.act(Intent::from(MakeExchange { legs, until_s: None }));
    }

    /// Whoever it is, with soft tickets from a currency.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn member(&mut self, issuer: CurrencyId, amount: u64, member: Member) -> CurrencyId {
        let client = NewClient { member, uid: 0, gid: 0 };
        self.act(Intent::from(Adopt { client, issuer, funding: vec![soft(amount)] }));
        self.ledger.founded_by(&member).expect("just made")
    }

    /// Whether a client is to be frozen.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn freeze(&mut self, client: CurrencyId, frozen: bool) {
        self.frozen.retain(|id| *id != client);
        if frozen {
            self.frozen.push(client);
        }
    }

    /// It competes with no host from now on.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn guest(&mut self, client: CurrencyId) {
        self.act(Intent::from(SetClass { client, class: Class::Guest }));
    }

    /// A hard cap on a disk, in reads a second; none takes it back.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn limit_reads(&mut self, currency: CurrencyId, disk: &str, reads: Option<u64>) {
        let limit = ledger::DiskLimit { reads, ..ledger::DiskLimit::default() };
        let resource = Resource::disk(disk);
        self.act(Intent::from(LimitDisk { currency, resource, limit }));
    }

    /// No client any more.
    #[allow(dead_code, reason = "not every user of this file needs it")]
    pub fn release(&mut self, client: CurrencyId) {
        self.act(Intent::from(Release { client, named: false }));
    }

    /// All of it as a plan.
    pub fn plan(&self, generation: u64) -> Plan {
        let mut clients: Vec<PlannedClient> = self
            .ledger
            .clients()
            .map(|(founder, id)| PlannedClient {
                frozen: self.frozen.contains(&id),
                ..PlannedClient::of(id, founder)
            })
            .collect();
        clients.sort_by_key(|client| client.id);
        let resources: std::collections::BTreeSet<Resource> =
            self.ledger.tickets().map(|(_, ticket)| ticket.resource.clone()).collect();
        let graph = |resource| valuation::Graph::of(&self.ledger, resource);
        let of = |resource: Resource| (resource.clone(), graph(resource));
        Plan {
            generation,
            graphs: resources.into_iter().chain([Resource::CPU]).map(of).collect(),
            clients,
            limits: PlannedLimit::all(&self.ledger),
        }
    }
}
