//! What threads do: small state machines that are asked for one step after the other.
//!
//! The papers' benchmarks are here. A look-up server, which touches some pages by how popular they are, and
//! one that proposes exchanges, need nothing but another [`Workload`].

use super::chance::Chance;
use super::memory::ObjectId;

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes for so long; `None`: for ever.
    Compute(Option<u64>),
    /// Reads or changes a page of mapped memory.
    Touch {
        /// Of what.
        object: ObjectId,
        /// Which page.
        page: u64,
        /// Whether it is changed.
        change: bool,
    },
    /// Reads a page of a file through the cache, as read(2) does.
    Read {
        /// Of what.
        file: ObjectId,
        /// Which page.
        page: u64,
        /// So many pages from there on are read at once, if the first is not in memory; at least 1.
        ahead: u64,
    },
    /// Overwrites a page of a file through the cache; it is written back later.
    Write {
        /// Of what.
        file: ObjectId,
        /// Which page.
        page: u64,
    },
    /// Reads or writes pages of a file past the cache, and waits.
    Direct {
        /// Of what.
        file: ObjectId,
        /// The first page.
        page: u64,
        /// How many, at least 1.
        pages: u64,
        /// Whether they are written.
        write: bool,
    },
    /// Sends a packet of so many bytes, and waits until it is sent.
    Send(u64),
    /// Waits for so long.
    Sleep(u64),
    /// Has done one more of what its benchmark counts. Takes no time.
    Iterated,
    /// Ends.
    Exit,
}

/// What a thread does.
pub trait Workload: Send {
    /// The next step; the last one is done. Some of the steps must take time.
    fn next(&mut self, now_ns: u64, chance: &mut Chance) -> Step;
}

impl<F: FnMut(u64, &mut Chance) -> Step + Send> Workload for F {
    fn next(&mut self, now_ns: u64, chance: &mut Chance) -> Step {
        self(now_ns, chance)
    }
}

/// Computes for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Burn;

impl Workload for Burn {
    fn next(&mut self, _: u64, _: &mut Chance) -> Step {
        Step::Compute(None)
    }
}

/// Computes, sleeps, and so on; counts its turns.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    burst_ns: u64,
    sleep_ns: u64,
    place: u8,
}

impl Sleeper {
    /// Bursts and sleeps of so long.
    pub fn new(burst_ns: u64, sleep_ns: u64) -> Sleeper {
        Sleeper { burst_ns, sleep_ns, place: 0 }
    }
}

impl Workload for Sleeper {
    fn next(&mut self, _: u64, _: &mut Chance) -> Step {
        self.place = (self.place + 1) % 3;
        match self.place {
            1 => Step::Compute(Some(self.burst_ns)),
            2 => Step::Sleep(self.sleep_ns),
            _ => Step::Iterated,
        }
    }
}

/// Paper 1, 6.3: reads random pages of a file into random places of a buffer; counts reads.
#[derive(Clone, Copy, Debug)]
pub struct RandomPageReader {
    /// What it reads.
    pub file: ObjectId,
    /// How many pages that has.
    pub file_pages: u64,
    /// Anonymous memory.
    pub buffer: ObjectId,
    /// How many pages that has.
    pub buffer_pages: u64,
    place: u8,
}

impl RandomPageReader {
    /// Over these two.
    pub fn new(
        (file, file_pages): (ObjectId, u64),
        (buffer, buffer_pages): (ObjectId, u64),
    ) -> Self {
        RandomPageReader { file, file_pages, buffer, buffer_pages, place: 0 }
    }
}

impl Workload for RandomPageReader {
    fn next(&mut self, _: u64, chance: &mut Chance) -> Step {
        self.place = (self.place + 1) % 3;
        match self.place {
            1 => Step::Read { file: self.file, page: chance.below(self.file_pages), ahead: 1 },
            2 => {
                let page = chance.below(self.buffer_pages);
                Step::Touch { object: self.buffer, page, change: true }
            }
            _ => Step::Iterated,
        }
    }
}

/// Paper 1, 6.4 (`iohog`): touches the first byte of each page of a mapped file, in order, over and over; counts
/// pages.
#[derive(Clone, Copy, Debug)]
pub struct Iohog {
    file: ObjectId,
    pages: u64,
    next: u64,
    counts: bool,
}

impl Iohog {
    /// Over a file of so many pages.
    pub fn new((file, pages): (ObjectId, u64)) -> Iohog {
        Iohog { file, pages, next: 0, counts: false }
    }
}

