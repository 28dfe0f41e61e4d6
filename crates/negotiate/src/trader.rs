//! One client and its negotiator: turns looks into observations, and actions into operations.
//!
//! 1. allotd's answer decides which offers and exchanges stand ([`Trader::done`]).
//! 2. The client is due its part of the CPUs: the greater of its present value and its guaranteed share, so
//!    that a sleeping client is due something, too.
//! 3. A lease is renewed when less than half of it is left, or so little that the next look may be too late.

use crate::accounting::Account;
use crate::progress::{Progress, Whose};
use crate::reporter::News;
use crate::settings::Settings;
use crate::standing::{Part, Standing, good};
use crate::watch::{Machine, Watch};
use market::Negotiator;
use market::negotiator::{Action, Event, Good, Observation, Seen, Terms, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use wire::{CurrencyRef, Lease, MemberView, OfferPoint, Operation, TraderView};

/// Time in which allotd notices that a lease is over, and whole seconds differ.
const LOOKS_OF_ALLOTD: Duration = Duration::from_secs(2);

/// The time by three clocks.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Monotonic time, in ns.
    pub ns: u64,
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Clock ticks since boot, the unit of processes' start times.
    pub ticks: u64,
}

/// An operation, with its purpose.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub operation: Operation,
    pub what: What,
}

/// The purpose of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Makes the offer with this tag.
    Offer(u64, Terms),
    /// Withdraws an offer.
    Withdraw,
    /// Ends an exchange.
    End(u64),
    /// Renews an exchange.
    Renew(u64),
}

/// A negotiator for one client.
pub struct Trader {
    /// The client's id.
    pub id: u64,
    /// The client's name.
    pub name: String,
    settings: Settings,
    negotiator: Negotiator,
    watch: Watch,
    progress: Option<Progress>,
    standing: Standing,
    /// Events that the negotiator has not yet been told.
    pending: Vec<Event>,
    looked_ns: Option<u64>,
    next_ns: u64,
    due_ns: f64,
    /// Its part of this process's CPU time, in ns.
    pub cost_ns: u64,
    steps: u64,
    /// Limits that have been reported, so that each is reported once.
    told: BTreeSet<String>,
}

impl Trader {
    /// A trader for a client that exists.
    ///
    /// # Errors
    /// When the client has no members to look at, or its source of progress cannot be used.
    pub fn new(
        view: &TraderView,
        settings: Settings,
        lines: Arc<AtomicU64>,
    ) -> Result<Trader, String> {
        let everybodys =
            |member: &MemberView| matches!(member, MemberView::Kernel | MemberView::Rest);
        if view.members.iter().any(everybodys) {
            return Err("nobody negotiates for what is everybody's".to_owned());
        }
        let pid = view.members.iter().find_map(|member| match member {
            MemberView::Process(process) | MemberView::Thread { process, .. } => Some(process.pid),
            _ => None,
        });
        let user = command_line::users::user_name(view.owner);
        let whose = Whose { pid, id: view.id, name: view.name.clone(), user };
        let source = settings.progress.as_ref().map(|source| source.of(&whose)).transpose()?;
        Ok(Trader {
            id: view.id,
            name: view.name.clone(),
            negotiator: Negotiator::new(settings.options),
            settings,
            watch: Watch::default(),
            progress: source.map(|source| Progress::new(source, lines)),
            standing: Standing::default(),
            pending: Vec::new(),
            looked_ns: None,
            next_ns: 0,
            due_ns: 0.0,
            cost_ns: 0,
            steps: 0,
            told: BTreeSet::new(),
        })
    }

    /// Time of the next look.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// The least length of a window.
    pub fn window_ns(&self) -> u64 {
        self.settings.options.window_ns
    }

    /// Postpones the next look by a window, because allotd did not answer.
    pub fn wait(&mut self, now_ns: u64) {
        self.next_ns = now_ns + self.settings.options.window_ns;
    }

