//! What threads do, step by step.

use super::disk::Request;
use super::memory::{Backing, ObjectId, Presence};
use super::{Event, Machine, Purpose, Step, ThreadId, ThreadState, TicketsCount, WaitsFor};

/// More steps in a row that take no time are a workload's mistake.
const TIMELESS_STEPS_MAX: u32 = 10_000;

/// How one step ended.
enum Ended {
    /// The thread goes on.
    Done,
    /// It waits for something, and this step is done then.
    Waits,
    /// It waits, and tries again then.
    Retries,
}

impl Machine {
    /// A thread goes on until it needs a CPU, or waits.
    pub(super) fn proceed(&mut self, id: ThreadId) {
        if self.threads[id].state == ThreadState::Exited {
            return;
        }
        self.count_wait(id);
        let mut timeless = 0;
        loop {
            let burst_ns = self.threads[id].burst_ns;
            if burst_ns >= self.settings.costs.burst_ns {
                return self.compute(id, Some(burst_ns));
            }
            let now_ns = self.now_ns();
            let thread = &mut self.threads[id];
            let step = match thread.pending.take() {
                Some(step) => step,
                None => thread.workload.next(now_ns, &mut thread.chance),
            };
            if burst_ns > 0 && self.leaves_cpu(step) {
                self.threads[id].pending = Some(step);
                return self.compute(id, Some(burst_ns));
            }
            match self.step(id, step) {
                Ended::Done if self.threads[id].state == ThreadState::Exited => return,
                Ended::Done => {}
                Ended::Waits => return self.set_state(id, ThreadState::Waiting),
                Ended::Retries => {
                    self.threads[id].pending = Some(step);
                    return self.set_state(id, ThreadState::Waiting);
                }
            }
            if step == Step::Compute(None) {
                return;
            }
            timeless = if self.threads[id].burst_ns > burst_ns { 0 } else { timeless + 1 };
            assert!(timeless < TIMELESS_STEPS_MAX, "thread {id} does nothing that takes time");
        }
    }

    /// Whether what was computed before must be over when a step begins: it waits for something other than a CPU, or
    /// never ends.
    fn leaves_cpu(&self, step: Step) -> bool {
        match step {
            Step::Touch { object, page, .. } | Step::Read { file: object, page, .. } => {
                !matches!(self.memory.presence(object, page), Presence::Resident(_))
            }
            Step::Iterated | Step::Compute(Some(_)) => false,
            _ => true,
        }
    }

    fn compute(&mut self, id: ThreadId, work_ns: Option<u64>) {
        self.set_state(id, ThreadState::Runnable);
        let now_ns = self.now_ns();
        let thread = &mut self.threads[id];
        thread.burst_ns = 0;
        self.cpus.wake_at(thread.on_cpu, now_ns, work_ns);
    }

    fn step(&mut self, id: ThreadId, step: Step) -> Ended {
        let costs = self.settings.costs;
        let place = self.threads[id].client;
        let now_ns = self.now_ns();
        self.threads[id].waits_for = match step {
            Step::Direct { .. } | Step::Touch { .. } | Step::Read { .. } | Step::Write { .. } => {
                WaitsFor::Disk
            }
            _ => WaitsFor::Other,
        };
        match step {
            Step::Compute(Some(work_ns)) => {
                self.threads[id].burst_ns += work_ns;
                Ended::Done
            }
            Step::Compute(None) => {
                self.compute(id, None);
                Ended::Done
            }
            Step::Touch { object, page, change } => {
                self.reach(id, object, page, 1, change, costs.touch_ns)
            }
            Step::Read { file, page, ahead } => {
                self.reach(id, file, page, ahead, false, costs.copy_ns)
            }
            Step::Write { file, page } => self.overwrite(id, file, page),
            Step::Direct { file, page, pages, write } => {
                self.threads[id].burst_ns += costs.request_ns;
                let client = self.clients[place].id;
                let purpose = Purpose::Direct { thread: id };
                let place = self.places[file] + page;
                self.disk.submit(now_ns, Request { client, place, pages, write, purpose });
                Ended::Waits
            }
            Step::Send(bytes) => {
                self.threads[id].burst_ns += costs.request_ns;
                self.link.submit(self.clients[place].id, bytes, id);
                Ended::Waits
            }
            Step::Sleep(sleep_ns) => {
                self.clock.schedule(now_ns + sleep_ns.max(1), Event::Wakes(id));
                Ended::Waits
            }
            Step::Iterated => {
                self.clients[place].usage.iterations += 1;
                Ended::Done
            }
            Step::Exit => {
                self.set_state(id, ThreadState::Exited);
                Ended::Done
            }
        }
    }

