//! ARCHITECTURE.md is a map of what is there: its table of crates is what cargo says, each module has its line, and the
//! tests that docs/theorems.md names exist.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text_of(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn short(name: &str) -> &str {
    match name {
        "allot" | "allotd" => name,
        _ => name.trim_start_matches("allot-"),
    }
}

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
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("a list");
            let own = dependencies.iter().filter(|dependency| {
                dependency["kind"].is_null() && dependency["path"].is_string()
            });
            let name = |of: &Value| short(of["name"].as_str().expect("a name")).to_owned();
            (name(package), own.map(name).collect())
        })
        .collect()
}

#[test]
fn crates_see_what_the_table_says_and_nothing_else() {
    let text = text_of("ARCHITECTURE.md");
    assert_eq!(promised(&text), actual(&metadata()), "left: ARCHITECTURE.md, right: cargo");
}

/// The modules right below each crate's root, as `crate::module`.
fn modules(metadata: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("cargo lists packages") {
        let name = short(package["name"].as_str().expect("a name"));
        let manifest = package["manifest_path"].as_str().expect("a path");
        let source = Path::new(manifest).with_file_name("src");
        for entry in std::fs::read_dir(source).into_iter().flatten().flatten() {
            let path = entry.path();
            let module = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
            let is_rust = path.is_dir() || path.extension().is_some_and(|it| it == "rs");
            let is_root = matches!(module, "lib" | "main" | "bin" | "program");
            if is_rust && !is_root && !module.ends_with("tests") {
                all.insert(format!("{name}::{module}"));
            }
        }
    }
    all
}

#[test]
fn each_module_has_its_line() {
    let text = text_of("ARCHITECTURE.md");
    let lines = text.lines().filter_map(|line| line.strip_prefix("- `")?.split_once('`'));
    let named = lines.filter(|(name, _)| name.contains("::")).map(|(name, _)| name.to_owned());
    let (named, there) = (named.collect::<BTreeSet<_>>(), modules(&metadata()));
    let missing: Vec<_> = there.difference(&named).collect();
    let gone: Vec<_> = named.difference(&there).collect();
    assert!(missing.is_empty() && gone.is_empty(), "without a line: {missing:?}; gone: {gone:?}");
}

/// Adds the names of all functions below a folder.
fn functions(folder: &Path, all: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            all.extend(names.map(|rest| rest.chars().take_while(|c| plain(*c)).collect()));
        }
    }
}

#[test]
fn the_tests_that_the_theorems_name_exist() {
    let mut there = BTreeSet::new();
    functions(&root().join("crates"), &mut there);
    let text = text_of("docs/theorems.md");
    // A test's name is a sentence: at least four words.
    let is_test = |word: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        word.split('_').filter(|part| !part.is_empty()).count() >= 4 && word.chars().all(plain)
    };
    let named: BTreeSet<&str> =
        text.split('`').skip(1).step_by(2).filter(|it| is_test(it)).collect();
    assert!(named.len() >= 10, "the theorems name their tests");
    let gone: Vec<_> = named.iter().filter(|name| !there.contains(**name)).collect();
    assert!(gone.is_empty(), "docs/theorems.md names tests that are gone: {gone:?}");
}
