//! A negotiator alone: whatever it sees, it offers what it has, ends what it holds, and keeps to
//! its bounds. (In company: `crates/sim/tests/negotiators.rs`.)

use allot_market::Negotiator;
use allot_market::negotiator::{
    Action, Event, LOOKS_MAX, Observation, Options, REVERSALS_MAX, Seen, Verdict,
};
use ledger::{Good, TicketKind};
use proptest::prelude::*;
use std::collections::BTreeSet;

const WINDOW_NS: u64 = 5_000_000_000;

fn good(name: &str) -> Good {
    Good { resource: name.parse().expect("a resource"), kind: TicketKind::Soft }
}

/// A client that waits for the CPU nine tenths of its time and never for the disk.
fn pressed(window: u64, done: u64) -> Observation {
    let seen = [("cpu", 9), ("disk:sda", 0)].map(|(name, tenths)| Seen {
        good: good(name),
        waited_ns: window * WINDOW_NS / 10 * tenths,
        held: 1000,
        free: 1000,
    });
    let now_ns = window * WINDOW_NS;
    Observation {
        now_ns,
        progress: Some(done),
        due_ns: now_ns / 10,
        seen: seen.to_vec(),
        ..Observation::default()
    }
}

fn offers(actions: &[Action]) -> Vec<(u64, ledger::Terms)> {
    let offer = |action: &Action| match action {
        Action::Offer { tag, terms } => Some((*tag, terms.clone())),
        _ => None,
    };
    actions.iter().filter_map(offer).collect()
}

/// Runs until it offers, and answers with the offer and the window after it.
fn first_offer(negotiator: &mut Negotiator, a_window: u64) -> (u64, ledger::Terms, u64) {
    for window in 0..20 {
        let actions = negotiator.step(&pressed(window, window * a_window));
        if let Some((tag, terms)) = offers(&actions).pop() {
            return (tag, terms, window + 1);
        }
    }
    panic!("it offers nothing");
}

/// What it does with an exchange after which a window's progress is `after`, in twenty windows.
fn tried(after: u64) -> (Negotiator, Vec<Action>) {
    let mut negotiator = Negotiator::new(Options::default());
    let (tag, terms, from) = first_offer(&mut negotiator, 1000);
    let (gave, got) = (terms.give_most(), terms.points.last().expect("a point").want);
    let mut all = Vec::new();
    for window in from..from + 20 {
        let done = from * 1000 + (window - from) * after;
        let mut seen = pressed(window, done);
        if window == from {
            seen.events.push(Event::Filled { tag, exchange: 7, gave, got });
        }
        all.extend(negotiator.step(&seen));
    }
    (negotiator, all)
}

#[test]
fn it_offers_what_presses_least_for_what_presses_most() {
    let mut negotiator = Negotiator::new(Options::default());
    let (_, terms, _) = first_offer(&mut negotiator, 1000);
    assert_eq!((terms.gives, terms.wants), (good("disk:sda"), good("cpu")));
    // A tenth, at first for as much.
    assert_eq!(terms.points.last().map(|point| (point.give, point.want)), Some((100, 100)));
}

#[test]
fn an_offer_that_nobody_takes_becomes_cheaper_and_is_taken_back_in_the_end() {
    let mut negotiator = Negotiator::new(Options::default());
    let mut wants = Vec::new();
    for window in 0..40 {
        let made = offers(&negotiator.step(&pressed(window, window * 1000)));
        wants.push(made.last().map(|(_, terms)| terms.points.last().expect("a point").want));
    }
    let first = wants.iter().position(Option::is_some).expect("it offers");
    let run: Vec<u64> = wants[first..].iter().map_while(|want| *want).collect();
    assert!(run.is_sorted_by(|one, next| one >= next), "{run:?}");
    assert!(run[0] == 100 && *run.last().expect("some") <= 4, "{run:?}");
    assert!(run.len() < 40 - first, "it gives up: {wants:?}");
}

#[test]
fn what_helps_is_kept_and_what_does_not_is_ended() {
    let (kept, actions) = tried(1200);
    assert!(!actions.contains(&Action::End { exchange: 7 }));
    assert_eq!((kept.tally().kept, kept.tally().reversed), (1, 0));
    for after in [1000, 1010, 800] {
        let (ended, actions) = tried(after);
        assert!(actions.contains(&Action::End { exchange: 7 }), "{after}");
        assert_eq!((ended.tally().kept, ended.tally().reversed), (0, 1), "{after}");
        assert_eq!(ended.exchanges().count(), 0);
    }
}