    /// The number of looks so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Looks at its client. Returns operations to perform, and news to report.
    pub fn step(
        &mut self,
        view: &TraderView,
        machine: &Machine,
        cpus: u32,
        now: Now,
    ) -> (Vec<Wanted>, Vec<News>) {
        let mut news = Vec::new();
        self.steps += 1;
        self.name.clone_from(&view.name);
        if view.members_left_out > 0 {
            let why = format!("{} of its members are not looked at", view.members_left_out);
            self.once("members", why, &mut news);
        }
        let account = self.watch.look(machine, &view.members, now.ticks);
        let passed_ns = self.looked_ns.map_or(0, |before| now.ns - before);
        self.looked_ns = Some(now.ns);
        let part = view.cpu_value.max(view.cpu_guaranteed);
        self.due_ns += part * f64::from(cpus) * passed_ns as f64;
        let mut wanted = Vec::new();
        let look = self.standing.look(view);
        for Part { exchange, gives, gets } in look.left {
            self.negotiator.adopt(exchange, gives, gets);
        }
        let withdraw =
            |offer| Wanted { operation: Operation::CancelOffer { offer }, what: What::Withdraw };
        wanted.extend(look.stray.into_iter().map(withdraw));
        for event in &look.events {
            match *event {
                Event::Filled { exchange, gave, got, .. } => {
                    news.push(News::Exchanged { exchange, gave, got });
                }
                Event::Ended { exchange } => news.push(News::Lost { exchange }),
                Event::Gone { .. } => {}
            }
        }
        if self.steps == 1 {
            let exchanges = self.negotiator.exchanges().collect();
            news.insert(0, News::Began { exchanges });
        }
        let progress = match self.progress.as_ref().map(Progress::read).transpose() {
            Ok(progress) => {
                self.told.remove("progress");
                progress
            }
            // A window without progress, or by another measure, proves nothing.
            Err(error) => {
                self.once("progress", error.to_string(), &mut news);
                self.pending.extend(look.events);
                self.next_ns = now.ns + self.settings.options.window_ns;
                self.act(Vec::new(), view, now, &mut wanted);
                return (wanted, news);
            }
        };
        let observation = Observation {
            now_ns: now.ns,
            progress,
            run_ns: account.run_ns,
            faults: account.faults,
            due_ns: self.due_ns as u64,
            cost_ns: self.cost_ns,
            seen: self.seen(view, &account, machine, &mut news),
            events: self.pending.drain(..).chain(look.events).collect(),
        };
        let actions = self.negotiator.step(&observation);
        self.next_ns = self.negotiator.next_ns().max(now.ns + 1);
        news.extend(self.negotiator.verdicts().iter().map(verdict));
        self.act(actions, view, now, &mut wanted);
        (wanted, news)
    }

    /// The goods that the client holds, with what is free and how long it waits for each.
    fn seen(
        &mut self,
        view: &TraderView,
        account: &Account,
        machine: &Machine,
        news: &mut Vec<News>,
    ) -> Vec<Seen> {
        let is_disk = |resource: &str| resource.starts_with("disk:");
        let disks: BTreeSet<&str> = view
            .holdings
            .iter()
            .map(|it| it.good.resource.as_str())
            .filter(|it| is_disk(it))
            .collect();
        let mut seen = Vec::new();
        for holding in &view.holdings {
            let resource = holding.good.resource.as_str();
            let wanted = |goods: &Vec<String>| goods.iter().any(|good| good == resource);
            if !self.settings.goods.as_ref().is_none_or(wanted) {
                continue;
            }
            let (kind, waited_ns) = match resource {
                "cpu" => ("cpu", account.cpu_ns),
                "memory" => ("memory", account.memory_ns),
                disk if is_disk(disk) => ("disk", account.disk_ns),
                _ => {
                    let why = format!("{resource} is not traded: nobody counts waits for it");
                    self.once(resource, why, news);
                    continue;
                }
            };
            if kind == "disk" && disks.len() > 1 {
                let why = "disks are not traded: it has tickets for several, and waits are not told apart";
                self.once("disks", why.to_owned(), news);
                continue;
            }
            let Some(waited_ns) = waited_ns else {
                if !view.members.is_empty() {
                    let why = format!("{resource} is not traded: {}", machine.why_unknown(kind));
                    self.once(resource, why, news);
                }
                continue;
            };
            let Some(good) = good(&holding.good) else { continue };
            let free = self.free(view, &good, holding.spare);
            seen.push(Seen { good, waited_ns, held: holding.held, free });
        }
        seen
    }

