//! The table of crates in ARCHITECTURE.md is what cargo says.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The crates and what they see by the table whose rows are `name`, description, list.
fn promised(text: &str) -> Edges {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 3)
        .map(|cells| {
            let sees = cells[2].split(", ").filter(|name| *name != "–").map(str::to_owned);
            (cells[0].trim_matches('`').to_owned(), sees.collect())
        })
        .collect()
}

/// The crates and what they depend on within the workspace, tests aside.
fn actual(metadata: &Value) -> Edges {
    let short = |name: &str| match name {
        "allot" | "allotd" => name.to_owned(),
        _ => name.trim_start_matches("allot-").to_owned(),
    };
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            let own = dependencies.iter().filter(|dependency| {
                dependency["kind"].is_null() && dependency["path"].is_string()
            });
            let sees = own.map(|dependency| short(dependency["name"].as_str().expect("a name")));
            (short(package["name"].as_str().expect("a name")), sees.collect())
        })
        .collect()
}

#[test]
fn crates_see_what_the_table_says_and_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(&root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    assert_eq!(promised(&text), actual(&metadata), "left: ARCHITECTURE.md, right: cargo");
}
