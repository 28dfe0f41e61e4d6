//! The fuzz target `negotiate`: policies, and files and pages that tell progress, as texts that may say anything.

use crate::progress::{Source, Whose, progress_in};
use crate::settings::{Policy, Settings, WINDOW, span};
use wire::{Class, CurrencyKind, CurrencyView};

/// Reads a text as a policy and as a page. What a policy is taken to say is within its bounds.
pub fn negotiate(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = span(text);
    page(text);
    let Ok(policy) = Policy::parse(text) else { return };
    for currency in currencies() {
        let Some(settings) = policy.settings(&currency, "staff", &["base", "ci"]) else { continue };
        check(settings, &currency);
    }
}

/// The first line names a metric of the others.
fn page(text: &str) {
    let (metric, page) = text.split_once('\n').unwrap_or(("", text));
    let _ = (progress_in(page, None), progress_in(page, Some(metric)));
}

fn check(settings: &Settings, currency: &CurrencyView) {
    let window = settings.window();
    assert!((WINDOW.0..=WINDOW.1).contains(&window), "{window:?}");
    assert!(settings.lease > 4 * window, "{settings:?}");
    assert!(settings.most_part > 0.0 && settings.most_part <= 1.0, "{settings:?}");
    assert!(settings.options.cost_part > 0.0 && settings.options.cost_part <= 0.01);
    let Some(source) = &settings.progress else { return };
    for name in [currency.name.as_str(), "../etc", "..", "a b", "{user}", "\u{fc}"] {
        let (id, user) = (currency.id, currency.owner_name.clone());
        let whose = Whose { pid: Some(5), id, name: name.to_owned(), user };
        if let Ok(filled) = source.of(&whose) {
            assert_eq!(steps(&filled), steps(source), "{name:?} leads elsewhere");
        }
    }
}

/// The parts of a source that lead to a place, whatever stands between them.
fn steps(source: &Source) -> (usize, usize) {
    let place = match source {
        Source::File(path) => path,
        Source::Url { url, .. } => url,
        Source::Lines => "",
    };
    let is_up = |part: &&str| matches!(*part, ".." | ".");
    (place.split('/').count(), place.split('/').filter(is_up).count())
}

fn currencies() -> Vec<CurrencyView> {
    let currency = |kind, owner_name: &str, name: &str| CurrencyView {
        id: 5,
        name: name.to_owned(),
        kind,
        owner: 1000,
        owner_name: owner_name.to_owned(),
        group: 50,
        mode: String::new(),
        grants: Vec::new(),
        process: None,
        founder: None,
        joined: None,
        members: Vec::new(),
        class: Class::Host,
        limits: Vec::new(),
        placed: false,
        frozen: false,
        resources: Vec::new(),
    };
    vec![
        currency(CurrencyKind::Client, "ci-7", "make"),
        currency(CurrencyKind::Client, "alice", "cc1plus"),
        currency(CurrencyKind::Pure, "jo", "build"),
        currency(CurrencyKind::Job, "", ""),
        currency(CurrencyKind::Base, "root", "base"),
    ]
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_policies_and_pages_is_refused_or_within_bounds() {
    replay::replay("negotiate", 4_000, negotiate);
}
