//! A disk: seek, rotation and transfer behind a queue, or a device that takes the same time for everything.
//!
//! 1. Requests wait in a [`FairQueue`]; up to the device's **depth** of them are in service at a time.
//! 2. **One head** ([`Service::Rotating`]): of the requests in service it serves the nearest ahead, and from the
//!    rearmost again when none is (C-LOOK, so that none of a batch starves). The time is the seek (the square root
//!    of the distance, scaled from the shortest to the full stroke), the wait for the sector (uniform in one
//!    turn; none for what follows the request served last, if the head has not stood still), and the transfer.
//! 3. **Constant** ([`Service::Constant`]): each of the depth serves on its own, as null_blk with
//!    `completion_nsec` does.
//! 4. **Anticipation** (Iyer & Druschel 2001; BFQ's `slice_idle`): a client that reads one block after the other has
//!    no request for the moment that it computes. If its next would come first, the device is kept for it for
//!    at most `anticipate_ns`. Who was waited for in vain is not again until it has come back in time once.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Change, CurrencyId, Ledger, Resource};
use policy::yfq::RequestKey;

use super::chance::Chance;
use super::fair_queue::{Discipline, FairQueue};
use super::memory::PAGE_BYTES;

/// How long a request takes in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// One head over turning platters.
    Rotating {
        /// To the neighbouring track.
        seek_min_ns: u64,
        /// Over all of them.
        seek_max_ns: u64,
        /// One turn.
        rotation_ns: u64,
        /// For one page.
        transfer_ns: u64,
        /// Pages from one end to the other.
        span_pages: u64,
    },
    /// The same for every request, whatever its length and place.
    Constant {
        /// From the device's taking it to its end.
        service_ns: u64,
    },
}

impl Service {
    /// About paper 1's disk (a Conner CFP2105S: 5400 turns a minute, 9 ms of seek on average over a third of
    /// the stroke, 5 MB/s): some 70 random pages a second.
    pub const OF_PAPER_1: Service = Service::Rotating {
        seek_min_ns: 2_000_000,
        seek_max_ns: 15_000_000,
        rotation_ns: 11_111_111,
        transfer_ns: 800_000,
        span_pages: 522_000,
    };
}

/// How a disk is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSettings {
    /// How long a request takes.
    pub service: Service,
    /// How many requests the device takes at a time, at least 1; also the batch of the queue before it.
    pub depth: usize,
    /// Who is served next.
    pub discipline: Discipline,
    /// Rule 4; 0: never.
    pub anticipate_ns: u64,
    /// Pages between the ends of files on it.
    pub gap_pages: u64,
}

impl Default for DiskSettings {
    /// Paper 1's disk, strict shares.
    fn default() -> Self {
        DiskSettings {
            service: Service::OF_PAPER_1,
            depth: 1,
            discipline: Discipline::Fair,
            anticipate_ns: 0,
            gap_pages: 40_000,
        }
    }
}

/// Something to read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<P> {
    /// Whose tickets pay.
    pub client: CurrencyId,
    /// The first page's place on the disk.
    pub place: u64,
    /// How many pages from there on.
    pub pages: u64,
    /// Whether it is written.
    pub write: bool,
    /// What happens when it is done.
    pub purpose: P,
}

impl<P> Request<P> {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }
}

/// What [`Disk::start`] tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// Requests that the device has begun, and when each is done.
    pub done_at_ns: Vec<(RequestKey, u64)>,
    /// When to look again, where the device is kept for somebody.
    pub look_at_ns: Option<u64>,
}

/// Who has just been served, and nothing of it waits (rule 4).
#[derive(Clone, Copy, Debug)]
struct Absent {
    since_ns: u64,
    bytes: u64,
    /// So many of its requests were done meanwhile: as many may come back.
    count: u64,
}

/// A disk with its queue. `P` is what its user keeps with a request.
#[derive(Debug)]
pub struct Disk<P> {
    queue: FairQueue,
    settings: DiskSettings,
    requests: BTreeMap<RequestKey, Request<P>>,
    next_request: RequestKey,
    /// In the device, not begun: by place.
    taken: BTreeSet<(u64, RequestKey)>,
    begun: usize,
    head: u64,
    idle_since_ns: u64,
    absent: BTreeMap<CurrencyId, Absent>,
    /// Waited for in vain.
    unreliable: BTreeSet<CurrencyId>,
    chance: Chance,
    busy_ns: u64,
}

