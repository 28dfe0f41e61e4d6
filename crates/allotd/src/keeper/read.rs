//! Answers to those who only look.

use super::request::{EVENTS_PAGE, Request};
use super::state::{Awaiting, Running};
use crate::api_error::not_durable;
use crate::enforcer_view::{cpu_view, others_view, sample_view};
use crate::event::event;
use crate::members::member_name;
use enforcement::{Enforcement, Question};
use ledger::{Caller, CurrencyId};
use std::time::{Duration, Instant};
use wire::{ApiError, ErrorBody, ErrorCode, Event, Sample, Status};

/// How long a look at the ledger waits for the enforcing process to say who competes.
const PATIENCE: Duration = Duration::from_millis(20);

/// The same while that process has plans to follow: nobody's look waits for another's thousand new processes.
const PATIENCE_WHILE_BEHIND: Duration = Duration::from_millis(2);

impl Running {
    /// Answers a request that changes nothing in the ledger, or as soon as the enforcing process has answered.
    pub(super) fn read(&mut self, request: Request) {
        let question = match request {
            Request::Enforced => return self.hear(),
            Request::Status(_) | Request::Renew { .. } | Request::Policy(_) => Question::Look,
            Request::Sample(_) => Question::Measure,
            request => return self.answer(request),
        };
        let enforcement = &mut self.keeper.enforcement;
        let number = enforcement.want(question);
        let patience = if enforcement.is_behind() { PATIENCE_WHILE_BEHIND } else { PATIENCE };
        let is_patient = !matches!(request, Request::Renew { .. });
        let until = (!is_patient).then(|| Instant::now() + patience);
        self.awaiting.push(Awaiting { question, number, request, until });
        self.answer_awaiting();
    }

    /// Takes what the enforcing process has answered, makes a plan that is due, and answers those who wait for that.
    fn hear(&mut self) {
        if self.keeper.enforcement.hear() {
            self.enforce();
        }
        self.tell_refusals();
        self.follow_looked_after();
        self.answer_awaiting();
    }

    fn answer_awaiting(&mut self) {
        self.answer_those(|it, enforcement| enforcement.is_answered(it.question, it.number));
    }

    /// How long until somebody's patience ends, or a plan is due.
    pub(super) fn patience(&self) -> Duration {
        let first = self.awaiting.iter().filter_map(|it| it.until).min();
        let patience = first.map(|until| until.saturating_duration_since(Instant::now()));
        let due = self.keeper.enforcement.plan_due_in();
        patience.into_iter().chain(due).min().unwrap_or(Duration::MAX)
    }

    /// Makes the plan that is due, and answers those who have waited long enough, with what was seen last.
    pub(super) fn do_what_is_due(&mut self) {
        if self.keeper.enforcement.plan_due_in() == Some(Duration::ZERO) {
            self.hear();
        }
        self.answer_those(|it, _| it.until.is_some_and(|until| until <= Instant::now()));
    }

    fn answer_those(&mut self, which: impl Fn(&Awaiting, &Enforcement) -> bool) {
        let enforcement = &self.keeper.enforcement;
        let answered: Vec<Awaiting> =
            self.awaiting.extract_if(.., |it| which(it, enforcement)).collect();
        answered.into_iter().for_each(|it| self.answer(it.request));
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Status(reply) => drop(reply.send(self.status())),
            Request::Renew { is_new, reply } => drop(reply.send(self.renewal(is_new))),
            Request::Sample(reply) => drop(reply.send(self.sample())),
            Request::Events(after, reply) => drop(reply.send(self.events_after(after))),
            Request::Policy(reply) => drop(reply.send(self.policy())),
            Request::SetPolicy { caller, policy, reply } => {
                drop(reply.send(self.set_policy(&caller, policy)));
            }
            Request::Trace(caller, reply) => drop(reply.send(self.trace(&caller))),
            Request::Operate { .. } | Request::Life | Request::Enforced | Request::Stop => {
                unreachable!("not a read")
            }
        }
    }

    fn status(&mut self) -> Status {
        let ledger = &self.keeper.ledger;
        let mut status = self.keeper.status.clone();
        status.sequence = self.keeper.journal.sequence();
        status.currencies = ledger.currency_count() as u64;
        status.tickets = ledger.tickets().count() as u64;
        status.clients = ledger.clients().count() as u64;
        let seen = self.keeper.enforcement.seen();
        status.cpu = cpu_view(&seen.cpu);
        status.others = others_view(&seen.others);
        status
    }

    fn sample(&mut self) -> Sample {
        let mut sample = sample_view(self.keeper.enforcement.measured());
        for client in &mut sample.clients {
            let currency = self.keeper.ledger.currency(CurrencyId(client.id));
            if let Some(founder) = currency.and_then(|currency| currency.founder()) {
                client.command = member_name(&founder, &self.commands, &self.cgroups);
            }
        }
        sample
    }

    fn events_after(&self, sequence: u64) -> Result<Vec<Event>, ErrorBody> {
        let kept = self.keeper.journal.entries(sequence, EVENTS_PAGE);
        kept.map(|entries| entries.iter().map(event).collect())
            .map_err(|error| ErrorBody { error: not_durable(&error) })
    }

    fn trace(&mut self, caller: &Caller) -> Result<enforcer::Trace, ApiError> {
        self.must_rule(caller, "trace every choice")?;
        let traced = self.keeper.enforcement.trace();
        traced.map_err(|why| ApiError::new(ErrorCode::Conflict, why))
    }
}
