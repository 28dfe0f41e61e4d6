//! Theorem 2 and, on the way, 1, 3 and 4: random users with random rights do random things.
//! A failure prints the seed and the shortest sequence found.

use allot_sim::adversary::{Audit, Tally, play};

fn many(seeds: std::ops::Range<u64>, audit: Audit) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        if let Err(found) = play(seed, audit, &mut tally) {
            panic!("{found}");
        }
    }
    tally
}

#[test]
fn no_user_lowers_what_another_is_due() {
    let tally = many(0..3_000, Audit::AtEnd);
    // The test has teeth only if things happen.
    assert!(tally.promises > 100_000, "{tally:?}");
    for (kind, (applied, refused)) in &tally.operations {
        assert!(*applied > 100, "{kind}: {applied} applied, {refused} refused");
    }
    assert_eq!(tally.operations.len(), 15, "{tally:?}");
    eprintln!("{tally:?}");
}

#[test]
fn every_step_conserves_keeps_reservations_and_the_books() {
    let tally = many(1_000_000..1_000_400, Audit::Always);
    assert!(tally.sequences == 400);
}
