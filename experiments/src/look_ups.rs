//! Paper 1's look-up server (6.6) on LMDB, which maps its file as the paper's database library maps
//! its cache: random queries, one at a time, until it is ended.
//!
//! The entries are put in order, so that the pages are full: 70 000 of them are 3.9 MiB and 2²⁰ are
//! 59 MiB, about as in the paper. Nothing of it is in memory at the start, and the kernel is told not
//! to read ahead.

use crate::workload::{Begin, SEED, Workplace};
use heed::types::{Bytes, U64};
use heed::{Env, EnvFlags, EnvOpenOptions};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use std::fs::{File, remove_file};
use std::io;
use std::path::{Path, PathBuf};

/// A database, made by the workload if it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Database {
    /// Where it is.
    pub file: PathBuf,
    /// How many entries it has, at least 1.
    pub entries: u64,
}

type Key = U64<heed::byteorder::BE>;

/// An entry's value: with its key and the database's own data 58 bytes.
const VALUE_BYTES: usize = 40;
/// More than any of the files: address space is free.
const MAP_BYTES: usize = 1 << 30;
/// A transaction pins nothing here, as nobody writes; it is renewed so that the clock is looked at.
const LOOK_UPS_PER_TRANSACTION: u32 = 64;

pub(crate) fn prepare(database: &Database) -> io::Result<Begin> {
    let Database { file, entries } = database.clone();
    if entries == 0 {
        return Err(io::Error::other("a database without entries answers nothing"));
    }
    make(&file, entries).map_err(io::Error::other)?;
    let made = File::open(&file)?;
    made.sync_all()?;
    fadvise(&made, 0, None, Advice::DontNeed)?;
    Ok(Box::new(move |place| look_up(&file, entries, place).map_err(io::Error::other)))
}

fn open(file: &Path, flags: EnvFlags) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: without its lock file a database is safe while one process at a time opens it: each of
    // these files is one workload's alone, which opens it for writing, closes it, and then reads.
    unsafe {
        options.flags(flags | EnvFlags::NO_SUB_DIR | EnvFlags::NO_LOCK | EnvFlags::NO_READ_AHEAD);
        options.open(file)
    }
}

fn make(file: &Path, entries: u64) -> heed::Result<()> {
    match remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let environment = open(file, EnvFlags::empty())?;
    let mut transaction = environment.write_txn()?;
    let table = environment.create_database::<Key, Bytes>(&mut transaction, None)?;
    for key in 0..entries {
        let append = heed::PutFlags::APPEND;
        table.put_with_flags(&mut transaction, append, &key, &value_of(key))?;
    }
    transaction.commit()?;
    environment.prepare_for_closing().wait();
    Ok(())
}

/// What the key's entry holds.
fn value_of(key: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    let mut state = key ^ SEED;
    for word in value.chunks_exact_mut(size_of::<u64>()) {
        step(&mut state);
        word.copy_from_slice(&state.to_ne_bytes());
    }
    value
}

fn step(state: &mut u64) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
}

fn look_up(file: &Path, entries: u64, place: &Workplace) -> heed::Result<()> {
    let environment = open(file, EnvFlags::READ_ONLY)?;
    let first = environment.read_txn()?;
    let table = environment.open_database::<Key, Bytes>(&first, None)?;
    drop(first);
    let Some(table) = table else { return Err(io::Error::other("it has no entries").into()) };
    let mut state = SEED.wrapping_mul(2 * place.slot as u64 + 1);
    while !place.over() {
        let transaction = environment.read_txn()?;
        for _ in 0..LOOK_UPS_PER_TRANSACTION {
            step(&mut state);
            let key = state % entries;
            if table.get(&transaction, &key)? != Some(&value_of(key)[..]) {
                return Err(io::Error::other(format!("entry {key} is not what was put")).into());
            }
            place.count();
            if place.over() {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Page;
    use crate::workload::monotonic_ns;
    use std::sync::atomic::Ordering;

    fn looked_up(file: &Path, entries: u64) -> heed::Result<u64> {
        let dir = tempfile::tempdir().unwrap();
        let page = Page::create(&dir.path().join("page"), 1).unwrap();
        let start_ns = monotonic_ns();
        let place = Workplace { page, slot: 0, start_ns, last_ns: start_ns + 100_000_000 };
        look_up(file, entries, &place)?;
        Ok(place.page.iterations(0).load(Ordering::Relaxed))
    }

    #[test]
    fn it_answers_from_a_file_as_long_as_the_papers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("small");
        let begin = prepare(&Database { file: file.clone(), entries: 70_000 }).unwrap();
        drop(begin);
        let mib = std::fs::metadata(&file).unwrap().len() as f64 / f64::from(1 << 20);
        assert!((3.9..4.1).contains(&mib), "{mib} MiB");
        assert!(looked_up(&file, 70_000).unwrap() > 0);
        assert!(looked_up(&file, 140_000).is_err(), "half of these are not there");
    }

    #[test]
    fn a_database_of_nothing_is_refused() {
        let file = PathBuf::from("/nowhere/db");
        assert!(prepare(&Database { file: file.clone(), entries: 0 }).is_err());
        assert!(prepare(&Database { file, entries: 1 }).is_err());
    }
}
