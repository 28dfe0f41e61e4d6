//! Proofs, by the SMT solver z3, that the arithmetic of tickets creates no value and loses no bits.
//!
//! The functions are translated from the source into formulas over integers, where every step of them must stay
//! within its type; so what is proved holds for all inputs in the stated ranges. Two functions are tied to
//! their translation by running both ([`the_formulas_compute_what_the_code_does`]).

mod solver;
mod translate;

use crate::exchanged::part;
use crate::graph::{WHOLE, share};
use ledger::{AMOUNT_MAX, HARD_TOTAL, ISSUED_MAX, Issued, MEMORY_KIB_MAX, TicketKind};
use ledger::{cover_by_base, cover_of, cover_through};
use solver::{Questions, is_there};
use std::collections::BTreeMap;
use translate::{Formula, Source, Value};

const GRAPH: &str = include_str!("graph.rs");
const EXCHANGED: &str = include_str!("exchanged.rs");
const COVER: &str = include_str!("../../ledger/src/cover.rs");
const TICKET: &str = include_str!("../../ledger/src/ticket.rs");

/// The most that a cover is, in parts of `COVER_ONE`: base's most tickets of one holder.
const COVER_MAX: u128 = (MEMORY_KIB_MAX as u128) << 32;

fn u64_named(name: &str) -> Value {
    Value::Int(name.to_owned(), Some(64))
}

fn u128_named(name: &str) -> Value {
    Value::Int(name.to_owned(), Some(128))
}

