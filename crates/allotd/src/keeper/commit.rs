//! The end of a round: durable and acknowledged, or undone.

use super::processes::released_by;
use super::state::{Round, Running, Waiting};
use crate::api_error::not_durable;
use crate::event::event;
use crate::others::Others;
use front::thread_time;
use journal::{Entry, JournalError};
use ledger::{Authority, Change, Resource};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use valuation::Graph;
use wire::OperationsDone;

/// The most that was observed and is not written; then it is undone, and all processes are looked at.
const OWED_MAX: usize = 5_000;

/// From a failure to write what is owed to the next try.
const RETRY: Duration = Duration::from_millis(250);

impl Running {
    /// Make a round durable and acknowledge it, or undo it. Answers whether it is durable.
    pub(super) fn finish(&mut self, round: Round) -> bool {
        let Round { mut entries, waiting } = round;
        let began = thread_time();
        let written = self.write_down(&mut entries);
        self.write_time = thread_time() - began;
        match written {
            Ok(()) => {
                self.note_unseen(&entries);
                let last = self.keeper.journal.sequence();
                self.keeper.acknowledged.store(last, Ordering::Release);
                // Before the answers: who has one finds it in the audit.
                self.keeper.audit.note(&entries);
                let numbers: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
                for Waiting { reply, answer, upto } in waiting {
                    let last = upto.checked_sub(1).and_then(|index| numbers.get(index));
                    let sequence = last.copied().unwrap_or_else(|| self.keeper.journal.sequence());
                    let done = answer.map(|results| OperationsDone { sequence, results });
                    let _ = reply.send(done);
                }
                if entries.is_empty() {
                    return true;
                }
                self.enforce();
                for entry in &entries {
                    self.released.extend(released_by(entry));
                    self.desk.note(&entry.changes);
                    let _ = self.keeper.events.send(event(entry));
                }
                if let Err(error) = self.keeper.journal.snapshot_if_due(&self.keeper.ledger) {
                    tracing::warn!("no snapshot was taken: {error}");
                    self.read_again(&error);
                }
                true
            }
            Err(error) => {
                self.keep_what_is_so(entries, &error);
                let undone = not_durable(&error);
                for Waiting { reply, answer, .. } in waiting {
                    let _ = reply.send(answer.and(Err(undone.clone())));
                }
                false
            }
        }
    }

    /// Undoes what was asked for. What was observed is so whether it can be written or not: it stays, and is enforced.
    fn keep_what_is_so(&mut self, entries: Vec<Entry>, error: &JournalError) {
        self.unseen = None;
        // Once, not for each process that comes while the disk is full.
        match self.failed {
            None => tracing::error!("{} operations undone: {error}", entries.len()),
            Some(_) => tracing::debug!("{} operations undone: {error}", entries.len()),
        }
        if self.failed.is_none_or(|failed| failed.elapsed() >= RETRY) {
            self.failed = Some(Instant::now());
        }
        let mut observed = Vec::new();
        for entry in entries.into_iter().rev() {
            self.desk.note(&entry.changes);
            self.undo(entry.changes);
            if entry.authority == Authority::System {
                observed.push(entry.intent);
            }
        }
        self.read_again(error);
        let mut owed = std::mem::take(&mut self.owed);
        for intent in observed.into_iter().rev() {
            self.observe(intent, &mut owed);
        }
        self.owed = owed;
        if self.owed.len() > OWED_MAX {
            // Most of them are gone again: look at those that are still there.
            for entry in std::mem::take(&mut self.owed).into_iter().rev() {
                self.undo(entry.changes);
            }
            self.must_sweep = true;
        }
        self.enforce();
    }

    /// Writes what was observed while the journal could not be written.
    pub(super) fn write_owed(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        match self.write_all(&mut []) {
            Ok(()) => {}
            Err(error) => {
                self.failed = Some(Instant::now());
                self.read_again(&error);
            }
        }
    }

    /// Where it is not known what the journal holds, find out: that is what counts.
    fn read_again(&mut self, error: &JournalError) {
        if !matches!(error, JournalError::Unknown { .. } | JournalError::Stopped { .. }) {
            return;
        }
        match self.keeper.journal.reopen() {
            Ok(recovered) => {
                self.unseen = None;
                self.reserve_room();
                let persons = self.keeper.ledger.persons().clone();
                self.keeper.ledger = recovered.ledger;
                self.keeper.ledger.set_persons(persons);
                self.cpu = Graph::of(&self.keeper.ledger, Resource::CPU);
                self.others = Others::of(&self.keeper.ledger);
                // Observations that it does not hold are applied again.
                let mut owed = Vec::new();
                for entry in std::mem::take(&mut self.owed) {
                    self.observe(entry.intent, &mut owed);
                }
                self.owed = owed;
                self.must_sweep = true;
                self.enforce();
            }
            Err(error) => tracing::error!("the journal cannot be read again: {error}"),
        }
    }

    /// Reserves the room that a full disk is to leave, or says that there is none.
    pub(super) fn reserve_room(&self) {
        if let Err(error) = self.keeper.journal.reserve() {
            tracing::warn!(
                "no room is reserved for the journal, so a full disk stops it at once: {error}"
            );
        }
    }

    fn write_down(&mut self, entries: &mut [Entry]) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        // Owed entries are tried again now and then, not with each round.
        if self.failed.is_some_and(|failed| failed.elapsed() < RETRY) && !self.owed.is_empty() {
            let cause = "there was no room a moment ago".to_owned();
            return Err(JournalError::Full { file: self.keeper.journal.file(), cause });
        }
        self.write_all(entries)
    }

    /// Writes what was observed before and these, as one.
    fn write_all(&mut self, entries: &mut [Entry]) -> Result<(), JournalError> {
        let mut batch = self.keeper.journal.begin()?;
        for entry in self.owed.iter_mut().chain(entries) {
            entry.sequence =
                batch.append(entry.at_unix_ms, &entry.authority, &entry.intent, &entry.changes)?;
        }
        match batch.commit() {
            // A sync failed: what the journal holds when it is read again is what counts.
            Err(JournalError::Unknown { last, .. })
                if self.keeper.journal.reopen().is_ok_and(|found| found.sequence >= last) => {}
            done => drop(done?),
        }
        // While the disk is full, only what happens to processes can be written: that changes nothing for who asks.
        if !self.keeper.journal.lacks_room() && self.failed.take().is_some() {
            tracing::info!("the journal can be written again");
            self.reserve_room();
        }
        for entry in std::mem::take(&mut self.owed) {
            self.desk.note(&entry.changes);
            let _ = self.keeper.events.send(event(&entry));
        }
        Ok(())
    }

    pub(super) fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.iter().rev() {
            self.cpu.follow(&change.clone().inverse());
        }
        self.keeper.ledger.undo(changes.clone());
        self.others.follow_back(&changes, &self.keeper.ledger);
    }
}