/// Progress that goes up and down by a tenth from window to window: a gain of 7 % shows after more than two looks.
#[test]
fn what_seems_to_help_is_looked_at_for_longer() {
    let run = |gain: u64, windows: u64| {
        let mut negotiator = Negotiator::new(Options::default());
        let (mut done, mut tag, mut traded) = (0, None, None);
        for window in 0..windows {
            let usual = if window % 2 == 0 { 900 } else { 1100 };
            let after = traded.is_some_and(|from| window > from);
            done += if after { usual * (100 + gain) / 100 } else { usual };
            let mut seen = pressed(window, done);
            if let (Some((tag, gave, got)), None, 24..) = (tag, traded, window) {
                seen.events.push(Event::Filled { tag, exchange: 7, gave, got });
                traded = Some(window);
            }
            let actions = negotiator.step(&seen);
            if let Some(from) = traded {
                if let Some(verdict) = negotiator.verdicts().first() {
                    return (matches!(verdict, Verdict::Kept { .. }), window - from);
                }
                continue;
            }
            tag = offers(&actions).pop().map(|(tag, terms)| {
                (tag, terms.give_most(), terms.points.last().expect("a point").want)
            });
        }
        panic!("no verdict");
    };
    let (settle, windows) =
        (Options::default().settle_windows as u64, Options::default().windows as u64);
    let looks = |passed: u64| (passed - settle) / windows;
    for (gain, helped, wanted) in
        [(30, true, 1..=1), (7, true, 3..=LOOKS_MAX as u64), (0, false, 2..=2)]
    {
        let (kept, passed) = run(gain, 100);
        assert_eq!(kept, helped, "{gain} %");
        assert!(wanted.contains(&looks(passed)), "{gain} %, {passed} windows");
    }
}

#[test]
fn without_a_counter_progress_is_the_time_that_is_not_spent_on_faults() {
    let run = |fault_growth: u64| {
        let mut negotiator = Negotiator::new(Options { fault_ns: 1_000_000, ..Options::default() });
        let mut ended = false;
        let (mut tag, mut faults) = (None, 0);
        for window in 0..40 {
            let mut seen = pressed(window, 0);
            seen.progress = None;
            seen.run_ns = window * 1_000_000_000;
            faults += if tag.is_some() { fault_growth } else { 0 };
            seen.faults = faults;
            if let Some((tag, exchange @ 0)) = tag {
                seen.events.push(Event::Filled { tag, exchange, gave: 10, got: 10 });
                seen.run_ns += 1;
            }
            let actions = negotiator.step(&seen);
            ended |= actions.contains(&Action::End { exchange: 0 });
            tag = match tag {
                None => offers(&actions).pop().map(|(tag, _)| (tag, 0)),
                Some((tag, _)) => Some((tag, 1)),
            };
        }
        (ended, negotiator.tally())
    };
    // 200 faults of a millisecond each in every second of CPU time: a fifth less progress.
    let (ended, tally) = run(200);
    assert!(ended && tally.reversed == 1, "{tally:?}");
}

