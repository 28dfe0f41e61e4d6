//! Operations: understood, decided and applied.

use super::looked_at::LookedAt;
use super::state::{Made, Running};
use crate::clock::unix_ms;
use crate::exchange_desk;
use crate::instances::why_missing;
use crate::policy_file::FundingPolicy;
use crate::resolve::Resolver;
use crate::view::currency_name;
use journal::Entry;
use ledger::operation::LimitDisk;
use ledger::{Authority, Caller, Change, Intent};
use wire::{ApiError, ErrorCode, Operation, OperationResult};

/// The most tickets that all operations of one request may concern, so that a request is short: the last one may go
/// beyond.
const BATCH_WORK_MAX: u64 = 12_500;

impl Running {
    pub(super) fn operate(
        &mut self,
        caller: &Caller,
        operations: Vec<Operation>,
        entries: &mut Vec<Entry>,
    ) -> Result<Vec<OperationResult>, ApiError> {
        let start = entries.len();
        let superuser = self.keeper.ledger.is_superuser(caller.uid);
        if !superuser {
            self.written.check(self.person(caller.uid))?;
        }
        let mut results = Vec::with_capacity(operations.len());
        let count = operations.len();
        let begun = self.keeper.ledger.work();
        let mut looked_at = LookedAt::default();
        for (index, operation) in operations.into_iter().enumerate() {
            let work = self.keeper.ledger.work() - begun;
            if work > BATCH_WORK_MAX && !superuser {
                self.undo_from(start, entries);
                let message = format!(
                    "the first {index} of {count} operations concern {work} tickets; one request may concern \
                     {BATCH_WORK_MAX}: send them in several"
                );
                let mut error = ApiError::new(ErrorCode::Limit, message);
                error.operation = Some(index);
                return Err(error);
            }
            let asked = operation.asked_resources();
            let made = self
                .must_be_there(&operation.named_resources(), &mut looked_at)
                .and_then(|()| self.operate_one(caller, operation, entries));
            match made {
                Ok(made) => {
                    let notes = self.notes(&asked, &mut looked_at);
                    results.push(OperationResult { notes, ..self.result(&made) });
                }
                Err(mut error) => {
                    self.undo_from(start, entries);
                    error.operation = Some(index);
                    return Err(error);
                }
            }
        }
        if !superuser {
            let bytes = entries[start..].iter().map(journal::Entry::bytes).sum();
            self.written.charge(self.person(caller.uid), bytes);
        }
        Ok(results)
    }

    /// The person that a uid belongs to.
    pub(super) fn person(&self, uid: u32) -> u32 {
        self.keeper.ledger.persons().of(uid)
    }

    fn undo_from(&mut self, start: usize, entries: &mut Vec<Entry>) {
        for entry in entries.drain(start..).rev().collect::<Vec<_>>() {
            self.undo(entry.changes);
        }
    }

    pub(super) fn resolver<'a>(&'a mut self, caller: &'a Caller) -> Resolver<'a> {
        Resolver {
            ledger: &self.keeper.ledger,
            caller,
            policy: self.keeper.policy.as_ref(),
            names: &mut self.names,
            cgroups: &mut self.cgroups,
            kinds: &self.keeper.kinds,
            command: None,
        }
    }

    fn operate_one(
        &mut self,
        caller: &Caller,
        operation: Operation,
        entries: &mut Vec<Entry>,
    ) -> Result<Made, ApiError> {
        let mut resolver = self.resolver(caller);
        let intent = operation.intent(&mut resolver)?;
        let command = resolver.command;
        self.may_start_machinery(caller, &intent)?;
        let authority = Authority::Caller(caller.clone());
        let made = self.change(authority, intent, entries)?;
        self.commands.extend(command);
        Ok(made)
    }

    fn may_start_machinery(&self, caller: &Caller, intent: &Intent) -> Result<(), ApiError> {
        let Some(LimitDisk { limit, .. }) = LimitDisk::of(intent) else { return Ok(()) };
        let superuser = self.keeper.ledger.is_superuser(caller.uid);
        if limit.is_none() || superuser || self.are_users_limits_wanted() {
            return Ok(());
        }
        let message = "limits of disks would start machine-wide enforcement, which the funding policy does not let users \
                       do: disk_limits = true under [users]";
        Err(ApiError::new(ErrorCode::Forbidden, message))
    }

