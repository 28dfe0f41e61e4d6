//! The reclaimer's thread. Its rules stand in [`reclaimer`](super::reclaimer).

use crate::client::{Client, Known, lock};
use crate::options::ReclaimOptions;
use crate::pressure::{Pressure, Stalls};
use crate::room::Room;
use crate::sample::ReclaimTotals;
use crate::shared::Shared;
use crate::size::{Backoff, CLIENT_NS, NOBODY_NS, draw_bytes};
use enforcer::clock::{now_ns, thread_cpu_ns};
use policy::{Holder, Reclaim};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// It is looked at the room so often while it sleeps: with a trigger, and without (rule 1).
const LOOK_NS: (u64, u64) = (1_000_000_000, 100_000_000);
/// Rule 5.
const HELD_CLIENTS: usize = 256;
const STAT_CLIENTS: usize = 16;
const STAT_NS: u64 = 200_000_000;

pub(crate) struct Worker {
    policy: Box<dyn Reclaim>,
    period_ns: u64,
    quiet_ns: u64,
    margin_bytes: u64,
    page_bytes: u64,
    room: Room,
    pressure: Option<Pressure>,
    /// In place of a trigger.
    stalls: Stalls,
    shared: Arc<Shared>,
    clients: Arc<Vec<Client>>,
    /// By key.
    known: BTreeMap<u64, Known>,
    /// Whose turn it is to be read: what it holds, and the rest.
    held_turn: usize,
    stat_turn: usize,
    /// Pressure woke us last.
    pressed_ns: Option<u64>,
    /// Something was lacking last.
    short_ns: Option<u64>,
    /// When nobody could be asked.
    nobody: Backoff,
    /// Who may be asked in this round, and which client that is (kept for their storage).
    holders: Vec<Holder>,
    places: Vec<usize>,
}

impl Worker {
    pub fn new(
        options: ReclaimOptions,
        room: Room,
        pressure: Option<Pressure>,
        margin_bytes: u64,
        page_bytes: u64,
        shared: Arc<Shared>,
    ) -> Worker {
        Worker {
            policy: options.policy,
            period_ns: options.period_ns,
            quiet_ns: options.quiet_ns,
            margin_bytes,
            page_bytes,
            room,
            pressure,
            stalls: Stalls::default(),
            shared,
            clients: Arc::new(Vec::new()),
            known: BTreeMap::new(),
            held_turn: 0,
            stat_turn: 0,
            pressed_ns: None,
            short_ns: None,
            nobody: Backoff::default(),
            holders: Vec::new(),
            places: Vec::new(),
        }
    }

    pub fn run(mut self) {
        while !self.shared.quit.load(Ordering::Acquire) {
            let begin_ns = now_ns();
            if self.pressure.is_none() && self.stalls.rose() {
                self.pressed(begin_ns);
            }
            self.follow();
            self.round(begin_ns);
            let end_ns = now_ns();
            let pause_ns = if self.is_working(begin_ns) {
                let until_due_ns = (begin_ns + self.period_ns).saturating_sub(end_ns);
                until_due_ns.max(self.nobody.left_ns(end_ns))
            } else if self.pressure.is_some() {
                LOOK_NS.0
            } else {
                LOOK_NS.1
            };
            self.sleep(pause_ns);
        }
    }

    /// Rule 2: until nothing was lacking for a while. Where nobody is followed there is nothing to do.
    fn is_working(&self, now_ns: u64) -> bool {
        let lately =
            |at: Option<u64>| at.is_some_and(|at| now_ns.saturating_sub(at) < self.quiet_ns);
        !self.clients.is_empty() && (lately(self.short_ns) || lately(self.pressed_ns))
    }

    /// Until something wakes us, or so long.
    fn sleep(&mut self, pause_ns: u64) {
        let wake = self.shared.wake.as_fd();
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        if let Some(pressure) = &self.pressure {
            fds.push(PollFd::new(&pressure.file, PollFlags::PRI));
        }
        let pause = Timespec {
            tv_sec: (pause_ns / 1_000_000_000) as i64,
            tv_nsec: (pause_ns % 1_000_000_000) as i64,
        };
        // A signal ends the pause early, which does no harm.
        let _ = rustix::event::poll(&mut fds, Some(&pause));
        let flags = fds.get(1).map(PollFd::revents).unwrap_or(PollFlags::empty());
        drop(fds);
        if flags.contains(PollFlags::ERR) {
            // The cgroup at the top is gone; there is still the machine.
            self.pressure = Pressure::watch(None).ok();
        } else if flags.contains(PollFlags::PRI) {
            self.pressed(now_ns());
        }
    }

    fn pressed(&mut self, now_ns: u64) {
        self.pressed_ns = Some(now_ns);
        lock(&self.shared.totals).woken += 1;
    }