    /// The amount that it can give within `most_part`.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn free(&self, view: &TraderView, good: &Good, spare: u64) -> u64 {
        let same = wire::Good::from(good);
        let legs = view.exchanges.iter().flat_map(|exchange| &exchange.legs);
        let given = legs.filter(|leg| leg.giver == view.id && leg.good == same);
        let given: u64 = given.map(|leg| leg.amount).sum();
        let most = ((spare + given) as f64 * self.settings.most_part) as u64;
        spare.min(most.saturating_sub(given))
    }

    fn once(&mut self, key: &str, why: String, news: &mut Vec<News>) {
        if self.told.insert(key.to_owned()) {
            news.push(News::Limited { why });
        }
    }

    /// Turns actions into operations, withdrawals first; adds renewals of leases (rule 3).
    fn act(&mut self, actions: Vec<Action>, view: &TraderView, now: Now, wanted: &mut Vec<Wanted>) {
        let mut offers = Vec::new();
        for action in actions {
            match action {
                Action::Offer { tag, terms } => offers.push((tag, terms)),
                Action::Cancel { tag } => {
                    if let Some(offer) = self.standing.withdraw(tag) {
                        let operation = Operation::CancelOffer { offer };
                        wanted.push(Wanted { operation, what: What::Withdraw });
                    }
                }
                Action::End { exchange } => wanted.push(self.end(exchange)),
            }
        }
        let lasts = self.exchanges_last(now);
        let early_s = (lasts / 2).max(self.window(now) + LOOKS_OF_ALLOTD).as_secs();
        let held: BTreeSet<u64> = self.negotiator.exchanges().collect();
        for exchange in view.exchanges.iter().filter(|exchange| held.contains(&exchange.id)) {
            let own = exchange.leases.iter().find(|lease| lease.party == self.id);
            if own.is_some_and(|lease| lease.until_s < now.unix_s + early_s) {
                let until_s = Some(now.unix_s + lasts.as_secs());
                wanted.push(self.renew(exchange.id, until_s));
            }
        }
        wanted.extend(offers.into_iter().map(|(tag, terms)| self.offer(tag, terms, now)));
    }

    /// The length of this window.
    fn window(&self, now: Now) -> Duration {
        let planned = Duration::from_nanos(self.next_ns.saturating_sub(now.ns));
        planned.max(self.settings.window())
    }

    /// Lease of exchanges from now on: some windows at least, however long these have become.
    fn exchanges_last(&self, now: Now) -> Duration {
        self.settings.lease.max(4 * self.window(now) + LOOKS_OF_ALLOTD)
    }

    fn end(&mut self, exchange: u64) -> Wanted {
        self.standing.end(exchange);
        Wanted { operation: Operation::EndExchange { exchange }, what: What::End(exchange) }
    }

    fn renew(&self, exchange: u64, until_s: Option<u64>) -> Wanted {
        let party = CurrencyRef(format!("#{}", self.id));
        let operation = Operation::RenewExchange { exchange, party, until_s };
        Wanted { operation, what: What::Renew(exchange) }
    }

    fn offer(&self, tag: u64, terms: Terms, now: Now) -> Wanted {
        let offer_lasts = 3 * self.window(now) + LOOKS_OF_ALLOTD;
        let points = terms.points.iter().map(|it| OfferPoint { give: it.give, want: it.want });
        let operation = Operation::Offer {
            party: Some(CurrencyRef(format!("#{}", self.id))),
            gives: wire::Good::from(&terms.gives),
            wants: wire::Good::from(&terms.wants),
            points: points.collect(),
            partial: terms.partial,
            least: terms.least,
            most: Some(terms.most),
            until_s: None,
            lease: Some(Lease {
                offer_until_s: now.unix_s + offer_lasts.as_secs(),
                exchange_until_s: now.unix_s + self.exchanges_last(now).as_secs(),
            }),
        };
        Wanted { operation, what: What::Offer(tag, terms) }
    }

    /// Notes allotd's answer to an operation. Returns news to report (rule 1).
    pub fn done(&mut self, what: What, answer: Result<Option<u64>, &str>) -> Option<News> {
        match (what, answer) {
            (What::Offer(tag, terms), Ok(Some(offer))) => {
                self.standing.offered(tag, offer);
                let last = *terms.points.last()?;
                Some(News::Offered {
                    offer,
                    gives: wire::Good::from(&terms.gives),
                    give: last.give,
                    wants: wire::Good::from(&terms.wants),
                    want: last.want,
                })
            }
            (What::Offer(tag, _), refused) => {
                self.standing.refused(tag);
                refused.err().map(|why| News::Refused { why: why.to_owned() })
            }
            // It was filled, has lapsed, or ended: the next look shows it.
            _ => None,
        }
    }

    /// The operations with which it leaves the market: offers are withdrawn, and exchanges on trial are ended;
    /// those that helped stay until their lease is over, or without an end if `keep`.
    pub fn leave(&mut self, keep: bool) -> Vec<Wanted> {
        let withdraw =
            |offer| Wanted { operation: Operation::CancelOffer { offer }, what: What::Withdraw };
        let mut wanted: Vec<Wanted> = self.standing.offers().map(withdraw).collect();
        if keep {
            let held: Vec<u64> = self.negotiator.exchanges().collect();
            wanted.extend(held.into_iter().map(|exchange| self.renew(exchange, None)));
        } else {
            let tried: Vec<u64> = self.negotiator.on_trial().collect();
            wanted.extend(tried.into_iter().map(|exchange| self.end(exchange)));
        }
        wanted
    }
}

