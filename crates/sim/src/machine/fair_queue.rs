//! Whose request a device serves next, by tickets or in order of arrival.
//!
//! 1. By tickets: [`policy::Yfq`], a queue for each client at one level, weighted with the base value of its tickets
//!    (paper 1, 5.5). Of a link it is a weighted fair queue by finish tags.
//! 2. A client's tickets are active while it has a request that waits or is in service.
//! 3. Its value is computed anew whenever a request of it reaches the head of its queue.
//! 4. In order of arrival: who came first, whoever it is. What a device gets that nobody schedules.

use std::collections::{BTreeMap, VecDeque};

use ledger::{Change, CurrencyId, Ledger, Resource};
use policy::Yfq;
use policy::yfq::{ROOT, RequestKey};
use valuation::Graph;

/// Who decides the order of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Tickets.
    Fair,
    /// Arrival.
    Fifo,
}

#[derive(Debug, Default)]
struct Client {
    waiting: usize,
    in_service: usize,
}

/// Requests of many clients for one device.
#[derive(Debug)]
pub struct FairQueue {
    graph: Graph,
    discipline: Discipline,
    yfq: Yfq,
    arrivals: VecDeque<(CurrencyId, RequestKey)>,
    in_service: usize,
    batch: usize,
    clients: BTreeMap<CurrencyId, Client>,
}

impl FairQueue {
    /// An empty queue; at most `batch` requests are in service at a time.
    ///
    /// # Panics
    /// When `batch` is 0: a broken invariant.
    pub fn new(ledger: &Ledger, resource: Resource, discipline: Discipline, batch: usize) -> Self {
        FairQueue {
            graph: Graph::of(ledger, resource),
            discipline,
            yfq: Yfq::new(batch),
            arrivals: VecDeque::new(),
            in_service: 0,
            batch,
            clients: BTreeMap::new(),
        }
    }

    /// Follows a change of the ledger.
    pub fn follow(&mut self, change: &Change) {
        self.graph.follow(change);
    }

    /// The graph, for questions about values.
    pub fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Whether no request of a client waits; some may be in service.
    pub fn waits_for_none_of(&self, client: CurrencyId) -> bool {
        self.clients.get(&client).is_none_or(|it| it.waiting == 0)
    }

    /// Whether a batch is in service.
    pub fn is_full(&self) -> bool {
        self.in_service >= self.batch
    }

    /// Whether any request waits.
    pub fn has_waiting(&self) -> bool {
        match self.discipline {
            Discipline::Fair => self.yfq.pending().0 > 0,
            Discipline::Fifo => !self.arrivals.is_empty(),
        }
    }

    /// A request of so many bytes waits.
    pub fn submit(&mut self, client: CurrencyId, request: RequestKey, bytes: u64) {
        let known = self.clients.contains_key(&client);
        let entry = self.clients.entry(client).or_default();
        entry.waiting += 1;
        let (to_head, begins) = (entry.waiting == 1, entry.waiting + entry.in_service == 1);
        if begins {
            self.graph.set_active(client, true);
        }
        match self.discipline {
            Discipline::Fifo => self.arrivals.push_back((client, request)),
            Discipline::Fair => {
                if !known {
                    self.yfq.add(client.0, ROOT, 0);
                }
                if to_head {
                    self.yfq.reweigh(client.0, self.graph.value(client));
                }
                self.yfq.submit(client.0, request, bytes);
            }
        }
    }

    /// Whether a request of so many bytes would be next, if it came now from this client, of which none waits.
    pub fn would_be_next(&mut self, client: CurrencyId, bytes: u64) -> bool {
        if self.discipline == Discipline::Fifo || !self.clients.contains_key(&client) {
            return false;
        }
        // As its value will be.
        let begins = self.graph.set_active(client, true);
        self.yfq.reweigh(client.0, self.graph.value(client));
        if begins {
            self.graph.set_active(client, false);
        }
        self.yfq.would_be_next(client.0, bytes)
    }

    /// The request that is served next, now in service, and whose it is; `None` where none waits or a batch is in
    /// service.
    pub fn dispatch(&mut self) -> Option<(CurrencyId, RequestKey)> {
        if self.is_full() {
            return None;
        }
        let (client, request) = match self.discipline {
            Discipline::Fifo => self.arrivals.pop_front()?,
            Discipline::Fair => {
                let (leaf, request) = self.yfq.dispatch()?;
                (CurrencyId(leaf), request)
            }
        };
        self.in_service += 1;
        let entry = self.clients.get_mut(&client).expect("who waits is known");
        entry.waiting -= 1;
        entry.in_service += 1;
        if self.discipline == Discipline::Fair && entry.waiting > 0 {
            self.yfq.reweigh(client.0, self.graph.value(client));
        }
        Some((client, request))
    }

    /// A request of this client is done.
    ///
    /// # Panics
    /// When it is not in service: a broken invariant.
    pub fn complete(&mut self, client: CurrencyId, request: RequestKey) {
        if self.discipline == Discipline::Fair {
            self.yfq.complete(request);
        }
        self.in_service -= 1;
        let entry = self.clients.get_mut(&client).expect("who is served is known");
        entry.in_service -= 1;
        if entry.waiting + entry.in_service == 0 {
            self.graph.set_active(client, false);
        }
    }
}