    /// The newest list of clients.
    fn follow(&mut self) {
        let newest = Arc::clone(&lock(&self.shared.clients));
        if !Arc::ptr_eq(&newest, &self.clients) {
            let mut before = std::mem::take(&mut self.known);
            let keys = newest.iter().map(|client| client.planned.key);
            self.known = keys.map(|key| (key, before.remove(&key).unwrap_or_default())).collect();
            self.clients = newest;
            (self.held_turn, self.stat_turn) = (0, 0);
            self.nobody.worked();
        }
    }

    fn round(&mut self, begin_ns: u64) {
        let pressed = self.pressed_ns.is_some_and(|at| begin_ns.saturating_sub(at) < self.quiet_ns);
        // Where nobody is followed nothing need be known.
        let mut lacking_bytes = match self.clients.is_empty() {
            true => 0,
            false => self.room.shortfall_bytes(begin_ns, pressed),
        };
        let (mut draws, mut taken_bytes) = (0, 0);
        let shortfall_bytes = lacking_bytes;
        if lacking_bytes > 0 {
            self.short_ns = Some(begin_ns);
        }
        if lacking_bytes > 0 && !self.nobody.waits(begin_ns) {
            self.look(begin_ns);
            self.list_holders(begin_ns);
            while let Some(chosen) = self.policy.choose(&self.holders) {
                let taken = self.draw(chosen, lacking_bytes);
                draws += 1;
                taken_bytes += taken;
                lacking_bytes = lacking_bytes.saturating_sub(taken);
                if lacking_bytes == 0 || now_ns() - begin_ns >= self.period_ns {
                    break;
                }
            }
            // Nobody could be asked, or nobody had any.
            match taken_bytes {
                0 => self.nobody.failed(begin_ns, NOBODY_NS),
                _ => self.nobody.worked(),
            }
        }
        let mut totals = lock(&self.shared.totals);
        *totals = ReclaimTotals {
            woken: totals.woken,
            rounds: totals.rounds + 1,
            draws: totals.draws + draws,
            taken_bytes: totals.taken_bytes + taken_bytes,
            shortfall_bytes,
            own_cpu_ns: thread_cpu_ns(),
        };
    }

    /// Asks one for a draw's worth. Answers what was taken, in bytes.
    fn draw(&mut self, chosen: usize, lacking_bytes: u64) -> u64 {
        let holder = &mut self.holders[chosen];
        let client = &self.clients[self.places[chosen]];
        let known = self.known.entry(client.planned.key).or_default();
        let bytes = draw_bytes(lacking_bytes, holder.excess_bytes(), self.page_bytes);
        let taken = if bytes > 0 { client.take(bytes) } else { 0 };
        known.held_bytes = client.held_bytes().unwrap_or(0);
        if taken >= bytes.max(1) {
            known.backoff.worked();
            holder.held_bytes = known.held_bytes;
        } else {
            // To ask for the rest would take long and bring little. It stays in the list, but nobody can choose it.
            known.backoff.failed(now_ns(), CLIENT_NS);
            holder.held_bytes = 0;
        }
        holder.active_bytes = holder.active_bytes.min(holder.held_bytes);
        taken
    }

    /// Reads what is due to be read (rule 5).
    fn look(&mut self, now_ns: u64) {
        let count = self.clients.len();
        for step in 0..count.min(HELD_CLIENTS) {
            let client = &self.clients[(self.held_turn + step) % count];
            let known = self.known.entry(client.planned.key).or_default();
            known.held_bytes = client.held_bytes().unwrap_or(0);
        }
        let is_due = |known: &Known| known.stat_at_ns.is_none_or(|at| now_ns - at >= STAT_NS);
        let mut read = 0;
        for step in 0..count {
            let place = (self.stat_turn + step) % count;
            let client = &self.clients[place];
            let known = self.known.entry(client.planned.key).or_default();
            if !is_due(known) {
                continue;
            }
            if read == STAT_CLIENTS {
                self.stat_turn = place;
                break;
            }
            read += 1;
            known.stat_at_ns = Some(now_ns);
            if let Some((inactive_bytes, refaults)) = client.stat() {
                known.idle_bytes = inactive_bytes;
                client.set_rate(known.refaults.observe(now_ns, refaults));
            }
        }
        if count > 0 {
            self.held_turn = (self.held_turn + HELD_CLIENTS) % count;
        }
    }

    /// Who may be asked (rule 4).
    fn list_holders(&mut self, now_ns: u64) {
        self.holders.clear();
        self.places.clear();
        for (place, client) in self.clients.iter().enumerate() {
            let Some(known) = self.known.get(&client.planned.key) else { continue };
            if known.backoff.waits(now_ns) {
                continue;
            }
            let planned = &client.planned;
            let margin = if client.is_group() { self.margin_bytes } else { 0 };
            let held_bytes = known.held_bytes.min(policy::reclaim::MAX_HELD_BYTES);
            self.places.push(place);
            self.holders.push(Holder {
                key: planned.key,
                tickets: planned.tickets,
                held_bytes,
                guaranteed_bytes: planned.guaranteed_bytes.saturating_add(margin),
                active_bytes: held_bytes.saturating_sub(known.idle_bytes),
                guest: planned.guest,
                refaults: known.refaults.rate(),
            });
        }
    }
}
