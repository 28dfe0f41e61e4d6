//! Stride scheduling (Waldspurger & Weihl 1995) on the virtual time of start-time fair queueing
//! (Goyal, Vin & Cheng 1996), with what is due counted exactly. The twin of bpf/sched/stride.h.
//!
//! 1. Virtual time is the service that was given to all. A client is due its value's part of it
//!    while it is active, and charged what it uses; what it *owes* is the difference.
//! 2. Its *pass* is the virtual time at which it will have been due all that it was charged, if its
//!    rate stays: virtual time + owes · WHOLE / rate. (1995, figure 2: each quantum moves the pass
//!    by stride · used / quantum. There a change of tickets scales what is left; here it is counted
//!    from what was really due.) Its *rate* is what it was due on average lately, so that a value of
//!    a moment does not decide for how long a thread waits.
//! 3. The thread with the least key is served; a client's first thread has its pass as key, a
//!    second one comes one quantum of the client later, and so on.
//! 4. What is owed stays owed over a sleep.
//! 5. A client that is due more than CPUs can give it falls behind for ever (Chandra et al. 2000
//!    cap its weight). What it lags by more than [`LAG_QUANTA`] and what is lawful it loses, and
//!    that is due to all instead, in proportion: virtual time moves on by it. So the others keep
//!    their ratios, and share what it cannot have. Lawful: each of those that wait may have run
//!    ahead by a quantum, so that who is served next lags by its part of all these quanta. And on a
//!    machine that is itself a guest a turn may last for as long as the host took the CPU away: who
//!    waits then lags by its part of that, and must have it back.
//!
//! Property: on one CPU, what two clients that stay runnable got for their values differs by at
//! most one quantum of each.

use super::{Client, Key, KeyedPolicy, Settings, virtual_ns};

/// Rule 5.
pub const LAG_QUANTA: u64 = 64;

/// More members of a client than this wait as if they were so many.
const AHEAD_MAX: u64 = 32768;

/// Stride on keys. See the [module](self).
pub struct Stride {
    quantum_ns: u64,
}

impl Stride {
    /// Without clients.
    pub fn new(settings: Settings) -> Self {
        Stride { quantum_ns: settings.quantum_ns }
    }
}

/// Rules 2, 3 and 5; the lottery has them too.
pub(super) fn key(client: &mut Client, ahead: u64, waiting: u64, now: u64, quantum_ns: u64) -> Key {
    let mut owed_ns = client.owed_ns();
    let lawful_ns = (quantum_ns * waiting * (client.rate >> 32)) >> 16;
    let least_ns = -((LAG_QUANTA * quantum_ns + lawful_ns) as i64);
    let mut lost_ns = 0;
    if owed_ns < least_ns {
        lost_ns = client.give_back((least_ns - owed_ns) as u64);
        owed_ns = least_ns;
    }
    let distance = virtual_ns(owed_ns.unsigned_abs(), client.inverse);
    let pass = if owed_ns < 0 { now.wrapping_sub(distance) } else { now.wrapping_add(distance) };
    Key { key: pass.wrapping_add(span(client, ahead, quantum_ns)), lost_ns }
}

/// How much later a thread comes that has so many of its client before it.
pub(super) fn span(client: &Client, ahead: u64, quantum_ns: u64) -> u64 {
    ahead.min(AHEAD_MAX).wrapping_mul(virtual_ns(quantum_ns, client.inverse))
}

impl KeyedPolicy for Stride {
    fn key(&mut self, client: &mut Client, ahead: u64, waiting: u64, now: u64) -> Key {
        key(client, ahead, waiting, now, self.quantum_ns)
    }

    fn charge(&mut self, client: &mut Client, used_ns: u64, _drawn: u64, _now: u64) -> u64 {
        client.charged_ns = client.charged_ns.wrapping_add(used_ns);
        used_ns
    }
}
