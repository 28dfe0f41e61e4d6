//! Pages come, are taken when memory is short, and are written back.

use ledger::Class;
use policy::reclaim::Holder;
use policy::yfq::RequestKey;

use super::disk::Request;
use super::memory::{FrameId, OwnerId, PAGE_BYTES, Presence, Taken};
use super::{Event, LOOK_NS, Machine, Noted, Purpose, Rule};

/// A refault rate is averaged over about so many [`LOOK_NS`].
const RATE_LOOKS: u64 = 8;
/// The unit of refault rates is a page a second, divided by this.
const RATE_PARTS: u64 = 1024;

impl Machine {
    pub(super) fn disk_done(&mut self, key: RequestKey) {
        let now_ns = self.now_ns();
        let request = self.disk.complete(now_ns, key);
        let place = self.client_places[&request.client];
        let usage = &mut self.clients[place].usage;
        usage.disk_requests += 1;
        match request.write {
            true => usage.disk_written_bytes += request.bytes(),
            false => usage.disk_read_bytes += request.bytes(),
        }
        match request.purpose {
            Purpose::Direct { thread } => self.ready.push_back(thread),
            Purpose::Arrive { object, page } => {
                for page in page..page + request.pages {
                    let Presence::InTransit(frame) = self.memory.presence(object, page) else {
                        unreachable!("page {page} of object {object} is being read")
                    };
                    self.memory.arrived(frame, now_ns);
                    self.ready.extend(self.waiting_for_page.remove(&frame).unwrap_or_default());
                }
                // What could not be taken while it was read can be now.
                self.balance();
            }
            Purpose::Written { frame } => self.memory.written(frame, now_ns),
            Purpose::Cleaned { frame, client } => self.page_cleaned(frame, client),
        }
    }

    fn page_cleaned(&mut self, frame: FrameId, place: usize) {
        self.memory.written(frame, self.clock.now_ns());
        self.balance();
        self.clients[place].writing_back -= 1;
        self.write_back(place);
        let dirty = self.memory.holdings(self.clients[place].owner).dirty;
        if dirty < self.settings.memory.dirty_limit_pages {
            self.ready.extend(self.clients[place].waiting_to_change.drain(..));
        }
    }

    /// Takes pages if few are free.
    pub(super) fn balance(&mut self) {
        let settings = self.settings.memory;
        if self.memory.free_pages() >= settings.free_low_pages {
            return;
        }
        while self.spare_pages() < settings.free_high_pages {
            let missing = settings.free_high_pages - self.spare_pages();
            let Some((owner, pages)) = self.choose(missing) else { return };
            for _ in 0..pages {
                let Some(taken) = self.memory.take(owner) else { break };
                self.note(Noted::Taken, u64::from(taken.frame));
                if taken.dirty {
                    self.write(owner, taken, Purpose::Written { frame: taken.frame });
                }
            }
        }
    }

    /// Who loses pages, and how many.
    fn choose(&mut self, missing: u64) -> Option<(OwnerId, u64)> {
        let Rule::Policy { .. } = self.rule else {
            return self.memory.oldest().map(|owner| (owner, 1));
        };
        // An owner's number is its client's place.
        let owners: Vec<OwnerId> = self.memory.holders().collect();
        let holders: Vec<Holder> = owners.iter().map(|owner| self.holder(*owner)).collect();
        let Rule::Policy { policy, draw_pages } = &mut self.rule else { unreachable!("it is one") };
        let chosen = policy.choose(&holders)?;
        let excess = holders[chosen].excess_bytes() / PAGE_BYTES;
        Some((owners[chosen], missing.min(*draw_pages).min(excess)))
    }

    fn holder(&mut self, owner: OwnerId) -> Holder {
        let client = &self.clients[owner];
        let holdings = self.memory.holdings(owner);
        let class = self.ledger.currency(client.id).map(|currency| currency.class());
        Holder {
            key: client.id.0,
            tickets: self.memory_graph.value(client.id),
            held_bytes: holdings.held * PAGE_BYTES,
            guaranteed_bytes: holdings.guaranteed * PAGE_BYTES,
            active_bytes: client.active_pages.min(holdings.held) * PAGE_BYTES,
            guest: class == Some(Class::Guest),
            refaults: client.refault_rate,
        }
    }

    /// Who is busy, and what policies are told of clients.
    pub(super) fn look(&mut self) {
        let now_ns = self.now_ns();
        self.clock.schedule(now_ns + LOOK_NS, Event::Look);
        for place in 0..self.clients.len() {
            let used_ns = self.cpus.used_ns(self.clients[place].id.0);
            if let Some(idle) = &mut self.clients[place].idle {
                let count = idle.observe(now_ns, used_ns);
                self.count_memory_tickets(place, count);
            }
        }
        if matches!(self.rule, Rule::ByAge) {
            return;
        }
        let since_ns = now_ns.saturating_sub(self.settings.memory.active_ns);
        for client in &mut self.clients {
            client.active_pages = self.memory.used_since(client.owner, since_ns);
            let refaults = self.memory.holdings(client.owner).refaults;
            let lately = (refaults - client.refaults_seen) * RATE_PARTS * 1_000_000_000 / LOOK_NS;
            client.refaults_seen = refaults;
            let past = client.refault_rate * (RATE_LOOKS - 1);
            client.refault_rate = (past + lately) / RATE_LOOKS;
        }
    }

    /// Writes back what a client has changed beyond what it may keep so.
    pub(super) fn write_back(&mut self, place: usize) {
        let owner = self.clients[place].owner;
        let settings = self.settings.memory;
        while self.clients[place].writing_back < settings.write_back_depth
            && self.memory.holdings(owner).dirty > settings.dirty_background_pages
        {
            let Some(page) = self.memory.clean(owner) else { return };
            self.clients[place].writing_back += 1;
            let purpose = Purpose::Cleaned { frame: page.frame, client: place };
            self.write(owner, page, purpose);
        }
    }

    fn write(&mut self, owner: OwnerId, page: Taken, purpose: Purpose) {
        let place = self.places[page.object] + page.page;
        let client = self.clients[owner].id;
        let request = Request { client, place, pages: 1, write: true, purpose };
        self.disk.submit(self.clock.now_ns(), request);
    }
}