fn verdict(verdict: &Verdict) -> News {
    match verdict.clone() {
        Verdict::Kept { exchanges, effect } => News::Kept { exchanges, effect },
        Verdict::TakenBack { exchanges, effect } => News::TakenBack { exchanges, effect },
        Verdict::LoadChanged { ended } => News::LoadChanged { ended },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, soft};
    use market::negotiator::Options;
    use wire::{ExchangeView, HoldingView};

    const WINDOW_NS: u64 = 1_000_000_000;

    fn view(resources: &[&str]) -> TraderView {
        let holding =
            |resource: &&str| HoldingView { good: soft(resource), held: 1000, spare: 900 };
        TraderView {
            id: 7,
            name: "a".to_owned(),
            owner: 0,
            members: Vec::new(),
            members_left_out: 0,
            cpu_value: 0.25,
            cpu_guaranteed: 0.5,
            cpu_tickets: Vec::new(),
            holdings: resources.iter().map(holding).collect(),
            offers: Vec::new(),
            exchanges: Vec::new(),
        }
    }

    /// It gives 100 disk tickets, and its lease ends then.
    fn exchange(id: u64, until_s: u64) -> ExchangeView {
        fixtures::exchange(id, ("disk:sda", 100), ("cpu", 50), Some(until_s))
    }

    fn trader(settings: Settings) -> Trader {
        let options = Options { window_ns: WINDOW_NS, ..settings.options };
        let settings = Settings { options, ..settings };
        Trader::new(&view(&[]), settings, Arc::default()).expect("somebody to trade for")
    }

    fn waits(ns: u64) -> Account {
        Account { cpu_ns: Some(ns), disk_ns: Some(0), memory_ns: None, ..Account::default() }
    }

    fn at(window: u64) -> Now {
        Now { ns: window * WINDOW_NS, unix_s: 1000 + window, ticks: 0 }
    }

    fn names(seen: &[Seen]) -> Vec<(String, u64)> {
        seen.iter().map(|seen| (seen.good.resource.to_string(), seen.free)).collect()
    }

    #[test]
    fn goods_whose_waits_are_not_known_or_wanted_are_not_traded() {
        let machine = Machine::look();
        let mut some = trader(Settings::default());
        let mut news = Vec::new();
        let mut full = view(&["cpu", "disk:sda", "memory", "net:eth0"]);
        full.members = vec![MemberView::Cgroup { id: 1, path: None }];
        let seen = some.seen(&full, &waits(5), &machine, &mut news);
        assert_eq!(names(&seen), [("cpu".to_owned(), 900), ("disk:sda".to_owned(), 900)]);
        assert_eq!(news.len(), 2, "of memory and the network: {news:?}");
        some.seen(&full, &waits(6), &machine, &mut news);
        assert_eq!(news.len(), 2, "once");
        let two = view(&["cpu", "disk:sda", "disk:sdb"]);
        assert_eq!(names(&some.seen(&two, &waits(6), &machine, &mut news)).len(), 1);
        let goods = Some(vec!["disk:sda".to_owned()]);
        let mut one = trader(Settings { goods, ..Settings::default() });
        assert_eq!(names(&one.seen(&full, &waits(5), &machine, &mut news)).len(), 1);
    }

    #[test]
    fn no_more_is_free_than_the_most_that_is_ever_given() {
        let mut some = trader(Settings { most_part: 0.3, ..Settings::default() });
        let mut view = view(&["disk:sda"]);
        let disk = |some: &mut Trader, view: &TraderView| {
            some.seen(view, &waits(0), &Machine::look(), &mut Vec::new())[0].free
        };
        assert_eq!(disk(&mut some, &view), 270);
        view.exchanges = vec![exchange(3, 9)];
        view.holdings[0].spare = 800;
        assert_eq!(disk(&mut some, &view), 170, "of the 900 that are its own it gives 100");
        view.exchanges = vec![exchange(3, 9), exchange(4, 9), exchange(5, 9)];
        assert_eq!(disk(&mut some, &view), 30);
    }

    #[test]
    fn what_was_left_is_taken_over_renewed_in_time_and_left_again() {
        let mut some = trader(Settings { lease: Duration::from_secs(100), ..Settings::default() });
        let machine = Machine::look();
        let mut view = view(&["cpu", "disk:sda"]);
        view.exchanges = vec![exchange(3, 1060)];
        let (wanted, news) = some.step(&view, &machine, 2, at(0));
        assert_eq!(news, [News::Began { exchanges: vec![3] }]);
        assert!(wanted.is_empty(), "more than half is left: {wanted:?}");
        let (wanted, _) = some.step(&view, &machine, 2, at(11));
        let [Wanted { operation: Operation::RenewExchange { exchange: 3, until_s, .. }, .. }] =
            &wanted[..]
        else {
            panic!("{wanted:?}")
        };
        assert_eq!(*until_s, Some(1111));
        assert_eq!(some.due_ns, 11e9, "half of two CPUs");
        assert!(some.leave(false).is_empty(), "on its lease");
        let kept = some.leave(true);
        assert!(matches!(
            &kept[..],
            [Wanted { operation: Operation::RenewExchange { until_s: None, .. }, .. }]
        ));
    }

    #[test]
    fn a_short_lease_is_renewed_before_it_is_over() {
        let mut some = trader(Settings { lease: Duration::from_secs(3), ..Settings::default() });
        let machine = Machine::look();
        let mut view = view(&["cpu", "disk:sda"]);
        let mut until_s = 1003;
        for window in 0..20 {
            view.exchanges = vec![exchange(3, until_s)];
            let now = at(window);
            assert!(now.unix_s < until_s, "it is over at {}", now.unix_s);
            let (wanted, _) = some.step(&view, &machine, 2, now);
            for it in wanted {
                if let Operation::RenewExchange { until_s: Some(later), .. } = it.operation {
                    until_s = later;
                }
            }
        }
    }

    #[test]
    fn a_window_without_progress_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("count");
        let progress = Some(crate::progress::Source::File(path.display().to_string()));
        let mut some = trader(Settings { progress, ..Settings::default() });
        let (view, machine) = (view(&["cpu", "disk:sda"]), Machine::look());
        let (_, news) = some.step(&view, &machine, 1, at(0));
        assert!(matches!(&news[1], News::Limited { why } if why.contains("count")), "{news:?}");
        assert_eq!(some.next_ns(), WINDOW_NS);
        assert!(some.step(&view, &machine, 1, at(1)).1.is_empty(), "once");
        std::fs::write(&path, "5").expect("written");
        assert!(some.step(&view, &machine, 1, at(2)).1.is_empty());
        std::fs::remove_file(&path).expect("removed");
        let (_, news) = some.step(&view, &machine, 1, at(3));
        assert_eq!(news.len(), 1, "again, as it had been there");
    }

    #[test]
    fn nobody_trades_for_everybody() {
        let everybody = TraderView { members: vec![MemberView::Rest], ..view(&[]) };
        assert!(Trader::new(&everybody, Settings::default(), Arc::default()).is_err());
    }
}
