//! What the tests of this crate share.

use allot_experiments::{HEADINGS, Outcome};

/// The keys of `report.json`, in order.
const KEYS: [&str; 20] = [
    "name",
    "paper",
    "machine",
    "enforcer",
    "policy",
    "seed",
    "seconds",
    "rows",
    "max_error",
    "bound",
    "ok",
    "bound_formula",
    "units",
    "quantum_ns",
    "checks",
    "kernel_default",
    "compared",
    "contests",
    "wobble",
    "allotd_cpu",
];
/// The keys of the parts of a report.
const PARTS: [(&str, &[&str]); 3] = [
    (
        "rows",
        &[
            "bound",
            "client",
            "default_error",
            "default_measured",
            "draws",
            "draws_worth",
            "error",
            "measured",
            "promised",
            "promised_by_allotd",
            "used_seconds",
        ],
    ),
    (
        "contests",
        &[
            "allot",
            "allot_without_transfers",
            "default",
            "paper",
            "promised",
            "quantity",
            "unit",
            "what",
        ],
    ),
    ("checks", &["ok", "what"]),
];

/// Asserts that an outcome has the form of every experiment's: its files, keys and headings.
pub fn has_form(outcome: &Outcome) {
    let dir = tempfile::tempdir().expect("a directory");
    outcome.write(dir.path()).expect("it can be written");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("it was written");
    let (json, table) = (read("report.json"), read("table.txt"));
    let name = &outcome.report.name;
    let at: Vec<Option<usize>> =
        KEYS.iter().chain(&["notes"]).map(|key| json.find(&format!("\n  \"{key}\": "))).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{name}: {at:?}");
    let report: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(report.as_object().expect("an object").len(), KEYS.len() + 1, "{name}");
    for (part, keys) in PARTS {
        for one in report[part].as_array().expect("a list") {
            let found: Vec<&String> = one.as_object().expect("an object").keys().collect();
            let mut found: Vec<&str> = found.into_iter().map(String::as_str).collect();
            found.sort_unstable();
            assert_eq!(found, keys, "{name}: {part}");
        }
    }
    let lines: Vec<&str> = table.lines().collect();
    let headings = lines.iter().map(|line| line.strip_suffix(": none").unwrap_or(line));
    let headings: Vec<&str> = headings.filter(|line| HEADINGS.contains(line)).collect();
    assert_eq!(headings, HEADINGS, "{name}: {table}");
    let ends: Vec<&str> = lines[lines.len() - 4..]
        .iter()
        .map(|line| line.split(':').next().unwrap_or_default())
        .collect();
    assert_eq!(ends[..3], ["default", "units", "bound"], "{name}: {table}");
    assert_eq!(ends[3] == "ok", outcome.report.ok, "{name}: {table}");
    for (file, text) in &outcome.files {
        match file.rsplit_once('.') {
            Some((_, "svg")) => assert!(text.contains("</svg>"), "{name}: {file}"),
            Some((_, ending)) => assert_eq!(ending, "log", "{name}: {file}"),
            None => panic!("{name}: {file}"),
        }
    }
    assert!(outcome.files.iter().any(|(file, _)| file.ends_with(".svg")), "{name} has plots");
}
