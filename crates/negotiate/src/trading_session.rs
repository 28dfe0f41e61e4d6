//! All clients of one `allot negotiate`, and its conversation with allotd.
//!
//! 1. A request that allotd does not answer is repeated at the next look. The ledger keeps what stands, so
//!    nothing is lost; an operation that was done without an answer shows at that look.
//! 2. All operations of one look are one request. If a part of it is refused, each is requested on its own.
//! 3. It trades for the caller's clients only. allotd checks that, too, and has the last word.

use crate::lock::{self, Lock};
use crate::own_tickets::{self, Funds};
use crate::reporter::{News, Reporter};
use crate::settings::{Policy, Settings};
use crate::trader::{Now, Trader, Wanted, What};
use crate::wakes::Wakes;
use crate::watch::Machine;
use command_line::CliError;
use command_line::users::{group_name, own_uid};
use observe::ticks_since_boot;
use rustix::process::{getgid, getgroups};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use wire::{
    Client, ClientError, CurrencyView, ErrorCode, OPERATIONS_MAX, Operation, TicketView, TraderView,
};

/// Timeout of a request to allotd.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Interval between searches for clients that a policy names.
const POLICY_PAUSE: Duration = Duration::from_secs(5);
/// A look may be late by this part of a window, to be one with others.
const LATER_PART: u64 = 20;

struct Entry {
    trader: Trader,
    /// Its CPU tickets, whose issuers fund the negotiator, too.
    cpu_tickets: Vec<TicketView>,
    _lock: Lock,
}

/// All clients that it trades for.
pub struct TradingSession {
    client: Client,
    socket: PathBuf,
    reporter: Reporter,
    lines: Arc<AtomicU64>,
    machine: Machine,
    cpus: u32,
    began: Instant,
    traders: BTreeMap<u64, Entry>,
    policy: Option<Policy>,
    /// The ledger's number at the last search for the policy's clients, and its time.
    found: Option<(u64, Instant)>,
    /// Clients that the policy names and that cannot be traded for.
    passed_over: BTreeSet<u64>,
    funds: Funds,
    is_silent: bool,
    steps: u64,
}

impl TradingSession {
    /// Begins a conversation.
    ///
    /// # Errors
    /// When allotd does not answer.
    pub fn begin(
        socket: PathBuf,
        reporter: Reporter,
        policy: Option<Policy>,
        lines: Arc<AtomicU64>,
    ) -> Result<TradingSession, CliError> {
        let client = Client::answered_within(&socket, ANSWER_WITHIN);
        let status = client.status()?;
        let all = std::thread::available_parallelism().map_or(1, |count| count.get());
        // An allotd that enforces nothing names no CPUs.
        let cpus = if status.cpu.cpus.is_empty() { all } else { status.cpu.cpus.len() };
        Ok(TradingSession {
            client,
            socket,
            reporter,
            lines,
            machine: Machine::look(),
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            began: Instant::now(),
            traders: BTreeMap::new(),
            policy,
            found: None,
            passed_over: BTreeSet::new(),
            funds: Funds::new(),
            is_silent: false,
            steps: 0,
        })
    }

    /// Begins to trade for a client.
    ///
    /// # Errors
    /// When there is no such client, or it is not the caller's to trade for.
    pub fn add(&mut self, reference: &str, settings: &Settings) -> Result<(), CliError> {
        let found = self.client.traders(&[reference])?.traders.into_iter().next();
        let unknown = || CliError::Unknown(format!("there is no client `{reference}`"));
        let view = found.ok_or_else(unknown)?;
        self.must_be_ours(&view)?;
        if self.traders.contains_key(&view.id) {
            return Ok(());
        }
        self.take(&view, settings.clone()).map_err(|why| {
            CliError::Failed(format!("cannot negotiate for `{reference}`: {why}"))
        })?;
        self.fund();
        Ok(())
    }

    /// Like [`add`](TradingSession::add), for a process that is about to become a client.
    ///
    /// # Errors
    /// As for [`add`](TradingSession::add).
    pub fn add_when_there(
        &mut self,
        reference: &str,
        settings: &Settings,
        wakes: &mut Wakes,
    ) -> Result<(), CliError> {
        while !wakes.is_over() {
            match self.add(reference, settings) {
                Err(CliError::Client(ClientError::Refused(trouble)))
                    if trouble.code == ErrorCode::Unknown =>
                {
                    wakes.sleep(Duration::from_millis(20));
                }
                answer => return answer,
            }
        }
        Ok(())
    }