fn structure(fields: &[(&str, Value)]) -> Value {
    Value::Struct(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// A call whose arguments are numbers, each from 0 to a greatest one.
struct Call {
    ranges: Vec<(&'static str, u128)>,
    formula: Formula,
}

impl Call {
    fn share() -> Call {
        let all = u128::from(u64::MAX);
        let ranges = vec![("value", all), ("part", all), ("whole", all)];
        Call::numbers(Source::find("share", GRAPH, &[]), ranges, &[])
    }

    fn part(value_max: u64, up: bool) -> Call {
        let all = u128::from(u64::MAX);
        let ranges = vec![("value", value_max.into()), ("part", all), ("whole", all)];
        let up = Value::Bool(up.to_string());
        Call::numbers(Source::find("part", EXCHANGED, &[]), ranges, &[up])
    }

    fn cover_by_base() -> Call {
        let ranges = vec![("amount", MEMORY_KIB_MAX.into())];
        Call::numbers(Source::find("cover_by_base", COVER, &[]), ranges, &[])
    }

    fn cover_of() -> Call {
        let ranges = vec![("given", u64::MAX.into())];
        Call::numbers(Source::find("cover_of", COVER, &[]), ranges, &[])
    }

    fn cover_through(kind: TicketKind) -> Call {
        let ranges = vec![
            ("rest", COVER_MAX),
            ("amount", AMOUNT_MAX.into()),
            ("soft", ISSUED_MAX.into()),
            ("hard", HARD_TOTAL.into()),
        ];
        let issued = structure(&[("soft", u64_named("soft")), ("hard", u64_named("hard"))]);
        let arguments =
            [u128_named("rest"), Value::Variant(format!("{kind:?}")), u64_named("amount"), issued];
        let source = Source::find("cover_through", COVER, &[TICKET]);
        Call { ranges, formula: Formula::call(&source, &arguments) }
    }

    fn memory_bytes() -> Call {
        let ranges = vec![("value", WHOLE.into()), ("memory_kib", MEMORY_KIB_MAX.into())];
        let graph = structure(&[("memory_kib", u64_named("memory_kib"))]);
        let source = Source::find("memory_bytes", GRAPH, &[]);
        Call { ranges, formula: Formula::call(&source, &[graph, u64_named("value")]) }
    }

    fn numbers(source: Source, ranges: Vec<(&'static str, u128)>, more: &[Value]) -> Call {
        let arguments = ranges.iter().map(|(name, _)| u64_named(name));
        let arguments: Vec<Value> = arguments.chain(more.iter().cloned()).collect();
        Call { ranges, formula: Formula::call(&source, &arguments) }
    }

    /// The numbers of the call and what is known of them; `answer` is what it answers.
    fn declare(&self, questions: &mut Questions) {
        for (name, max) in &self.ranges {
            questions.number(name);
            questions.assume(&format!("(<= 0 {name} {max})"));
        }
        self.formula.names.iter().for_each(|name| questions.number(name));
        self.formula.facts.iter().for_each(|fact| questions.assume(fact));
        questions.number("answer");
        questions.assume(&format!("(= answer {})", self.formula.answer));
    }

    /// Proves that no step of the call leaves its type, and claims about the answer, under conditions.
    fn prove(&self, conditions: &[&str], claims: &[&str]) {
        let mut questions = Questions::default();
        self.declare(&mut questions);
        conditions.iter().for_each(|condition| questions.assume(condition));
        for obligation in &self.formula.obligations {
            questions.claim(obligation);
            questions.assume(obligation);
        }
        claims.iter().for_each(|claim| questions.claim(claim));
        questions.answer();
    }
}

/// Whatever its issuer is worth and its tickets' parts are: a share is the exact one rounded down.
#[test]
fn a_share_is_exact_rounded_down_and_at_most_the_whole() {
    if is_there("a_share_is_exact_rounded_down_and_at_most_the_whole") {
        Call::share().prove(
            &["(<= part whole)", "(< 0 whole)"],
            &[
                "(<= 0 answer value)",
                "(<= (* answer whole) (* value part))",
                "(< (* value part) (* (+ answer 1) whole))",
                "(=> (= part whole) (= answer value))",
            ],
        );
    }
}

/// What is exchanged is rounded for those who receive it down and for those who are charged for it up, and at most
/// saturates.
#[test]
fn what_is_exchanged_is_rounded_against_the_parties() {
    if !is_there("what_is_exchanged_is_rounded_against_the_parties") {
        return;
    }
    let fits = "(<= part (* 17 whole))";
    Call::part(WHOLE, false).prove(
        &["(< 0 whole)", fits],
        &["(<= (* answer whole) (* value part))", "(< (* value part) (* (+ answer 1) whole))"],
    );
    Call::part(WHOLE, true).prove(
        &["(< 0 whole)", fits],
        &["(>= (* answer whole) (* value part))", "(> (* value part) (* (- answer 1) whole))"],
    );
    // Without that bound, only that nothing overflows.
    for up in [false, true] {
        Call::part(u64::MAX, up).prove(&["(< 0 whole)"], &["(<= 0 answer 18446744073709551615)"]);
    }
}

#[test]
fn a_cover_is_at_most_what_it_comes_from() {
    if !is_there("a_cover_is_at_most_what_it_comes_from") {
        return;
    }
    let most = format!("(<= 0 answer {COVER_MAX})");
    Call::cover_by_base().prove(&[], &[&most, "(= (* answer 16) (* 15 amount 4294967296))"]);
    Call::cover_of().prove(&[], &["(= answer (* given 4294967296))"]);
    Call::cover_through(TicketKind::Soft).prove(
        &["(<= amount soft)"],
        &[
            "(<= 0 answer rest)",
            "(<= (* answer 1000 soft) (* rest (- 1000 hard) amount))",
            "(=> (and (> soft 0) (= amount soft)) (> (* (+ answer 1) 1000) (* rest (- 1000 hard))))",
        ],
    );
    Call::cover_through(TicketKind::Hard).prove(
        &["(<= amount hard)"],
        &["(<= 0 answer rest)", "(<= (* answer 1000) (* rest amount))"],
    );
    Call::cover_through(TicketKind::Transfer).prove(&[], &["(= answer 0)"]);
}

#[test]
fn memory_is_never_more_than_there_is() {
    if is_there("memory_is_never_more_than_there_is") {
        Call::memory_bytes().prove(
            &[],
            &[
                "(<= 0 answer (* memory_kib 1024))",
                "(>= (* answer 281474976710656) (* value memory_kib 1024))",
                "(=> (= value 281474976710656) (= answer (* memory_kib 1024)))",
            ],
        );
    }
}

/// By induction over a currency's tickets, for any number of them: `sum` of the shares, rounded down, stays within
/// `value · parts / whole`, and falls short of it by less than one part for each ticket.
#[test]
fn shares_never_sum_to_more_than_what_is_shared() {
    if !is_there("shares_never_sum_to_more_than_what_is_shared") {
        return;
    }
    let mut questions = Questions::default();
    for name in ["value", "whole", "sum", "parts", "tickets", "share", "part"] {
        questions.number(name);
        questions.assume(&format!("(<= 0 {name})"));
    }
    questions.assume("(< 0 whole)");
    // The theorem about one share.
    questions.assume("(<= (* share whole) (* value part))");
    questions.assume("(< (* value part) (* (+ share 1) whole))");
    // It holds for those before, and so for one more; of none it holds.
    questions.assume("(<= (* sum whole) (* value parts))");
    questions.assume("(<= (* value parts) (* (+ sum tickets) whole))");
    questions.claim("(<= (* (+ sum share) whole) (* value (+ parts part)))");
    questions.claim("(< (* value (+ parts part)) (* (+ sum share tickets 1) whole))");
    // All tickets together are the whole, or less.
    questions.claim("(=> (<= parts whole) (<= sum value))");
    questions.claim("(=> (= parts whole) (<= value (+ sum tickets)))");
    questions.answer();
}

/// Hard tickets, and soft ones through the soft-ticket subcurrency, together (rules 3 and 4): never more than
/// the currency is worth, and short of it by at most one part for each ticket and one for the subcurrency.
#[test]
fn a_currency_gives_no_more_than_it_is_worth() {
    if !is_there("a_currency_gives_no_more_than_it_is_worth") {
        return;
    }
    let mut questions = Questions::default();
    let names =
        ["value", "hard", "rest", "hard_sum", "hard_tickets", "sub", "soft_sum", "soft_tickets"];
    for name in names {
        questions.number(name);
        questions.assume(&format!("(<= 0 {name})"));
    }
    questions.assume("(< 0 (+ hard rest))");
    // The theorem about sums, of the hard tickets; about one share, of the subcurrency; about sums, of the soft ones.
    questions.assume("(<= (* hard_sum (+ hard rest)) (* value hard))");
    questions.assume("(<= (* value hard) (* (+ hard_sum hard_tickets) (+ hard rest)))");
    questions.assume("(<= (* sub (+ hard rest)) (* value rest))");
    questions.assume("(< (* value rest) (* (+ sub 1) (+ hard rest)))");
    questions.assume("(<= soft_sum sub (+ soft_sum soft_tickets))");
    questions.claim("(<= (+ hard_sum soft_sum) value)");
    questions.claim("(< value (+ hard_sum soft_sum hard_tickets soft_tickets 1))");
    questions.answer();
}

/// The proofs can fail: claims that are not so are refuted, and what is assumed is possible.
#[test]
fn what_is_not_so_is_not_proved() {
    if !is_there("what_is_not_so_is_not_proved") {
        return;
    }
    let mut questions = Questions::default();
    let share = Call::share();
    share.declare(&mut questions);
    questions.assume("(< 0 whole 10)");
    questions.possible("(and (< part whole) (= answer 2) (< (* answer whole) (* value part)))");
    questions.assume("(= value 18446744073709551615)");
    questions.assume("(and (= part 3) (= whole 2))");
    let lost = share.formula.obligations.last().expect("the cast must fit");
    questions.possible(&format!("(not {lost})"));
    questions.answer();
}

/// Numbers of all sizes, the same each time.
fn samples() -> impl Iterator<Item = u64> {
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)) >> (state >> 58)
    })
}