impl Workload for Iohog {
    fn next(&mut self, _: u64, _: &mut Chance) -> Step {
        if std::mem::replace(&mut self.counts, false) {
            return Step::Iterated;
        }
        let page = self.next;
        self.next = (page + 1) % self.pages;
        self.counts = true;
        Step::Touch { object: self.file, page, change: false }
    }
}

/// Touches random pages of a set, computing between; counts touches. Idle between given times.
#[derive(Clone, Copy, Debug)]
pub struct WorkingSet {
    object: ObjectId,
    pages: u64,
    change: bool,
    think_ns: u64,
    idle_from_ns: u64,
    idle_to_ns: u64,
    place: u8,
}

impl WorkingSet {
    /// Over all pages of an object, with so much computing after each touch.
    pub fn new((object, pages): (ObjectId, u64), change: bool, think_ns: u64) -> WorkingSet {
        let never = u64::MAX;
        WorkingSet {
            object,
            pages,
            change,
            think_ns,
            idle_from_ns: never,
            idle_to_ns: never,
            place: 0,
        }
    }

    /// Sleeps from one time to another.
    pub fn idle(self, from_ns: u64, to_ns: u64) -> WorkingSet {
        WorkingSet { idle_from_ns: from_ns, idle_to_ns: to_ns, ..self }
    }
}

impl Workload for WorkingSet {
    fn next(&mut self, now_ns: u64, chance: &mut Chance) -> Step {
        self.place = (self.place + 1) % 3;
        match self.place {
            1 if (self.idle_from_ns..self.idle_to_ns).contains(&now_ns) => {
                self.place = 0;
                Step::Sleep(self.idle_to_ns - now_ns)
            }
            1 => {
                let page = chance.below(self.pages);
                Step::Touch { object: self.object, page, change: self.change }
            }
            2 => Step::Compute(Some(self.think_ns)),
            _ => Step::Iterated,
        }
    }
}

/// In which order a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// From front to end, over and over.
    Sequential,
    /// Any place.
    Random,
}

/// How a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Past the cache (`O_DIRECT`), so many pages at a time.
    Direct {
        /// At least 1.
        pages: u64,
        /// Whether they are written.
        write: bool,
    },
    /// Through the cache with readahead of so many pages, at least 1.
    Buffered {
        /// Pages.
        ahead: u64,
    },
    /// Mapped, a page at a time.
    Mapped,
    /// Written through the cache.
    BufferedWrite,
}

/// Reads or writes a file; counts pages. With several threads on one file it is a client with that depth.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    file: ObjectId,
    pages: u64,
    access: Access,
    order: Order,
    next: u64,
    counted: u64,
}

impl Transfer {
    /// Over a file of so many pages; in order it begins at `from`.
    pub fn new(
        (file, pages): (ObjectId, u64),
        access: Access,
        order: Order,
        from: u64,
    ) -> Transfer {
        Transfer { file, pages, access, order, next: from, counted: 0 }
    }
}

impl Workload for Transfer {
    fn next(&mut self, _: u64, chance: &mut Chance) -> Step {
        if self.counted > 0 {
            self.counted -= 1;
            return Step::Iterated;
        }
        let length = match self.access {
            Access::Direct { pages, .. } => pages,
            _ => 1,
        };
        self.counted = length;
        let page = match self.order {
            Order::Random => chance.below(self.pages / length) * length,
            Order::Sequential => {
                let page = if self.next + length > self.pages { 0 } else { self.next };
                self.next = page + length;
                page
            }
        };
        let file = self.file;
        match self.access {
            Access::Direct { pages, write } => Step::Direct { file, page, pages, write },
            Access::Buffered { ahead } => Step::Read { file, page, ahead },
            Access::Mapped => Step::Touch { object: file, page, change: false },
            Access::BufferedWrite => Step::Write { file, page },
        }
    }
}

/// Sends packets of so many bytes, one after the other; counts them.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    bytes: u64,
    counts: bool,
}

impl Sender {
    /// Of this size.
    pub fn new(bytes: u64) -> Sender {
        Sender { bytes, counts: false }
    }
}

impl Workload for Sender {
    fn next(&mut self, _: u64, _: &mut Chance) -> Step {
        self.counts = !self.counts;
        if self.counts { Step::Send(self.bytes) } else { Step::Iterated }
    }
}