    fn take(&mut self, view: &TraderView, settings: Settings) -> Result<(), String> {
        let lock = lock::take(&self.socket, view.id)?;
        let trader = Trader::new(view, settings, Arc::clone(&self.lines))?;
        let cpu_tickets = view.cpu_tickets.clone();
        self.traders.insert(view.id, Entry { trader, cpu_tickets, _lock: lock });
        Ok(())
    }

    fn must_be_ours(&self, view: &TraderView) -> Result<(), CliError> {
        let uid = own_uid();
        if uid == 0 || view.owner == uid {
            return Ok(());
        }
        let ledger = self.client.ledger()?;
        let currency = ledger.currencies.iter().find(|currency| currency.id == view.id);
        if currency.is_some_and(|currency| may_change(currency, uid, &own_groups())) {
            return Ok(());
        }
        let owner = command_line::users::user_name(view.owner);
        Err(CliError::Failed(format!(
            "#{} belongs to {owner}, and you have no right `c` on it: you cannot trade for it",
            view.id
        )))
    }

    /// True if there are clients, or may come to be.
    pub fn has_work(&self) -> bool {
        self.policy.is_some() || !self.traders.is_empty()
    }

    /// Time until the next look.
    pub fn until_next(&self) -> Duration {
        let now_ns = self.now().ns;
        // A little after the first is due, so that one look covers those that are due soon, from then on
        // always.
        let later = |trader: &Trader| trader.next_ns() + trader.window_ns() / LATER_PART;
        let next_ns = self.traders.values().map(|entry| later(&entry.trader)).min();
        let policy = self.policy.as_ref().map(|_| POLICY_PAUSE);
        let trader = next_ns.map(|next_ns| Duration::from_nanos(next_ns.saturating_sub(now_ns)));
        trader.into_iter().chain(policy).min().unwrap_or(POLICY_PAUSE)
    }

    /// Looks at all clients that are due.
    pub fn round(&mut self) {
        let before_ns = own_cpu_ns();
        self.look_for_more();
        let now_ns = self.now().ns;
        let due = |(id, entry): (&u64, &Entry)| (entry.trader.next_ns() <= now_ns).then_some(*id);
        let due: Vec<u64> = self.traders.iter().filter_map(due).collect();
        for some in due.chunks(OPERATIONS_MAX) {
            self.look(some);
        }
        let spent_ns = own_cpu_ns().saturating_sub(before_ns);
        let there: Vec<u64> = due.into_iter().filter(|id| self.traders.contains_key(id)).collect();
        for id in &there {
            let entry = self.traders.get_mut(id).expect("it is there");
            entry.trader.cost_ns += spent_ns / there.len() as u64;
        }
    }

