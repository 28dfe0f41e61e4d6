//! Theorems 1 and 3, and that values are what the papers' rules say: on all small funding
//! graphs, and on large random ones.

use allot_sim::{large, small};

#[test]
fn all_small_graphs_are_valued_by_the_rules() {
    let mut total = small::Count::default();
    for set in small::SMALLER {
        let count = small::check_all(set).unwrap_or_else(|fault| panic!("{set:?}: {fault}"));
        eprintln!("{set:?}: {count:?}");
        assert!(count.graphs > 100, "{set:?}");
        total.graphs += count.graphs;
        total.activities += count.activities;
    }
    assert!(total.activities > 500_000, "{total:?}");
}

#[test]
fn large_random_graphs_are_valued_by_the_rules() {
    for seed in 1..=2 {
        large::check(seed, 10_000, 20, 3).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

#[test]
fn many_middling_graphs_are_valued_by_the_rules() {
    for seed in 100..160 {
        large::check(seed, 120, 12, 6).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}