#[test]
fn its_own_cost_is_bounded() {
    let mut negotiator = Negotiator::new(Options::default());
    // A step costs 10 ms, and the client is due a hundredth of a CPU: 1 % of it is 10 ms in 100 s.
    let (mut now_ns, mut cost_ns, mut steps) = (0, 0, 0u64);
    while now_ns < 3_600_000_000_000 {
        cost_ns += 10_000_000;
        steps += 1;
        let due_ns = now_ns / 100;
        negotiator.step(&Observation { now_ns, due_ns, cost_ns, ..Observation::default() });
        now_ns = negotiator.next_ns();
    }
    // 36, and a few at the beginning, when it does not know yet.
    assert!((30..=42).contains(&steps), "{steps} steps in an hour");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever happens, in any order: nonsense about exchanges and tags included.
    #[test]
    fn it_keeps_to_its_bounds(
        windows in prop::collection::vec(
            (0u64..5000, 0u64..10, 0u64..10, 0u64..10, prop::option::of((0u64..4, 0u64..30)), 0u64..2000),
            50..300,
        ),
    ) {
        let mut negotiator = Negotiator::new(Options::default());
        let names = ["cpu", "disk:sda", "memory"];
        let (mut done, mut waited, mut exchange) = (0, [0; 3], 0);
        let (mut open, mut tags) = (BTreeSet::new(), BTreeSet::new());
        for (window, (more, a, b, c, event, held)) in (0u64..).zip(windows) {
            done += more;
            for (waited, tenths) in waited.iter_mut().zip([a, b, c]) {
                *waited += WINDOW_NS / 10 * tenths;
            }
            let seen: Vec<Seen> = names.iter().zip(waited).map(|(name, waited_ns)| {
                Seen { good: good(name), waited_ns, held, free: held }
            }).collect();
            let events = match event {
                Some((0, tag)) => { exchange += 1; vec![Event::Filled { tag, exchange, gave: 1, got: 1 }] }
                Some((1, tag)) => vec![Event::Gone { tag }],
                Some((2, exchange)) => vec![Event::Ended { exchange }],
                Some((_, _)) => match open.first() {
                    Some(&tag) => { exchange += 1; vec![Event::Filled { tag, exchange, gave: 1, got: 1 }] }
                    None => Vec::new(),
                },
                None => Vec::new(),
            };
            if let Some((1, tag)) = event {
                open.remove(&tag);
            }
            let now_ns = window * WINDOW_NS;
            let actions = negotiator.step(&Observation {
                now_ns, progress: Some(done), due_ns: now_ns, seen, events, ..Observation::default()
            });
            for action in actions {
                match action {
                    Action::Offer { tag, terms } => {
                        prop_assert!(terms.check().is_ok() && terms.give_most() <= held);
                        prop_assert!(tags.insert(tag), "a tag is used once");
                        open.insert(tag);
                    }
                    Action::Cancel { tag } => prop_assert!(open.remove(&tag), "it was open"),
                    Action::End { exchange: ended } => prop_assert!(ended <= exchange),
                }
            }
            prop_assert!(open.len() <= Options::default().offers_max);
            prop_assert!(negotiator.reversals(now_ns) <= REVERSALS_MAX);
        }
    }
}

#[test]
fn it_says_what_it_found_out() {
    for (after, kept) in [(1200, true), (800, false)] {
        let mut negotiator = Negotiator::new(Options::default());
        let (tag, terms, from) = first_offer(&mut negotiator, 1000);
        let (gave, got) = (terms.give_most(), terms.points.last().expect("a point").want);
        let mut found = Vec::new();
        for window in from..from + 20 {
            let mut seen = pressed(window, from * 1000 + (window - from) * after);
            if window == from {
                seen.events.push(Event::Filled { tag, exchange: 7, gave, got });
            }
            negotiator.step(&seen);
            found.extend(negotiator.verdicts().to_vec());
            assert_eq!(negotiator.on_trial().count(), usize::from(found.is_empty()));
            if !found.is_empty() {
                break;
            }
        }
        let [verdict] = &found[..] else { panic!("{found:?}") };
        match verdict {
            Verdict::Kept { exchanges, effect } if kept => {
                assert_eq!(exchanges, &[7]);
                assert!((effect - 0.2).abs() < 1e-9, "{effect}");
            }
            Verdict::TakenBack { exchanges, effect } if !kept => {
                assert_eq!(exchanges, &[7]);
                assert!((effect + 0.2).abs() < 1e-9, "{effect}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_it_takes_over_stays_until_its_client_regrets_it() {
    let mut negotiator = Negotiator::new(Options::default());
    // It gave what it waits for now.
    negotiator.adopt(3, (good("cpu"), 400), (good("disk:sda"), 400));
    assert_eq!(
        (negotiator.exchanges().collect::<Vec<_>>(), negotiator.on_trial().count()),
        (vec![3], 0)
    );
    let mut ended = None;
    for window in 0..20 {
        let actions = negotiator.step(&pressed(window, window * 1000));
        if actions.contains(&Action::End { exchange: 3 }) {
            ended.get_or_insert((window, negotiator.verdicts().to_vec()));
        }
    }
    let (window, verdicts) = ended.expect("it is ended");
    assert_eq!(window, 6, "as soon as it is known");
    assert_eq!(verdicts, [Verdict::LoadChanged { ended: vec![3] }]);
}
