//! A network link: one packet at a time, in the order of a weighted fair queue by finish tags (a [`FairQueue`]
//! with batches of one), or of arrival. Nothing is lost, and what is received is not modelled.

use std::collections::BTreeMap;

use ledger::{Change, CurrencyId, Ledger, Resource};
use policy::yfq::RequestKey;

use super::fair_queue::{Discipline, FairQueue};

/// How a link is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Bytes a second, at least 1.
    pub bytes_per_s: u64,
    /// Who sends next.
    pub discipline: Discipline,
}

impl Default for LinkSettings {
    /// 100 Mbit/s by tickets.
    fn default() -> Self {
        LinkSettings { bytes_per_s: 12_500_000, discipline: Discipline::Fair }
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet<P> {
    client: CurrencyId,
    bytes: u64,
    purpose: P,
}

/// A link with its queue. `P` is what its user keeps with a packet.
#[derive(Debug)]
pub struct Link<P> {
    queue: FairQueue,
    settings: LinkSettings,
    packets: BTreeMap<RequestKey, Packet<P>>,
    next_packet: RequestKey,
}

impl<P: Copy> Link<P> {
    /// An idle link.
    pub fn new(ledger: &Ledger, resource: Resource, settings: LinkSettings) -> Self {
        Link {
            queue: FairQueue::new(ledger, resource, settings.discipline, 1),
            settings,
            packets: BTreeMap::new(),
            next_packet: 0,
        }
    }

    /// Follows a change of the ledger.
    pub fn follow(&mut self, change: &Change) {
        self.queue.follow(change);
    }

    /// The queue, for questions about values.
    pub fn queue(&mut self) -> &mut FairQueue {
        &mut self.queue
    }

    /// A packet waits; call [`Link::start`] afterwards.
    pub fn submit(&mut self, client: CurrencyId, bytes: u64, purpose: P) {
        let key = self.next_packet;
        self.next_packet += 1;
        self.queue.submit(client, key, bytes);
        self.packets.insert(key, Packet { client, bytes, purpose });
    }

    /// Begins the next packet, if the link is free; answers which, and when it is sent.
    pub fn start(&mut self, now_ns: u64) -> Option<(RequestKey, u64)> {
        let (_, key) = self.queue.dispatch()?;
        let bytes = u128::from(self.packets[&key].bytes);
        let took_ns = (bytes * 1_000_000_000).div_ceil(u128::from(self.settings.bytes_per_s));
        Some((key, now_ns + took_ns as u64))
    }

    /// A packet is sent; answers whose it was, its bytes and its purpose. Call [`Link::start`] afterwards.
    ///
    /// # Panics
    /// When it was not begun: a broken invariant.
    pub fn complete(&mut self, key: RequestKey) -> (CurrencyId, u64, P) {
        let packet = self.packets.remove(&key).expect("the packet was begun");
        self.queue.complete(packet.client, key);
        (packet.client, packet.bytes, packet.purpose)
    }
}
