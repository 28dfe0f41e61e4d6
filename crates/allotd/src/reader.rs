//! Answers to those who only look at the ledger, on a thread of its own, from a copy that the keeper gives: whoever
//! looks keeps nobody waiting who acts. Persons take turns here as with the keeper.

use crate::exchange_desk;
use crate::fair_queue::FairQueue;
use crate::keeper::{Request, Snapshot};
use crate::members::{self, Commands};
use crate::names::Names;
use crate::policy_file::FundingPolicy;
use crate::resolve::Resolver;
use crate::view::{Page, currency_name, ledger_view};
use bytes::Bytes;
use front::thread_time;
use ledger::{Caller, Ledger, ProcessIdentity, ResourceKinds};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use wire::{ApiError, CurrencyRef, ErrorCode, Resolver as _, TradersView};

/// A copy is good for so long while nothing is done to the ledger: who competes changes all the time.
const COPY_KEPT: Duration = Duration::from_millis(5);

/// The most members that one answer shows of all traders together, and the most tickets that are followed for it.
const MEMBERS_MAX: usize = 10_000;

/// How long a name is waited for; then the number stands for it.
const NAMES_WITHIN: Duration = Duration::from_secs(1);

/// An answer as JSON.
pub type Answer = Result<Bytes, ApiError>;

/// A thing to look at. The uid is the caller's; `None` where the kernel does not say.
pub enum Read {
    /// The funding graph, or a page of it.
    Ledger(Option<Page>, Option<u32>, oneshot::Sender<Answer>),
    /// All that is offered, exchanged, and was paid.
    Market(Option<u32>, oneshot::Sender<Answer>),
    /// Some of those who can trade, as one caller names them.
    Traders(Caller, Vec<CurrencyRef>, oneshot::Sender<Answer>),
    /// Nothing more.
    Stop,
}

/// A look, and the number of the last operation that was acknowledged when it was asked for: it shows that one.
pub struct Look {
    pub read: Read,
    pub since: u64,
}

/// See the [module](self).
pub struct Reader {
    pub queue: Arc<FairQueue<Look>>,
    pub keeper: Arc<FairQueue<Request>>,
    pub policy: Option<FundingPolicy>,
    pub kinds: ResourceKinds,
    /// Whether `/proc` shows users their own processes alone.
    pub hides_processes: bool,
}

/// The state between two answers.
struct Kept {
    copy: Option<Box<Snapshot>>,
    /// The number of the operation that the next answer has to show.
    since: u64,
    /// The whole funding graph of that copy, shared among all who are being sent it.
    ledger: Option<Bytes>,
    names: Names,
}

impl Reader {
    /// Serves until told to stop.
    pub fn run(self) {
        let names = Names::patient(NAMES_WITHIN);
        let mut kept = Kept { copy: None, since: 0, ledger: None, names };
        loop {
            for Look { read, since } in self.queue.take(Duration::from_secs(3600), 1) {
                let began = thread_time();
                kept.since = since;
                match read {
                    Read::Ledger(page, uid, reply) => {
                        drop(reply.send(self.ledger(&mut kept, page, uid)));
                    }
                    Read::Market(uid, reply) => drop(reply.send(self.market(&mut kept, uid))),
                    Read::Traders(caller, who, reply) => {
                        drop(reply.send(self.traders(&mut kept, &caller, &who)));
                    }
                    Read::Stop => {
                        self.queue.close();
                        return;
                    }
                }
                self.queue.charge(thread_time() - began);
            }
        }
    }

    /// Sees that the copy has all that was acknowledged before the look was asked for.
    fn renew(&self, kept: &mut Kept) -> Result<(), ApiError> {
        let since = kept.since;
        let is_good = |copy: &Snapshot| copy.sequence >= since && copy.taken.elapsed() < COPY_KEPT;
        if kept.copy.as_deref().is_some_and(is_good) {
            return Ok(());
        }
        kept.ledger = None;
        let ending = || ApiError::new(ErrorCode::Internal, "allotd is ending");
        loop {
            let (reply, answer) = oneshot::channel();
            let is_new = kept.copy.is_none();
            self.keeper.push_urgent(Request::Renew { is_new, reply }).map_err(|_| ending())?;
            let renewal = answer.blocking_recv().map_err(|_| ending())?;
            // Whoever needs a copy has taken the keeper's time too.
            self.queue.charge(renewal.cost);
            match Snapshot::renewed(kept.copy.take(), renewal) {
                Ok(None) => {}
                Ok(copy) => {
                    kept.copy = copy;
                    return Ok(());
                }
                Err(misfit) => tracing::error!("the copy of the ledger is made anew: {misfit}"),
            }
        }
    }

