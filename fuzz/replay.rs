//! The replay of a fuzz target's kept corpus, and of mutations of it: no instrumentation, and always the same.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use std::path::Path;

/// One change of an input.
#[derive(Clone, Debug)]
enum Edit {
    Set(Index, u8),
    Insert(Index, u8),
    /// Removes some bytes.
    Cut(Index, usize),
    /// Inserts a part of another input.
    Splice(Index, Index, Index, usize),
}

/// An input, shown as a byte string.
struct Input(Vec<u8>);

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = || any::<Index>();
    let byte =
        || prop_oneof![any::<u8>(), prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xff, b'9'])];
    let one = prop_oneof![
        4 => (at(), byte()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        2 => (at(), byte()).prop_map(|(at, byte)| Edit::Insert(at, byte)),
        1 => (at(), 1_usize..16).prop_map(|(at, count)| Edit::Cut(at, count)),
        2 => (at(), at(), at(), 1_usize..64)
            .prop_map(|(at, other, from, count)| Edit::Splice(at, other, from, count)),
    ];
    prop::collection::vec(one, 1..6)
}

fn edited(mut input: Vec<u8>, edits: &[Edit], corpus: &[Vec<u8>]) -> Vec<u8> {
    for edit in edits {
        let length = input.len();
        match edit {
            Edit::Set(at, byte) if length > 0 => input[at.index(length)] = *byte,
            Edit::Set(..) => {}
            Edit::Insert(at, byte) => input.insert(at.index(length + 1), *byte),
            Edit::Cut(at, count) => {
                let from = at.index(length + 1);
                input.drain(from..length.min(from + count));
            }
            Edit::Splice(at, other, from, count) => {
                let (at, other) = (at.index(length + 1), &corpus[other.index(corpus.len())]);
                let from = from.index(other.len() + 1);
                let part = other[from..other.len().min(from + count)].iter().copied();
                input.splice(at..at, part);
            }
        }
    }
    input
}

/// Gives a target its corpus, then so many mutations. What fails is shown with the least mutation that still fails.
pub fn replay(target: &str, mutations: u32, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |file: &std::path::PathBuf| std::fs::read(file).expect("a file of the corpus");
    let corpus: Vec<Vec<u8>> = files.iter().map(read).collect();
    assert!(!corpus.is_empty(), "{folder:?} is empty");
    for (file, input) in files.iter().zip(&corpus) {
        eprintln!("{}", file.display());
        run(input);
    }
    let config = Config { cases: mutations, failure_persistence: None, ..Config::default() };
    let rng = TestRunner::deterministic().new_rng();
    let mut runner = TestRunner::new_with_rng(config, rng);
    let mutated = (any::<Index>(), edits()).prop_map(|(start, edits)| {
        Input(edited(corpus[start.index(corpus.len())].clone(), &edits, &corpus))
    });
    let tried = runner.run(&mutated, |input| {
        run(&input.0);
        Ok(())
    });
    if let Err(error) = tried {
        panic!("{target}: {error}");
    }
}