impl<P: Copy> Disk<P> {
    /// An idle disk, its head at the first page.
    ///
    /// # Panics
    /// When the depth is 0: a broken invariant.
    pub fn new(
        ledger: &Ledger,
        resource: Resource,
        settings: DiskSettings,
        chance: Chance,
    ) -> Self {
        Disk {
            queue: FairQueue::new(ledger, resource, settings.discipline, settings.depth),
            settings,
            requests: BTreeMap::new(),
            next_request: 0,
            taken: BTreeSet::new(),
            begun: 0,
            head: 0,
            idle_since_ns: 0,
            absent: BTreeMap::new(),
            unreliable: BTreeSet::new(),
            chance,
            busy_ns: 0,
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

    /// How long requests were in the device, each counted for itself.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    /// A request waits; call [`Disk::start`] afterwards.
    pub fn submit(&mut self, now_ns: u64, request: Request<P>) -> RequestKey {
        if let Some(absent) = self.absent.get_mut(&request.client) {
            if now_ns - absent.since_ns <= self.settings.anticipate_ns {
                self.unreliable.remove(&request.client);
            }
            absent.count -= 1;
            if absent.count == 0 {
                self.absent.remove(&request.client);
            }
        }
        let key = self.next_request;
        self.next_request += 1;
        self.queue.submit(request.client, key, request.bytes());
        self.requests.insert(key, request);
        key
    }

    /// Gives the device what it can take, and begins what it can serve.
    pub fn start(&mut self, now_ns: u64) -> Starts {
        let mut starts = Starts::default();
        while !self.queue.is_full() && self.queue.has_waiting() {
            starts.look_at_ns = self.kept_until_ns(now_ns);
            if starts.look_at_ns.is_some() {
                break;
            }
            let (_, key) = self.queue.dispatch().expect("one waits, and a place is free");
            self.taken.insert((self.requests[&key].place, key));
        }
        while let Some(key) = self.next_of_taken() {
            let took_ns = self.service_ns(now_ns, key);
            self.begun += 1;
            self.busy_ns += took_ns;
            starts.done_at_ns.push((key, now_ns + took_ns));
        }
        starts
    }

    /// A request is done; call [`Disk::start`] afterwards.
    ///
    /// # Panics
    /// When it was not begun: a broken invariant.
    pub fn complete(&mut self, now_ns: u64, key: RequestKey) -> Request<P> {
        let request = self.requests.remove(&key).expect("the request was begun");
        self.begun -= 1;
        self.idle_since_ns = now_ns;
        self.queue.complete(request.client, key);
        if self.settings.anticipate_ns > 0 && self.queue.waits_for_none_of(request.client) {
            let count = self.absent.get(&request.client).map_or(0, |absent| absent.count);
            let absent = Absent { since_ns: now_ns, bytes: request.bytes(), count: count + 1 };
            self.absent.insert(request.client, absent);
        }
        request
    }

    /// Rule 4: until when the device is kept for somebody.
    fn kept_until_ns(&mut self, now_ns: u64) -> Option<u64> {
        let patience_ns = self.settings.anticipate_ns;
        let late = |absent: &Absent| now_ns - absent.since_ns >= patience_ns;
        let gone = self.absent.iter().filter(|(_, absent)| late(absent)).map(|(id, _)| *id);
        for client in gone.collect::<Vec<_>>() {
            self.absent.remove(&client);
            self.unreliable.insert(client);
        }
        let candidates = self.absent.iter().filter(|(id, _)| !self.unreliable.contains(id));
        let candidates: Vec<_> = candidates.map(|(id, absent)| (*id, *absent)).collect();
        let mut kept = candidates
            .into_iter()
            .filter(|(client, absent)| self.queue.would_be_next(*client, absent.bytes));
        kept.next().map(|(_, absent)| absent.since_ns + patience_ns)
    }

    /// Rules 2 and 3.
    fn next_of_taken(&mut self) -> Option<RequestKey> {
        let next = match self.settings.service {
            Service::Constant { .. } => self.taken.first().copied()?,
            Service::Rotating { .. } if self.begun > 0 => return None,
            Service::Rotating { .. } => {
                let ahead = self.taken.range((self.head, 0)..).next();
                *ahead.or_else(|| self.taken.first())?
            }
        };
        self.taken.remove(&next);
        Some(next.1)
    }

    fn service_ns(&mut self, now_ns: u64, key: RequestKey) -> u64 {
        let Request { place, pages, .. } = self.requests[&key];
        match self.settings.service {
            Service::Constant { service_ns } => service_ns,
            Service::Rotating {
                seek_min_ns,
                seek_max_ns,
                rotation_ns,
                transfer_ns,
                span_pages,
            } => {
                let distance = self.head.abs_diff(place);
                let stood_ns = now_ns - self.idle_since_ns;
                self.head = place + pages;
                let transfer_ns = pages * transfer_ns;
                if distance == 0 && stood_ns == 0 {
                    return transfer_ns;
                }
                let seek_ns = match distance {
                    0 => 0,
                    _ => {
                        // √(distance / span), in thousandths.
                        let part = (distance.min(span_pages) * 1_000_000 / span_pages).isqrt();
                        seek_min_ns + (seek_max_ns - seek_min_ns) * part / 1000
                    }
                };
                seek_ns + self.chance.below(rotation_ns) + transfer_ns
            }
        }
    }
}
