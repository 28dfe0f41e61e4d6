//! Random operations on a ledger, and how two ledgers are compared.
#![allow(dead_code)] // Each test uses its part.

use allot_journal::{Journal, JournalError};
use ledger::operation::{
    Adopt, ChangeMode, ChangeOwner, CreateCurrency, DestroyCurrency, Exit, Fork, Fund, Grant, Join,
    LimitDisk, Nice, Place, Release, SetClass, Transfer, Unfund, UserChanged,
};
use ledger::{
    Authority, BASE, Caller, Change, Class, CurrencyId, DiskLimit, Funding, Intent, Ledger, Mode,
    NewClient, Placement, Placements, PolicyKey, ProcessIdentity, Resource, Rights, Subject,
    TicketKind, decide,
};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

pub const BOOT: &str = "00000000-0000-4000-8000-000000000001";

/// The seed of a test: `ALLOT_SEED`, or one that differs from run to run. Printed either way.
pub fn seed(test: &str) -> u64 {
    let seed = match std::env::var("ALLOT_SEED") {
        Ok(seed) => seed.parse().expect("ALLOT_SEED is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now();
            let now = now.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
            (now.as_nanos() as u64) ^ (u64::from(std::process::id()) << 32)
        }
    };
    eprintln!("{test}: ALLOT_SEED={seed} repeats this");
    seed
}

/// A number from the environment.
pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(number) => number.parse().unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => otherwise,
    }
}

/// All of a ledger, indexes included, without its version, which counts the writes that led to
/// it and is smaller after a snapshot.
pub fn fingerprint(ledger: &Ledger) -> String {
    let text = format!("{ledger:?}");
    let (before, rest) = text.split_once(", version: ").expect("a ledger has a version");
    let (_, after) = rest.split_once(',').expect("the version is not last");
    blake3::hash(format!("{before}{after}").as_bytes()).to_hex().to_string()
}

/// One operation that was done.
pub struct Done {
    pub authority: Authority,
    pub intent: Intent,
    pub changes: Vec<Change>,
}

/// A source of random operations.
pub struct Workload {
    pub dice: Pcg64,
    next_pid: u32,
}

