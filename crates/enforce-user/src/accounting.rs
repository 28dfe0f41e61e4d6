//! Who used what, and who competes: clocks and states, read as seldom as they can be.
//!
//! A draw concerns those who are awake. Sleepers that are free are looked at in turn, so that having many of them costs
//! nobody else anything; the time for it is charged to their users.

use crate::client::DEFIED_MAX;
use crate::lottery::Lottery;
use crate::process::Hands;
use enforcer::clock::thread_cpu_ns;
use enforcer::{Drift, HoldState, Look, Looks, Presence};

/// Held clients' CPU clocks are read once in so many quanta, or less often where that would be more than [`READS`].
const CLOCK_SWEEP: u64 = 8;
/// And their run state, which is a longer read.
pub(crate) const STATE_SWEEP: u64 = 16;
/// About the most clocks of held clients that are read in one quantum, and half as many states.
const READS: u64 = 64;
/// The most sleepers that are looked at in one quantum: they are in turn, so that sleeping costs nobody anything. The
/// time for it is charged to their users.
const SLEEPERS: usize = 128;

impl Lottery {
    pub(crate) fn integrate(&mut self, now: u64) {
        let elapsed = now.saturating_sub(self.last_ns);
        self.last_ns = now;
        self.call_the_roll();
        for index in &self.awake {
            self.clients[*index].integrate(elapsed);
        }
    }

    /// Finds out whom a draw concerns, where that may have changed: sleepers that are free cost a draw nothing.
    pub(crate) fn call_the_roll(&mut self) {
        if !std::mem::take(&mut self.roster_changed) {
            return;
        }
        self.awake.clear();
        for (index, client) in self.clients.iter().enumerate() {
            let is_asleep = matches!(client.presence, Presence::Asleep | Presence::StoppedByOthers);
            let may_be_held = client.owner().is_some_and(|owner| self.defiant.contains(&owner));
            if !is_asleep || may_be_held || client.held() != HoldState::Free {
                self.awake.push(index);
            }
        }
    }

    /// Charges what was used, and finds out who still or again competes.
    pub(crate) fn account(&mut self, now: u64) {
        let awake = std::mem::take(&mut self.awake);
        let clock_sweep = CLOCK_SWEEP.max(awake.len() as u64 / READS);
        for (place, index) in awake.iter().enumerate() {
            let client = &self.clients[*index];
            let turn = self.draws + place as u64;
            // A held one uses nothing and tells nothing by its state; but who was stopped by a signal is asked each
            // time, for anybody of its user can continue it.
            let is_held = client.presence == Presence::Competing && !client.won;
            let is_stopped = client.process.is_stopped();
            let is_due = is_stopped || turn.is_multiple_of(clock_sweep);
            if (client.presence == Presence::Frozen || is_held) && !is_due {
                continue;
            }
            let state_is_due =
                !is_held || turn.is_multiple_of(clock_sweep * STATE_SWEEP / CLOCK_SWEEP);
            self.look_at(*index, state_is_due, now);
        }
        // Nobody came or left meanwhile; whoever fell asleep is still among them.
        self.awake = awake;
        self.look_at_sleepers(now);
        self.charge_the_owing();
    }

    /// Reads one client's clock, and its state where that tells something.
    fn look_at(&mut self, index: usize, state_is_due: bool, now: u64) {
        let quantum_ns = self.setting.quantum_ns;
        let client = &mut self.clients[index];
        let Some(used) = client.measure() else { return };
        // A winner that others kept from its CPU used nothing: the policy has to know.
        if used > 0 || client.won {
            self.policy.charge(client.id.0, used, quantum_ns);
        }
        if client.process.is_stopped() {
            if (Look { used_ns: used, elapsed_ns: quantum_ns }).is_plenty() {
                return self.stop_a_defiant(index);
            }
            // Once is no proof: a stop takes effect when the process next leaves the kernel.
            client.defied -= u32::from((1..DEFIED_MAX).contains(&client.defied));
        }
        let look = client.tracker.take(now);
        let (before, process) = (client.presence, &client.process);
        let tells = match before {
            Presence::Competing => state_is_due && !process.stands(),
            Presence::StoppedByOthers => state_is_due || look.used_ns > 0,
            Presence::Asleep | Presence::Frozen => true,
        };
        let state = || tells.then(|| process.run_state());
        let presence = client.tracker.find(&Looks::OF_DRAWS, look, before, false, state);
        self.set_presence(index, presence);
    }

    /// Looks at the sleepers whose turn it is. What that costs is their users' to pay.
    fn look_at_sleepers(&mut self, now: u64) {
        let count = self.clients.len();
        let began_ns = thread_cpu_ns();
        let mut owners = [None; SLEEPERS];
        let mut looked = 0;
        for step in 0..count {
            let index = (self.sleepers_from + step) % count;
            let client = &self.clients[index];
            let is_asleep = matches!(client.presence, Presence::Asleep | Presence::StoppedByOthers);
            if !is_asleep || client.held() != HoldState::Free {
                continue;
            }
            if looked == SLEEPERS {
                self.sleepers_from = index;
                break;
            }
            owners[looked] = client.owner();
            looked += 1;
            let state_is_due = (self.draws + index as u64).is_multiple_of(STATE_SWEEP);
            self.look_at(index, state_is_due, now);
        }
        if looked == 0 {
            return;
        }
        let each_ns = thread_cpu_ns().saturating_sub(began_ns) / looked as u64;
        for owner in owners[..looked].iter().flatten() {
            *self.owed.entry(*owner).or_default() += each_ns;
        }
    }

    /// Charges winners what was done for their users.
    fn charge_the_owing(&mut self) {
        for key in &self.winners {
            let place = self.clients.binary_search_by_key(key, |client| client.id.0);
            let owner = place.ok().and_then(|place| self.clients[place].owner());
            if let Some(owed_ns) = owner.and_then(|owner| self.owed.remove(&owner)) {
                self.policy.charge(*key, owed_ns, self.setting.quantum_ns);
            }
        }
    }

    /// One ran although it was stopped: it was charged for that, and is stopped again before anybody is drawn. After
    /// some times all processes of its user wait with it: one of them continues it.
    fn stop_a_defiant(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.defied = client.defied.saturating_add(1);
        // It may have been killed, or be another's now; then the next close look lets it go.
        let _ = client.must_be_theirs().and_then(|()| client.process.stop_again());
        let identity = Some(client.identity());
        if client.defied == 1 {
            let what = "somebody continued it; it was stopped again".to_owned();
            self.drift.push(Drift { process: identity, what });
        }
        if client.defied == DEFIED_MAX {
            let mut hands = Hands {
                table: &mut self.guardian.record.processes,
                cells: self.cells.as_mut(),
                drift: &mut self.drift,
            };
            // Where it can be, it stands in a cell from now on.
            client.process.freeze(&mut hands);
        }
        let client = &self.clients[index];
        let is_frozen = self.cells.is_some() && !client.process.is_cell_refused();
        if client.defied == DEFIED_MAX
            && !is_frozen
            && let Some(owner) = client.owner()
            && owner != rustix::process::getuid().as_raw()
            && self.defiant.insert(owner)
        {
            self.roster_changed = true;
            let what = format!("it runs while it is stopped: all of uid {owner} wait with it");
            self.drift.push(Drift { process: identity, what });
        }
    }
}