    /// Whether users' own limits of disks count. The first limit of a disk starts the enforcer of disks, which rules all
    /// cgroups of the machine: unless it runs for the superuser already, that is the funding policy's to allow.
    pub(super) fn are_users_limits_wanted(&self) -> bool {
        let policy = self.keeper.policy.as_ref();
        let limits = self.keeper.ledger.currencies().flat_map(|it| it.record.limits.values());
        policy.is_none_or(FundingPolicy::lets_users_limit_disks)
            || self.others.has_disks()
            || limits.into_iter().any(|set| set.by_superuser)
    }

    /// Decides and applies. Returns what was made.
    pub(super) fn change(
        &mut self,
        authority: Authority,
        intent: Intent,
        entries: &mut Vec<Entry>,
    ) -> Result<Made, ledger::Refusal> {
        let ledger = &mut self.keeper.ledger;
        let authorised = ledger::decide(ledger, authority.clone(), intent.clone())?;
        let changes = ledger.apply(authorised);
        changes.iter().for_each(|change| self.cpu.follow(change));
        self.others.follow(&changes, &self.keeper.ledger);
        let mut made = Made::default();
        for change in &changes {
            match change {
                Change::Currency { id, before: None, .. } => {
                    made.currency.get_or_insert(*id);
                }
                Change::Offer { id, before: None, .. } => made.offer = Some(*id),
                Change::Exchange { id, before: None, .. } => made.exchange = Some(*id),
                _ => {}
            }
        }
        self.note_who_joined(&intent, &changes);
        entries.push(Entry { sequence: 0, at_unix_ms: unix_ms(), authority, intent, changes });
        Ok(made)
    }

    /// Refuses instances that this machine does not have, unless only the ledger is kept.
    fn must_be_there(&self, asked: &[String], looked_at: &mut LookedAt) -> Result<(), ApiError> {
        if !self.keeper.enforcement.is_on() {
            return Ok(());
        }
        let mut resources = asked.iter().filter_map(|word| self.keeper.kinds.parse(word).ok());
        let missing =
            resources.find_map(|resource| looked_at.missing.look_at(&resource, why_missing));
        missing.map_or(Ok(()), |why| Err(ApiError::new(ErrorCode::Unknown, why)))
    }

    /// Notes on operations that have no effect now, with the reason.
    fn notes(&mut self, asked: &[String], looked_at: &mut LookedAt) -> Vec<String> {
        let mut note = |word: &String| {
            let resource = self.keeper.kinds.parse(word).ok()?;
            let enforcement = &mut self.keeper.enforcement;
            let look = |resource: &_| enforcement.without_effect(resource);
            let why = looked_at.without_effect.look_at(&resource, look)?;
            Some(format!("{resource} is kept in the ledger and has no effect now: {why}"))
        };
        asked.iter().filter_map(&mut note).collect()
    }

    /// The outcome of an operation, as the caller is told.
    fn result(&self, made: &Made) -> OperationResult {
        let ledger = &self.keeper.ledger;
        let offer = made.offer.and_then(|id| ledger.offer(id));
        let name = |id| currency_name(ledger, id, &self.commands, &self.cgroups);
        OperationResult {
            created: made.currency.map(|id| id.0),
            offer: made.offer.map(|id| id.0),
            exchange: made.exchange.map(|id| id.0),
            notes: Vec::new(),
            conflicts: offer
                .map_or_else(Vec::new, |offer| exchange_desk::conflicts(ledger, offer, name)),
        }
    }

    /// As `change`, for what was observed: a refusal means that it does not concern the ledger.
    pub(super) fn observe(&mut self, intent: Intent, entries: &mut Vec<Entry>) -> bool {
        self.change(Authority::System, intent, entries)
            .inspect_err(|refusal| tracing::debug!("not taken up: {refusal}"))
            .is_ok()
    }
}