    /// Uses a page that may have to be brought in, with others after it.
    fn reach(
        &mut self,
        id: ThreadId,
        object: ObjectId,
        page: u64,
        ahead: u64,
        change: bool,
        cost_ns: u64,
    ) -> Ended {
        let now_ns = self.now_ns();
        let place = self.threads[id].client;
        let owner = self.clients[place].owner;
        match self.memory.presence(object, page) {
            Presence::Resident(frame) => {
                let file = self.memory.object(object).0 == Backing::File;
                if change && file && self.must_not_change(id, place) {
                    return Ended::Retries;
                }
                self.memory.touch(frame, change, now_ns);
                self.threads[id].burst_ns += cost_ns;
                if change && file {
                    self.write_back(place);
                }
                return Ended::Done;
            }
            Presence::InTransit(frame) => {
                self.waiting_for_page.entry(frame).or_default().push(id);
                return Ended::Retries;
            }
            Presence::OnDisk | Presence::Nowhere => {}
        }
        let from_disk = self.memory.presence(object, page) == Presence::OnDisk;
        // Waits where no frame is free.
        let refaults = self.memory.holdings(owner).near_refaults;
        let Some(first) = self.memory.bring(object, page, owner) else {
            return self.wait_for_frame(id);
        };
        if self.memory.holdings(owner).near_refaults > refaults {
            self.threads[id].waits_for = WaitsFor::Memory;
        }
        self.threads[id].burst_ns += self.settings.costs.fault_ns;
        if !from_disk {
            self.memory.arrived(first, now_ns);
            self.memory.touch(first, change, now_ns);
            self.threads[id].burst_ns += cost_ns;
            self.balance();
            return Ended::Done;
        }
        let last = (page + ahead).min(self.memory.object(object).1);
        let mut pages = 1;
        while page + pages < last
            && self.memory.presence(object, page + pages) == Presence::OnDisk
            && self.memory.bring(object, page + pages, owner).is_some()
        {
            pages += 1;
        }
        self.waiting_for_page.entry(first).or_default().push(id);
        self.clients[place].usage.faults += 1;
        let client = self.clients[place].id;
        let purpose = Purpose::Arrive { object, page };
        let place = self.places[object] + page;
        self.disk.submit(now_ns, Request { client, place, pages, write: false, purpose });
        self.balance();
        Ended::Retries
    }

    /// Changes a whole page of a file: nothing is read.
    fn overwrite(&mut self, id: ThreadId, file: ObjectId, page: u64) -> Ended {
        let now_ns = self.now_ns();
        let place = self.threads[id].client;
        let copy_ns = self.settings.costs.copy_ns;
        match self.memory.presence(file, page) {
            Presence::Resident(_) | Presence::InTransit(_) => {
                self.reach(id, file, page, 1, true, copy_ns)
            }
            Presence::OnDisk | Presence::Nowhere => {
                if self.must_not_change(id, place) {
                    return Ended::Retries;
                }
                let owner = self.clients[place].owner;
                let Some(frame) = self.memory.bring(file, page, owner) else {
                    return self.wait_for_frame(id);
                };
                self.memory.arrived(frame, now_ns);
                self.memory.touch(frame, true, now_ns);
                self.threads[id].burst_ns += copy_ns;
                self.write_back(place);
                self.balance();
                Ended::Done
            }
        }
    }

    fn wait_for_frame(&mut self, id: ThreadId) -> Ended {
        self.threads[id].waits_for = WaitsFor::Memory;
        self.waiting_for_frame.push_back(id);
        self.balance();
        Ended::Retries
    }

    /// A client with too many changed pages waits.
    fn must_not_change(&mut self, id: ThreadId, place: usize) -> bool {
        let client = &mut self.clients[place];
        let dirty = self.memory.holdings(client.owner).dirty;
        let wait = dirty >= self.settings.memory.dirty_limit_pages;
        if wait {
            client.waiting_to_change.push_back(id);
        }
        wait
    }

    /// Counts the time since it was last counted for what the thread did, or waited for.
    fn count_wait(&mut self, id: ThreadId) {
        let now_ns = self.now_ns();
        let thread = &mut self.threads[id];
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut thread.counted_ns, now_ns));
        let usage = &mut self.clients[thread.client].usage;
        match (thread.state, thread.waits_for) {
            (ThreadState::Runnable, _) => usage.runnable_ns += passed_ns,
            (ThreadState::Waiting, WaitsFor::Disk) => usage.disk_wait_ns += passed_ns,
            (ThreadState::Waiting, WaitsFor::Memory) => usage.memory_wait_ns += passed_ns,
            (ThreadState::Waiting | ThreadState::Exited, _) => {}
        }
    }

    pub(super) fn set_state(&mut self, id: ThreadId, state: ThreadState) {
        self.count_wait(id);
        let thread = &mut self.threads[id];
        let was = std::mem::replace(&mut thread.state, state);
        let place = thread.client;
        let client = &mut self.clients[place];
        let before = client.runnable;
        client.runnable += usize::from(state == ThreadState::Runnable);
        client.runnable -= usize::from(was == ThreadState::Runnable);
        let after = client.runnable;
        if self.settings.memory.tickets == TicketsCount::WhileRunnable
            && (before > 0) != (after > 0)
        {
            self.count_memory_tickets(place, after > 0);
        }
    }
}
