//! Integer arithmetic that uses CPU time.

use crate::workloads::clock::thread_cpu_ns;

/// Inner loops of one iteration, as in paper 3 (5.2): about 20 µs of a CPU of today.
const INNER_LOOPS: u32 = 5000;

/// The state that [`inner_loops`] begins with.
pub(crate) const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Does one iteration of arithmetic that the compiler cannot leave out.
pub(crate) fn inner_loops(mut state: u64) -> u64 {
    for _ in 0..INNER_LOOPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    std::hint::black_box(state)
}

/// Uses `amount_ns` of CPU time by the thread's own clock.
pub(crate) fn burn_ns(amount_ns: u64) {
    let until_ns = thread_cpu_ns() + amount_ns;
    let mut state = SEED;
    while thread_cpu_ns() < until_ns {
        // A tenth of an iteration: bursts are short.
        for _ in 0..INNER_LOOPS / 10 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        state = std::hint::black_box(state);
    }
}

/// One step of xorshift64 (Marsaglia 2003); the state is never 0.
pub(crate) fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::clock::{monotonic_ns, sleep_until};

    #[test]
    fn burning_uses_what_it_says() {
        let before = thread_cpu_ns();
        burn_ns(3_000_000);
        assert!(thread_cpu_ns() - before >= 3_000_000);
        let until = monotonic_ns() + 2_000_000;
        sleep_until(until);
        assert!(monotonic_ns() >= until);
    }
}
