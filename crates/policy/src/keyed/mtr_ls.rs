//! MTR-LS, move to rear list scheduling (Bruno, Gabber, Özden & Silberschatz 1998; paper 2's CPU
//! scheduler) on keys. The twin of bpf/sched/mtr_ls.h.
//!
//! 1. All clients stand in a list, those that are blocked too; a new one stands at the rear.
//! 2. `left` of a client starts at its part of a round, α·T, where α is its part of one CPU: its
//!    rate times the number of CPUs.
//! 3. The first client in the list that is runnable runs, and when one nearer the front wakes it
//!    is preempted.
//! 4. What it uses is taken from `left`. When nothing is left, α·T is added and the client moves
//!    to the rear.
//! 5. Who blocks keeps place and quota.
//! 6. Values here depend on who is active (the paper's α is fixed). So that a client that sleeps
//!    briefly does not give its part of the round away, it counts as active for one round T after
//!    it went to sleep. And α is a client's rate, not its value of the moment: who is charged because
//!    somebody woke would always be charged by what it is worth beside that one.
//! 7. Places are virtual times (ours): a round has passed when T was given by every CPU. A new
//!    client's place is one round from now; who moves to the rear, one round from where it stood, but
//!    that counts as at most a round before or after now (who runs far before its place had nobody
//!    else there). When all are busy this is the order of the list, for everybody moves once in a
//!    round. On several CPUs it is not: those with small quotas would
//!    move while one with a great quota runs, and be served a second time before that one is.
//! 8. Ticks (ours). A quota shorter than a tick is overrun each time. What was used too much is
//!    paid by missing rounds, as many as it takes, at most [`SKIPS_MAX`]. A round missed is as long as the
//!    client's last one was: shorter than T where others do not use theirs.
//!
//! Property: what a client gets in any time for which it stays runnable is at least α times that
//! time, less a constant of about one round.

use super::{Client, Key, KeyedPolicy, SLICE_MIN_NS, Settings, before, later};

/// Rule 8: a client waits at most about so many rounds for what it used too much.
pub const SKIPS_MAX: u64 = 16;

/// A whole quota, in its parts: the unit of [`Client::left`].
pub const QUOTA: u64 = 1 << 24;

/// MTR-LS on keys: places in the list. See the [module](self).
pub struct MtrLs {
    cpus: u64,
    round_ns: u64,
}

impl MtrLs {
    /// Without clients.
    pub fn new(settings: Settings) -> Self {
        MtrLs { cpus: u64::from(settings.cpus), round_ns: settings.round_ns }
    }

    /// Virtual time of a round.
    fn round(&self) -> u64 {
        self.round_ns.wrapping_mul(self.cpus)
    }

    fn quota_ns(&self, client: &Client) -> u64 {
        (self.round_ns.wrapping_mul(client.rate >> 16) >> 32).wrapping_mul(self.cpus) + 1
    }
}

impl KeyedPolicy for MtrLs {
    fn join(&mut self, client: &mut Client, now: u64) {
        if client.position == 0 {
            client.position = now.wrapping_add(self.round());
            client.left = QUOTA;
        }
    }

    fn key(&mut self, client: &mut Client, _ahead: u64, _waiting: u64, _now: u64) -> Key {
        Key { key: client.position, lost_ns: 0 }
    }

    fn charge(&mut self, client: &mut Client, used_ns: u64, _drawn: u64, now: u64) -> u64 {
        let round = self.round();
        let used_ns = used_ns.min(1 << 32);
        // Nothing is owed by this policy: one that follows it begins anew.
        client.charged_ns = client.due_ns;
        if client.next_place == 0 {
            let mut place = later(client.position, now.wrapping_sub(round));
            if before(now.wrapping_add(round), place) {
                place = now.wrapping_add(round);
            }
            client.next_place = place.wrapping_add(round);
        }
        // Values change while a quota is used: each use counts by the quota that there was.
        client.left = client.left.wrapping_sub(used_ns * QUOTA / self.quota_ns(client));
        let left = client.left as i64;
        if left > 0 {
            return used_ns;
        }
        let debt = left.unsigned_abs();
        let mut skips = debt / QUOTA;
        client.left = QUOTA - debt % QUOTA;
        if skips > SKIPS_MAX {
            skips = SKIPS_MAX;
            client.left = QUOTA;
        }
        let last_round = now.wrapping_sub(client.moved_at) / (1 + client.skips);
        let missed = skips.wrapping_mul(last_round.min(round));
        client.position = client.next_place.wrapping_add(missed);
        client.next_place = 0;
        (client.moved_at, client.skips) = (now, skips);
        used_ns
    }

    fn slice(&self, client: &Client, slice_ns: u64) -> u64 {
        let left_ns = client.left.wrapping_mul(self.quota_ns(client)) / QUOTA;
        left_ns.max(SLICE_MIN_NS).min(slice_ns)
    }

    fn is_settled(&self, client: &Client, at_ns: u64) -> bool {
        at_ns.wrapping_sub(client.left_at_ns) > self.round_ns
    }

    fn keys_are_times(&self) -> bool {
        false
    }
}
