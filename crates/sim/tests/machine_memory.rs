//! Memory in virtual time against naive models.

use allot_sim::large::random_ledger;
use allot_sim::machine::memory::{Backing, Memory, Presence};
use allot_sim::machine::ticket_clocks::TicketClocks;
use ledger::{CurrencyId, Resource};
use policy::keyed::machine::Funding;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use valuation::{Graph, WHOLE};

const PAGES: u64 = 12;

/// A list of resident pages, the oldest first, with their owners.
struct Naive {
    resident: Vec<(u64, usize)>,
    guaranteed: [u64; 3],
}

impl Naive {
    fn held(&self, owner: usize) -> u64 {
        self.resident.iter().filter(|(_, whose)| *whose == owner).count() as u64
    }

    fn touch(&mut self, page: u64, owner: usize) -> Option<u64> {
        let mut taken = None;
        let owner = match self.resident.iter().position(|(there, _)| *there == page) {
            Some(place) => self.resident.remove(place).1,
            None => {
                if self.resident.len() as u64 == PAGES {
                    let may =
                        |(_, whose): &(u64, usize)| self.held(*whose) > self.guaranteed[*whose];
                    let place = self.resident.iter().position(may).expect("not all is guaranteed");
                    taken = Some(self.resident.remove(place).0);
                }
                owner
            }
        };
        self.resident.push((page, owner));
        taken
    }
}

proptest! {
    #[test]
    fn the_oldest_page_beyond_a_guarantee_goes_first(
        guaranteed in [0u64..6, 0u64..5, 0u64..2],
        touches in proptest::collection::vec((0u64..30, 0usize..3), 1..400),
    ) {
        let mut memory = Memory::new(PAGES);
        let file = memory.add_object(Backing::File, 30);
        for pages in guaranteed {
            let owner = memory.add_owner();
            memory.guarantee(owner, pages);
        }
        let mut naive = Naive { resident: Vec::new(), guaranteed };
        for (now_ns, (page, owner)) in touches.into_iter().enumerate() {
            let now_ns = now_ns as u64;
            let mut taken = None;
            match memory.presence(file, page) {
                Presence::Resident(frame) => memory.touch(frame, false, now_ns),
                _ => {
                    if memory.free_pages() == 0 {
                        let loser = memory.oldest().expect("not all is guaranteed");
                        taken = memory.take(loser).map(|taken| taken.page);
                    }
                    let frame = memory.bring(file, page, owner).expect("a frame is free");
                    memory.arrived(frame, now_ns);
                }
            }
            prop_assert_eq!(taken, naive.touch(page, owner));
            for owner in 0..3 {
                prop_assert_eq!(memory.holdings(owner).held, naive.held(owner));
            }
            memory.audit();
        }
    }

    #[test]
    fn what_is_due_is_the_integral_of_values(
        seed: u64,
        steps in proptest::collection::vec((any::<u16>(), 1u64..5_000_000), 1..80),
    ) {
        let ledger = random_ledger(&mut Pcg64Mcg::seed_from_u64(seed), 40, 6);
        let clients: Vec<CurrencyId> = ledger.clients().map(|(_, id)| id).collect();
        let mut clocks = TicketClocks::of(&ledger);
        let mut graph = Graph::of(&ledger, Resource::CPU);
        let mut due: BTreeMap<CurrencyId, f64> = BTreeMap::new();
        let mut told: BTreeMap<CurrencyId, u64> = BTreeMap::new();
        let mut active: Vec<CurrencyId> = Vec::new();
        let mut service_ns = 1_000;
        for (number, given_ns) in steps {
            let who = clients[usize::from(number) % clients.len()];
            if let Some(place) = active.iter().position(|it| *it == who) {
                *told.entry(who).or_default() += clocks.due_ns(who.0, service_ns);
                active.remove(place);
                clocks.set_active(who.0, false, service_ns);
                graph.set_active(who, false);
            } else {
                active.push(who);
                clocks.set_active(who.0, true, service_ns);
                graph.set_active(who, true);
            }
            for id in &active {
                let part = graph.value(*id) as f64 / WHOLE as f64;
                *due.entry(*id).or_default() += part * given_ns as f64;
            }
            service_ns += given_ns;
        }
        for id in &active {
            *told.entry(*id).or_default() += clocks.due_ns(id.0, service_ns);
        }
        for (id, due) in &due {
            // A nanosecond is dropped whenever somebody leaves; values are rounded down, by a part of the whole for
            // each ticket and level.
            let told = told.get(id).copied().unwrap_or(0) as f64;
            prop_assert!((told - due).abs() < 90.0 + due * 1e-6, "{id:?}: {told}, not {due}");
        }
    }
}
