//! The look-up server's database on LMDB, which maps its file as the paper's database library maps
//! its cache.
//!
//! The entries are put in order, so that the pages are full: with values of 40 bytes, 70 000 of
//! them take 3.9 MiB and 2²⁰ take 59 MiB, about as in the paper. None of the database is in memory
//! at the start, and the kernel is told not to read ahead.

use crate::workloads::arithmetic::{SEED, xorshift};
use crate::workloads::database::Database;
use crate::workloads::work::{PreparedWork, WorkContext};
use heed::types::{Bytes, U64};
use heed::{Env, EnvFlags, EnvOpenOptions};
use rustix::fs::{Advice, fadvise};
use std::fs::{File, remove_file, rename};
use std::io;
use std::path::Path;

type Key = U64<heed::byteorder::BE>;

/// Length of the mapping: more than any of the files, since address space is free.
const MAP_BYTES: usize = 1 << 30;
/// Look-ups between two reads of the clock. A transaction pins nothing here, as nobody writes.
const LOOK_UPS_PER_TRANSACTION: u32 = 64;

/// Makes the database if its file is missing, and prepares to look up its entries.
pub(crate) fn prepare(database: &Database) -> io::Result<PreparedWork> {
    let database = database.clone();
    if database.entries == 0 {
        return Err(io::Error::other("a database without entries answers nothing"));
    }
    if !database.file.try_exists()? {
        make(&database).map_err(io::Error::other)?;
    }
    let made = File::open(&database.file)?;
    made.sync_all()?;
    fadvise(&made, 0, None, Advice::DontNeed)?;
    Ok(Box::new(move |context| look_up(&database, context).map_err(io::Error::other)))
}

fn open(file: &Path, flags: EnvFlags) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: without its lock file a database is safe while one process at a time opens it: each
    // of these files is one workload's alone, which opens it for writing, closes it, and then
    // reads.
    unsafe {
        options.flags(flags | EnvFlags::NO_SUB_DIR | EnvFlags::NO_LOCK | EnvFlags::NO_READ_AHEAD);
        options.open(file)
    }
}

/// Makes the database. Invariant: a file of that name is a whole database, even after an
/// interruption.
fn make(database: &Database) -> heed::Result<()> {
    let file = database.file.with_extension("new");
    match remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let environment = open(&file, EnvFlags::empty())?;
    let mut transaction = environment.write_txn()?;
    let table = environment.create_database::<Key, Bytes>(&mut transaction, None)?;
    let mut value = vec![0; database.value_bytes];
    for key in 0..database.entries {
        let append = heed::PutFlags::APPEND;
        put_value_of(key, &mut value);
        table.put_with_flags(&mut transaction, append, &key, &value)?;
    }
    transaction.commit()?;
    environment.prepare_for_closing().wait();
    Ok(rename(&file, &database.file)?)
}

/// Writes the value of a key's entry.
fn put_value_of(key: u64, value: &mut [u8]) {
    let mut state = key ^ SEED;
    for word in value.chunks_mut(size_of::<u64>()) {
        xorshift(&mut state);
        word.copy_from_slice(&state.to_ne_bytes()[..word.len()]);
    }
}

fn look_up(database: &Database, context: &WorkContext) -> heed::Result<()> {
    let environment = open(&database.file, EnvFlags::READ_ONLY)?;
    let first = environment.read_txn()?;
    let table = environment.open_database::<Key, Bytes>(&first, None)?;
    drop(first);
    let Some(table) = table else { return Err(io::Error::other("it has no entries").into()) };
    let mut state = SEED.wrapping_mul(2 * context.slot as u64 + 1);
    let mut value = vec![0; database.value_bytes];
    while !context.over() {
        let transaction = environment.read_txn()?;
        for _ in 0..LOOK_UPS_PER_TRANSACTION {
            xorshift(&mut state);
            let key = state % database.entries;
            put_value_of(key, &mut value);
            if table.get(&transaction, &key)? != Some(&value[..]) {
                return Err(io::Error::other(format!("entry {key} is not what was put")).into());
            }
            context.count();
            if context.over() {
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::clock::monotonic_ns;
    use crate::workloads::page::CounterPage;
    use std::sync::atomic::Ordering;

    fn looked_up(database: &Database) -> heed::Result<u64> {
        let dir = tempfile::tempdir().unwrap();
        let page = CounterPage::create(&dir.path().join("page"), 1).unwrap();
        let start_ns = monotonic_ns();
        let context = WorkContext { page, slot: 0, start_ns, last_ns: start_ns + 100_000_000 };
        look_up(database, &context)?;
        Ok(context.page.iterations(0).load(Ordering::Relaxed))
    }

    fn database(file: &Path, entries: u64, value_bytes: usize) -> Database {
        Database { file: file.to_owned(), entries, value_bytes }
    }

    #[test]
    fn it_answers_from_a_file_as_long_as_the_papers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("small");
        let small = database(&file, 70_000, 40);
        drop(prepare(&small).unwrap());
        let about = std::fs::metadata(&file).unwrap();
        let mib = about.len() as f64 / f64::from(1 << 20);
        assert!((3.9..4.1).contains(&mib), "{mib} MiB");
        assert!(looked_up(&small).unwrap() > 0);
        assert!(looked_up(&database(&file, 140_000, 40)).is_err(), "half of these are not there");
        assert!(looked_up(&database(&file, 70_000, 41)).is_err(), "they are shorter");
        drop(prepare(&small).unwrap());
        let again = std::fs::metadata(&file).unwrap().modified().unwrap();
        assert_eq!(again, about.modified().unwrap(), "it is made once");
    }

    #[test]
    fn a_database_of_nothing_is_refused() {
        let file = Path::new("/nowhere/db");
        assert!(prepare(&database(file, 0, 40)).is_err());
        assert!(prepare(&database(file, 1, 40)).is_err());
    }
}