    fn look(&mut self, due: &[u64]) {
        let names: Vec<String> = due.iter().map(|id| format!("#{id}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = self.client.traders(&names);
        let Some(found) = self.heard(found) else {
            let now_ns = self.now().ns;
            for id in due {
                let entry = self.traders.get_mut(id).expect("it is due");
                entry.trader.wait(now_ns);
            }
            return;
        };
        let mut views: BTreeMap<u64, TraderView> =
            found.traders.into_iter().map(|view| (view.id, view)).collect();
        let mut wanted = Vec::new();
        let mut gone = false;
        let now = self.now();
        for id in due {
            let Some(view) = views.remove(id) else {
                gone = true;
                let entry = self.traders.remove(id).expect("it is due");
                let news = News::Ended { why: "it is gone".to_owned() };
                self.reporter.tell(Some((*id, &entry.trader.name)), &news);
                self.steps += entry.trader.steps();
                continue;
            };
            let entry = self.traders.get_mut(id).expect("it is due");
            let (own, news) = entry.trader.step(&view, &self.machine, self.cpus, now);
            entry.cpu_tickets = view.cpu_tickets;
            news.iter().for_each(|it| self.reporter.tell(Some((*id, &entry.trader.name)), it));
            wanted.extend(own.into_iter().map(|wanted| (*id, wanted)));
        }
        self.perform(wanted);
        if gone {
            self.fund();
        }
    }

    /// Returns the answer, if there was one (rule 1).
    fn heard<T>(&mut self, answer: Result<T, ClientError>) -> Option<T> {
        match answer {
            Ok(found) => {
                if std::mem::take(&mut self.is_silent) {
                    let why = "allotd answers again".to_owned();
                    self.reporter.tell(None, &News::Limited { why });
                }
                Some(found)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_silent, true) {
                    let why = format!("it is tried again: {error}");
                    self.reporter.tell(None, &News::Limited { why });
                }
                None
            }
        }
    }

    /// Performs operations (rule 2).
    fn perform(&mut self, wanted: Vec<(u64, Wanted)>) {
        let mut wanted = wanted.into_iter().peekable();
        while wanted.peek().is_some() {
            let some: Vec<(u64, Wanted)> = wanted.by_ref().take(OPERATIONS_MAX).collect();
            let operations: Vec<Operation> =
                some.iter().map(|(_, wanted)| wanted.operation.clone()).collect();
            match self.client.operate_all(operations) {
                Ok(done) => {
                    for ((id, wanted), result) in some.into_iter().zip(done.results) {
                        self.done(id, wanted.what, Ok(result.offer));
                    }
                }
                Err(ClientError::Refused(_)) if some.len() > 1 => {
                    for (id, Wanted { operation, what }) in some {
                        let answer = self.client.operate(operation);
                        let made = answer.map(|done| done.results.first().and_then(|it| it.offer));
                        self.done(id, what, made.map_err(|error| error.to_string()));
                    }
                }
                Err(error) => {
                    for (id, wanted) in some {
                        self.done(id, wanted.what, Err(error.to_string()));
                    }
                }
            }
        }
    }

    fn done(&mut self, id: u64, what: What, answer: Result<Option<u64>, String>) {
        let Some(entry) = self.traders.get_mut(&id) else { return };
        let answer = answer.as_ref().map(|made| *made).map_err(String::as_str);
        if let Some(news) = entry.trader.done(what, answer) {
            self.reporter.tell(Some((id, &entry.trader.name)), &news);
        }
    }

    /// Looks for new clients that the policy names.
    fn look_for_more(&mut self) {
        let Some(policy) = self.policy.clone() else { return };
        if self.found.is_some_and(|(_, at)| at.elapsed() < POLICY_PAUSE) {
            return;
        }
        let before = self.found.map(|(sequence, _)| sequence);
        let status = self.client.status();
        let Some(status) = self.heard(status) else { return };
        self.found = Some((status.sequence, Instant::now()));
        if before == Some(status.sequence) {
            return;
        }
        let ledger = self.client.ledger();
        let Some(ledger) = self.heard(ledger) else { return };
        let (uid, gids) = (own_uid(), own_groups());
        let names: BTreeMap<u64, &str> =
            ledger.currencies.iter().map(|it| (it.id, it.name.as_str())).collect();
        let mut funders: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for ticket in &ledger.tickets {
            funders.entry(ticket.holder).or_default().extend(names.get(&ticket.issuer));
        }
        self.passed_over.retain(|id| names.contains_key(id));
        let mut more = Vec::new();
        for currency in &ledger.currencies {
            let own = currency.process.as_ref().is_some_and(|it| it.pid == std::process::id());
            let known =
                self.traders.contains_key(&currency.id) || self.passed_over.contains(&currency.id);
            let ours = uid == 0 || currency.owner == uid || may_change(currency, uid, &gids);
            let funders = funders.get(&currency.id).map_or(&[][..], Vec::as_slice);
            if !own && !known && ours {
                let group = group_name(currency.group);
                let settings = policy.settings(currency, &group, funders);
                more.extend(settings.map(|settings| (currency.id, settings.clone())));
            }
        }
        for some in more.chunks(OPERATIONS_MAX) {
            self.take_some(some);
        }
        self.fund();
    }

    fn take_some(&mut self, some: &[(u64, Settings)]) {
        let names: Vec<String> = some.iter().map(|(id, _)| format!("#{id}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = self.client.traders(&names);
        let Some(found) = self.heard(found) else {
            self.found = None;
            return;
        };
        let settings: BTreeMap<u64, &Settings> = some.iter().map(|(id, it)| (*id, it)).collect();
        for view in found.traders {
            if let Err(why) = self.take(&view, settings[&view.id].clone()) {
                self.passed_over.insert(view.id);
                self.reporter.tell(Some((view.id, &view.name)), &News::Limited { why });
            }
        }
    }

    /// Adjusts the negotiator's own tickets to its clients.
    fn fund(&mut self) {
        let tickets = self.traders.values().flat_map(|entry| &entry.cpu_tickets);
        let funds = own_tickets::funds(tickets);
        if funds == self.funds {
            return;
        }
        if let Err(error) = own_tickets::take(&self.client, &funds) {
            let why = format!(
                "it has no tickets of its own, a hundredth of its clients': {error}; its CPU time is \
                 bounded nevertheless"
            );
            self.reporter.tell(None, &News::Limited { why });
        }
        self.funds = funds;
    }

    /// Leaves the market (see [`Trader::leave`]).
    pub fn leave(&mut self, keep: bool) {
        let leave = |(id, entry): (&u64, &mut Entry)| {
            let wanted = entry.trader.leave(keep);
            wanted.into_iter().map(|wanted| (*id, wanted)).collect::<Vec<_>>()
        };
        let wanted: Vec<(u64, Wanted)> = self.traders.iter_mut().flat_map(leave).collect();
        self.perform(wanted);
    }

    /// Reports the negotiator's own cost.
    pub fn tell_cost(&self) {
        let steps =
            self.steps + self.traders.values().map(|entry| entry.trader.steps()).sum::<u64>();
        let cpu_ns = own_cpu_ns();
        let looks_ns: u64 = self.traders.values().map(|entry| entry.trader.cost_ns).sum();
        let step_ns = looks_ns.checked_div(steps).unwrap_or(0);
        self.reporter.tell(None, &News::Cost { steps, cpu_ns, step_ns });
    }

    fn now(&self) -> Now {
        let ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        Now { ns, unix_s: unix.map_or(0, |unix| unix.as_secs()), ticks: ticks_since_boot() }
    }
}

/// True if a user has the right `c` on a currency of another's.
fn may_change(currency: &CurrencyView, uid: u32, gids: &[u32]) -> bool {
    let has = |rights: &str| rights.contains('c');
    let granted = |to: &str| match to.split_once(':') {
        Some(("uid", number)) => number.parse() == Ok(uid),
        Some(("gid", number)) => number.parse().is_ok_and(|gid| gids.contains(&gid)),
        Some(("pid", number)) => number.parse() == Ok(std::process::id()),
        _ => false,
    };
    let mode = |from: usize| currency.mode.get(from..from + 3).is_some_and(has);
    let by_mode = if gids.contains(&currency.group) { mode(3) } else { mode(6) };
    by_mode || currency.grants.iter().any(|grant| granted(&grant.to) && has(&grant.rights))
}

fn own_groups() -> Vec<u32> {
    let mut gids: Vec<u32> =
        getgroups().unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
    gids.push(getgid().as_raw());
    gids
}

/// The CPU time of this process, all its threads, in ns.
fn own_cpu_ns() -> u64 {
    let spent = Duration::try_from(clock_gettime(ClockId::ProcessCPUTime));
    spent.map_or(0, |spent| u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Class, CurrencyKind, Grant};

    #[test]
    fn rights_are_by_mode_and_by_grant() {
        let with = |mode: &str, grants: &[(&str, &str)]| CurrencyView {
            id: 5,
            name: "a".to_owned(),
            kind: CurrencyKind::Pure,
            owner: 1000,
            owner_name: "jo".to_owned(),
            group: 50,
            mode: mode.to_owned(),
            grants: grants
                .iter()
                .map(|(to, rights)| Grant { to: (*to).to_owned(), rights: (*rights).to_owned() })
                .collect(),
            process: None,
            founder: None,
            joined: None,
            members: Vec::new(),
            class: Class::Host,
            limits: Vec::new(),
            placed: false,
            frozen: false,
            resources: Vec::new(),
        };
        assert!(may_change(&with("fci-c----", &[]), 7, &[50]));
        assert!(!may_change(&with("fci-c----", &[]), 7, &[51]));
        assert!(may_change(&with("fci----c-", &[]), 7, &[51]));
        assert!(!may_change(&with("fcif-i--i", &[]), 7, &[50]));
        assert!(may_change(&with("fci------", &[("uid:7", "-c-")]), 7, &[]));
        assert!(may_change(&with("fci------", &[("gid:9", "fc-")]), 7, &[9]));
        assert!(!may_change(&with("fci------", &[("uid:7", "f-i"), ("uid:8", "-c-")]), 7, &[]));
    }

    #[test]
    fn clocks_go_on() {
        let (ns, ticks) = (own_cpu_ns(), ticks_since_boot());
        assert!(ns > 0 && ticks > 0);
        assert!(own_cpu_ns() >= ns && ticks_since_boot() >= ticks);
    }
}