    fn ledger(&self, kept: &mut Kept, page: Option<Page>, uid: Option<u32>) -> Answer {
        self.renew(kept)?;
        let sees_all = self.sees_all(kept, uid);
        if let (None, true, Some(ledger)) = (page, sees_all, &kept.ledger) {
            return Ok(ledger.clone());
        }
        let text = self.seen_by(kept, uid, |copy, names| json(&ledger_view(copy, page, names)));
        if page.is_none() && sees_all {
            kept.ledger = Some(text.clone());
        }
        Ok(text)
    }

    fn market(&self, kept: &mut Kept, uid: Option<u32>) -> Answer {
        self.renew(kept)?;
        Ok(self.seen_by(kept, uid, |copy, _| {
            let name = |id| currency_name(&copy.ledger, id, &copy.commands, &copy.cgroups);
            json(&exchange_desk::view(&copy.prices, &copy.ledger, copy.sequence, name))
        }))
    }

    fn sees_all(&self, kept: &Kept, uid: Option<u32>) -> bool {
        let ledger = &kept.copy.as_deref().expect("it was renewed").ledger;
        !self.hides_processes || uid.is_some_and(|uid| ledger.is_superuser(uid))
    }

    /// Does something with the copy as a user may see it: where `/proc` shows nobody the processes of others, neither do we
    /// say what these run.
    fn seen_by<T>(
        &self,
        kept: &mut Kept,
        uid: Option<u32>,
        act: impl FnOnce(&mut Snapshot, &mut Names) -> T,
    ) -> T {
        let sees_all = self.sees_all(kept, uid);
        let copy = kept.copy.as_deref_mut().expect("it was renewed");
        if sees_all {
            return act(copy, &mut kept.names);
        }
        let own = commands_of(&copy.ledger, &copy.commands, uid);
        let all = std::mem::replace(&mut copy.commands, own);
        let done = act(copy, &mut kept.names);
        copy.commands = all;
        done
    }

    fn traders(&self, kept: &mut Kept, caller: &Caller, who: &[CurrencyRef]) -> Answer {
        self.renew(kept)?;
        self.seen_by(kept, Some(caller.uid), |copy, names| {
            self.traders_of(copy, names, caller, who)
        })
    }

    fn traders_of(
        &self,
        copy: &mut Snapshot,
        names: &mut Names,
        caller: &Caller,
        who: &[CurrencyRef],
    ) -> Answer {
        let Snapshot { ledger, cpu, commands, cgroups, sequence, .. } = copy;
        let mut found = BTreeSet::new();
        let mut traders = Vec::new();
        let mut room = MEMBERS_MAX;
        for reference in who {
            let mut resolver = Resolver {
                ledger,
                caller,
                policy: self.policy.as_ref(),
                names,
                cgroups,
                kinds: &self.kinds,
                command: None,
            };
            let id = match resolver.currency(reference) {
                Err(error) if reference.0.starts_with('#') && error.code == ErrorCode::Unknown => {
                    continue;
                }
                found => found?,
            };
            if !found.insert(id) {
                continue;
            }
            let currency = ledger.currency(id).expect("it was found");
            let name = |id| currency_name(ledger, id, commands, cgroups);
            let mut trader = exchange_desk::trader_view(ledger, currency, cpu, name);
            let (members, left_out) = members::all_of(ledger, id, &mut room);
            let view = |member| members::member_view(member, commands, cgroups);
            trader.members = members.iter().map(view).collect();
            trader.members_left_out = left_out;
            traders.push(trader);
        }
        Ok(json(&TradersView { sequence: *sequence, traders }))
    }
}

/// The commands of a user's own clients.
fn commands_of(ledger: &Ledger, commands: &Commands, uid: Option<u32>) -> Commands {
    let is_own = |process: &ProcessIdentity| {
        let client = ledger.client_of(*process).and_then(|id| ledger.currency(id));
        client.is_some_and(|client| Some(client.record.owner) == uid)
    };
    let own = commands.iter().filter(|(process, _)| is_own(process));
    own.map(|(process, command)| (*process, command.clone())).collect()
}

fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("a view can be written as JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::operation::Adopt;
    use ledger::{Authority, BASE, Intent, NewClient, decide};

    #[test]
    fn where_processes_are_hidden_others_commands_are_not_told() {
        let mut ledger = Ledger::new(0, 0);
        let mut commands = Commands::new();
        for uid in [1, 2] {
            let process = ProcessIdentity { pid: uid, start_time_ticks: 1 };
            let client = NewClient::process(process, uid, uid);
            let adopt = Adopt { client, issuer: BASE, funding: Vec::new() };
            let root = Authority::Caller(Caller { uid: 0, gid: 0, groups: vec![], process: None });
            let adopted = decide(&ledger, root, Intent::from(adopt)).expect("root may");
            ledger.apply(adopted);
            commands.insert(process, format!("of {uid}"));
        }
        let told = |uid| commands_of(&ledger, &commands, uid).into_values().collect::<Vec<_>>();
        assert_eq!(told(Some(1)), ["of 1"]);
        assert!(told(None).is_empty() && told(Some(3)).is_empty());
    }
}