impl Workload {
    pub fn new(seed: u64) -> Workload {
        Workload { dice: Pcg64::seed_from_u64(seed), next_pid: 100 }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.dice.next_u64() % limit as u64) as usize
    }

    /// Do one random operation, trying until the broker allows one.
    pub fn step(&mut self, ledger: &mut Ledger) -> Done {
        loop {
            let (authority, intent) = self.propose(ledger);
            if let Ok(authorised) = decide(ledger, authority.clone(), intent.clone()) {
                let changes = ledger.apply(authorised);
                return Done { authority, intent, changes };
            }
        }
    }

    /// Do `count` operations in one batch; answers its last number.
    pub fn batch(
        &mut self,
        journal: &mut Journal,
        ledger: &mut Ledger,
        count: usize,
    ) -> Result<u64, JournalError> {
        let mut batch = journal.begin()?;
        for _ in 0..count {
            let at_unix_ms = self.dice.next_u64() >> 20;
            let Done { authority, intent, changes } = self.step(ledger);
            batch.append(at_unix_ms, &authority, &intent, &changes)?;
        }
        batch.commit()
    }

    fn propose(&mut self, ledger: &Ledger) -> (Authority, Intent) {
        let uid = [0, 1000, 1001, 1002][self.below(4)];
        let caller = Authority::Caller(Caller { uid, gid: uid, groups: vec![100], process: None });
        let crowded = ledger.currency_count() > 80;
        let kind = if crowded { [6, 9, 12, 5][self.below(4)] } else { self.below(18) };
        match kind {
            0 | 1 => {
                let name = format!("c{}", self.below(40));
                let mode = Mode::new(Rights::ALL, Rights::FUND, Rights::ISSUE);
                (caller, Intent::from(CreateCurrency { name, owner: uid, group: uid, mode }))
            }
            2..=4 => {
                let (holder, issuer) = (self.currency(ledger), self.currency(ledger));
                (caller, Intent::from(Fund { holder, issuer, funding: self.funding() }))
            }
            5 => {
                let all: Vec<_> = ledger.tickets().map(|(_, ticket)| ticket.clone()).collect();
                if all.is_empty() {
                    return self.propose(ledger);
                }
                let ticket = all[self.below(all.len())].clone();
                let (holder, issuer) = (ticket.holder, ticket.issuer);
                let (resource, kind) = (ticket.resource, ticket.kind);
                (caller, Intent::from(Unfund { holder, issuer, resource, kind }))
            }
            6 => (caller, Intent::from(DestroyCurrency { currency: self.currency(ledger) })),
            7 => {
                let currency = self.currency(ledger);
                match self.below(3) {
                    0 => (caller, Intent::from(ChangeMode { currency, mode: Mode::PRIVATE })),
                    1 => {
                        let owner = Some([1000, 1001][self.below(2)]);
                        (caller, Intent::from(ChangeOwner { currency, owner, group: Some(100) }))
                    }
                    _ => {
                        let subject = Subject::Uid(1000 + self.below(3) as u32);
                        let rights = [Rights::NONE, Rights::FUND, Rights::ALL][self.below(3)];
                        (caller, Intent::from(Grant { currency, subject, rights }))
                    }
                }
            }
            8 => {
                let funding = (0..self.below(3)).map(|_| self.funding()).collect();
                let issuer = self.currency(ledger);
                (caller, Intent::from(Adopt { client: self.client(uid), issuer, funding }))
            }
            9 => (caller, Intent::from(Release { client: self.currency(ledger), named: false })),
            10 => {
                let amount = 1 + self.below(500) as u64;
                let client = self.client(uid);
                (caller, Intent::from(Nice { client, resource: Resource::CPU, amount }))
            }
            11 => {
                let (client, placements) = (self.client(uid), placements(uid));
                (Authority::System, Intent::from(Place { client, placements }))
            }
            12 => match self.process(ledger) {
                Some(process) => (Authority::System, Intent::from(Exit { member: process.into() })),
                None => self.propose(ledger),
            },
            13 => {
                let (member, client) = (self.client(uid), self.currency(ledger));
                (caller, Intent::from(Join { member, client }))
            }
            14 => {
                let (lender, holder) = (self.currency(ledger), self.currency(ledger));
                (caller, Intent::from(Transfer { lender, holder, resource: Resource::CPU }))
            }
            15 => {
                let class = [Class::Host, Class::Guest][self.below(2)];
                (caller, Intent::from(SetClass { client: self.currency(ledger), class }))
            }
            16 => {
                let (resource, reads) = (Resource::disk("sda"), [None, Some(100)]);
                let limit = DiskLimit { reads: reads[self.below(2)], ..DiskLimit::default() };
                (
                    caller,
                    Intent::from(LimitDisk { currency: self.currency(ledger), resource, limit }),
                )
            }
            _ => match self.process(ledger) {
                Some(process) if self.below(2) == 0 => {
                    let client = NewClient::process(process, uid, uid);
                    let placements = Some(placements(uid));
                    (Authority::System, Intent::from(UserChanged { client, placements }))
                }
                Some(parent) => {
                    let child = self.client(uid);
                    (Authority::System, Intent::from(Fork { parent, child }))
                }
                None => self.propose(ledger),
            },
        }
    }

    fn currency(&mut self, ledger: &Ledger) -> CurrencyId {
        if self.below(4) == 0 {
            return BASE;
        }
        let place = self.below(ledger.currency_count());
        ledger.currencies().nth(place).expect("there are that many").id
    }

    fn process(&mut self, ledger: &Ledger) -> Option<ProcessIdentity> {
        let count = ledger.processes().count();
        if count == 0 {
            return None;
        }
        let place = self.below(count);
        ledger.processes().nth(place).map(|(process, _)| process)
    }

    fn client(&mut self, uid: u32) -> NewClient {
        self.next_pid += 1;
        let start_time_ticks = self.dice.next_u64() >> 12;
        let process = ProcessIdentity { pid: self.next_pid, start_time_ticks };
        NewClient::process(process, uid, uid)
    }

    fn funding(&mut self) -> Funding {
        let kinds = [Resource::CPU, Resource::CPU, Resource::MEMORY, Resource::disk("vda")];
        let resource = kinds[self.below(4)].clone();
        let kind = if self.below(5) == 0 { TicketKind::Hard } else { TicketKind::Soft };
        Funding { resource, kind, amount: self.below(900) as u64 }
    }
}

/// One currency for each user.
pub fn placements(uid: u32) -> Placements {
    let cpu = |amount| Funding { resource: Resource::CPU, kind: TicketKind::Soft, amount };
    Placements {
        levels: vec![Placement {
            key: PolicyKey::User(uid),
            name: format!("user-{uid}"),
            owner: uid,
            group: uid,
            mode: Mode::PRIVATE,
            funding: vec![cpu(1000)],
            limits: Default::default(),
        }],
        process: vec![cpu(100)],
    }
}