/// For numbers of all sizes, the formula of a call has one answer: the code's.
fn agrees(call: &Call, run: impl Fn(&BTreeMap<&str, u64>) -> Option<u128>) {
    let mut questions = Questions::default();
    call.declare(&mut questions);
    let mut samples = samples();
    let mut compared = 0;
    while compared < 50 {
        let inputs: BTreeMap<&str, u64> = call
            .ranges
            .iter()
            .zip(&mut samples)
            .map(|((name, max), sample)| (*name, (u128::from(sample) % (max + 1)) as u64))
            .collect();
        let Some(answer) = run(&inputs) else { continue };
        let given: Vec<String> =
            inputs.iter().map(|(name, value)| format!("(= {name} {value})")).collect();
        let given = given.join(" ");
        questions.claim(&format!("(=> (and {given}) (= answer {answer}))"));
        questions.possible(&format!("(and {given})"));
        compared += 1;
    }
    questions.answer();
}

#[test]
fn the_formulas_compute_what_the_code_does() {
    if !is_there("the_formulas_compute_what_the_code_does") {
        return;
    }
    agrees(&Call::share(), |of| {
        let fits = of["whole"] > 0 && of["part"] <= of["whole"];
        fits.then(|| share(of["value"], of["part"], of["whole"]).into())
    });
    for up in [false, true] {
        agrees(&Call::part(u64::MAX, up), |of| {
            (of["whole"] > 0).then(|| part(of["value"], of["part"], of["whole"], up).into())
        });
    }
    agrees(&Call::cover_by_base(), |of| Some(cover_by_base(of["amount"])));
    agrees(&Call::cover_of(), |of| Some(cover_of(of["given"])));
    for kind in [TicketKind::Soft, TicketKind::Hard, TicketKind::Transfer] {
        agrees(&Call::cover_through(kind), |of| {
            let issued = Issued { soft: of["soft"], hard: of["hard"], tickets: 1 };
            let fits = of["soft"] > 0;
            fits.then(|| cover_through(of["rest"].into(), kind, of["amount"], issued))
        });
    }
}
