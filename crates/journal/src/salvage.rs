//! The rows of a damaged journal that are whole, and the ledger to which they lead furthest.

use crate::error::Forecast;
use crate::mark::ReadMark;
use crate::record::{Row, Stored};
use crate::store::{self, Files, read_mark};
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeMap;

/// The whole part of a damaged journal.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// The snapshot to begin with, the older one besides if the entries between are whole.
    pub snapshots: Vec<Stored>,
    /// Entries without a gap, up to the last that is kept.
    pub entries: Vec<Row>,
    /// The last entry that is kept.
    pub keeps: Option<u64>,
    /// The highest number of a row that is whole.
    pub seen: u64,
}

/// The outcome that a recovery would have now, read through a connection where one is open.
pub(crate) fn forecast(files: &Files, connection: Option<&Connection>) -> Forecast {
    let salvage = match connection {
        Some(connection) => salvage(connection),
        None => salvage_file(files),
    };
    let (_, moved_to) = files.next_damaged();
    Forecast { moved_to, keeps: salvage.keeps, loses: lost(files, &salvage) }
}

/// The number of entries after the last kept one that are known to have been.
pub(crate) fn lost(files: &Files, salvage: &Salvage) -> u64 {
    let marked = match read_mark(files) {
        Ok(ReadMark::Mark(mark)) => mark.sequence,
        _ => 0,
    };
    marked.max(salvage.seen).saturating_sub(salvage.keeps.unwrap_or(0))
}

/// The whole part of the database, whatever it lacks.
pub(crate) fn salvage_file(files: &Files) -> Salvage {
    if !files.database.exists() {
        return Salvage::default();
    }
    store::connect(&files.database).map_or_else(|_| Salvage::default(), |c| salvage(&c))
}

/// Collect every row that is whole, then find the snapshot from which they lead furthest.
fn salvage(connection: &Connection) -> Salvage {
    let entries = whole_rows(
        connection,
        "entries",
        "SELECT sequence, boot, prior, chain, body FROM entries",
        store::entry_row,
        |row| (row.sequence, row.is_whole()),
    );
    let snapshots = whole_rows(
        connection,
        "snapshots",
        "SELECT sequence, boot, chain, seal, body FROM snapshots",
        store::snapshot_row,
        |stored| (stored.sequence, stored.is_whole()),
    );
    let seen = entries.1.max(snapshots.1);
    let (mut entries, snapshots) = (entries.0, snapshots.0);
    let best = snapshots
        .values()
        .filter_map(|stored| Some((follow(stored, &entries)?, stored)))
        .max_by_key(|(last, stored)| (*last, stored.sequence));
    let Some((last, newest)) = best else {
        return Salvage { seen, ..Salvage::default() };
    };
    // Backwards from the last entry: what joins on without a gap is kept for the reader.
    let newest = newest.clone();
    entries.retain(|sequence, _| *sequence <= last);
    let mut kept: Vec<Row> = Vec::new();
    let mut next = last;
    while let Some(row) = entries.remove(&next) {
        let joins = match kept.last() {
            Some(after) => after.prior == row.chain,
            None => next > newest.sequence || row.chain == newest.chain,
        };
        if !joins {
            break;
        }
        kept.push(row);
        next = match next.checked_sub(1) {
            Some(next) => next,
            None => break,
        };
    }
    kept.reverse();
    let first = kept.first().map_or(last + 1, |row| row.sequence);
    // The spare snapshot is worth keeping where every entry after it is kept.
    let spare = snapshots.into_values().rev().find(|stored| {
        let chain = |row: &Row| match row.sequence == stored.sequence {
            true => row.chain == stored.chain,
            false => row.prior == stored.chain,
        };
        let joint = kept
            .iter()
            .find(|row| row.sequence == stored.sequence || row.sequence == stored.sequence + 1);
        stored.sequence < newest.sequence
            && stored.sequence + 1 >= first
            && joint.is_some_and(chain)
    });
    let snapshots = spare.into_iter().chain([newest]).collect();
    Salvage { snapshots, entries: kept, keeps: Some(last), seen }
}

/// Follows the entries from a snapshot to the last that joins on; `None` if it is no ledger itself.
fn follow(stored: &Stored, entries: &BTreeMap<u64, Row>) -> Option<u64> {
    let mut ledger = stored.ledger().ok()?;
    let (mut last, mut chain) = (stored.sequence, stored.chain);
    while let Some(row) = entries.get(&(last + 1)) {
        let Ok(entry) = row.entry() else { break };
        if row.prior != chain || ledger.replay(entry.changes).is_err() {
            break;
        }
        (last, chain) = (row.sequence, row.chain);
    }
    Some(last)
}

/// Every row of a table that can be read and is whole, and the highest number of these: forwards
/// to the first trouble, backwards to the first trouble, and one by one between.
fn whole_rows<T>(
    connection: &Connection,
    table: &str,
    select: &str,
    read: impl Fn(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    judge: impl Fn(&T) -> (u64, bool),
) -> (BTreeMap<u64, T>, u64) {
    let mut whole = BTreeMap::new();
    let mut seen = 0;
    let mut ends = Vec::new();
    for order in ["ASC", "DESC"] {
        let mut walk = || -> rusqlite::Result<()> {
            let mut select = connection.prepare(&format!("{select} ORDER BY sequence {order}"))?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let Ok(number) = row.get::<_, u64>(0) else { continue };
                let item = read(row);
                if let Ok(item) = item
                    && let (sequence, true) = judge(&item)
                {
                    seen = seen.max(sequence);
                    ends.push(number);
                    whole.insert(sequence, item);
                }
            }
            Ok(())
        };
        if walk().is_ok() {
            return (whole, seen);
        }
    }
    let numbers = format!("SELECT sequence FROM {table} WHERE sequence > ?1 ORDER BY sequence");
    let mut between = || -> rusqlite::Result<()> {
        let mut one = connection.prepare(&format!("{select} WHERE sequence = ?1"))?;
        let mut numbers = connection.prepare(&numbers)?;
        // The numbers alone can often be read where the rows cannot.
        let mut known: Vec<u64> = Vec::new();
        let mut rows = numbers.query([-1])?;
        while let Ok(Some(row)) = rows.next() {
            known.extend(row.get::<_, u64>(0));
        }
        if let (Some(low), Some(high)) = (ends.iter().min(), ends.iter().max()) {
            known.extend((*low..=*high).take(1 << 20));
        }
        known.sort_unstable();
        known.dedup();
        for number in known {
            if whole.contains_key(&number) {
                continue;
            }
            if let Ok(Some(item)) = one.query_row([number], &read).optional()
                && let (sequence, true) = judge(&item)
            {
                seen = seen.max(sequence);
                whole.insert(sequence, item);
            }
        }
        Ok(())
    };
    // What cannot be read is what is lost.
    let _ = between();
    (whole, seen)
}
