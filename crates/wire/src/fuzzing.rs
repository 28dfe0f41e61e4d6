//! The fuzz target `requests`: bodies of requests and of answers, one a line, as bytes that may be anything.

use crate::{
    CurrencyRef, Doctor, ErrorBody, Event, LedgerView, MarketView, Operations, OperationsDone,
    PolicyView, Sample, SetPolicy, Status, TraceLine, TradersView, matches,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads each line as everything that is said over the socket; what are operations is done to a ledger, line by line
/// on behalf of another caller.
pub fn requests(bytes: &[u8]) {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for line in &lines {
        if let Some(Operations { operations }) = comes_back::<Operations>(line) {
            operations.iter().for_each(|operation| drop(operation.named_resources()));
        }
        comes_back::<SetPolicy>(line);
        answers(line);
        if let Some((pattern, name)) =
            std::str::from_utf8(line).ok().and_then(|it| it.split_once(' '))
        {
            assert_eq!(matches(pattern, name), matches_slowly(pattern, name), "{pattern}");
            let _ = CurrencyRef::from(name);
        }
    }
    #[cfg(feature = "ledger")]
    at_a_ledger::operate(&lines);
}

/// What clients read.
fn answers(line: &[u8]) {
    comes_back::<OperationsDone>(line);
    comes_back::<ErrorBody>(line);
    comes_back::<Status>(line);
    comes_back::<LedgerView>(line);
    comes_back::<MarketView>(line);
    comes_back::<TradersView>(line);
    comes_back::<Sample>(line);
    comes_back::<Event>(line);
    comes_back::<TraceLine>(line);
    comes_back::<Doctor>(line);
    comes_back::<PolicyView>(line);
}

/// Reads a value, if it is one; then it is the same when it is written and read again.
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    line: &[u8],
) -> Option<T> {
    let value: T = serde_json::from_slice(line).ok()?;
    let text = serde_json::to_string(&value).expect("it can be written");
    let again: T = serde_json::from_str(&text).expect("what was written can be read");
    assert_eq!(again, value);
    Some(value)
}

/// The definition of a match, sign by sign of the pattern.
fn matches_slowly(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    // Of each beginning of the name: whether the pattern so far matches it.
    let mut matched: Vec<bool> = (0..=name.len()).map(|end| end == 0).collect();
    for sign in pattern {
        let before = matched.clone();
        for end in 0..=name.len() {
            matched[end] = match sign {
                b'*' => before[..=end].contains(&true),
                sign => end > 0 && before[end - 1] && name[end - 1] == *sign,
            };
        }
    }
    matched[name.len()]
}

#[cfg(feature = "ledger")]
mod at_a_ledger {
    use crate::{ApiError, CurrencyRef, ErrorCode, Operations, Resolver};
    use ledger::{
        Authority, BASE, Caller, Change, CurrencyId, Ledger, Member, NewClient, Placements,
        ProcessIdentity, ResourceKind, ResourceKinds, decide,
    };

    /// Some callers, by turns.
    const UIDS: [u32; 4] = [0, 1000, 1001, 1000];
    /// The most currencies of a run, so that it stays quick.
    const CURRENCIES_MAX: usize = 200;

    struct Request<'a> {
        ledger: &'a Ledger,
        caller: &'a Caller,
        kinds: &'a ResourceKinds,
    }

    /// Does what each line asks; then the ledger is the one that its own record says.
    pub fn operate(lines: &[&[u8]]) {
        let kinds = [
            ResourceKind::cpu(),
            ResourceKind::memory(),
            ResourceKind::disk(),
            ResourceKind::net(),
        ];
        let kinds = ResourceKinds::from_iter(kinds);
        let mut ledger = Ledger::new(0, 0);
        let mut done = Vec::new();
        for (line, uid) in lines.iter().zip(UIDS.into_iter().cycle()) {
            let Ok(Operations { operations }) = serde_json::from_slice(line) else { continue };
            let process = Some(ProcessIdentity { pid: uid + 1, start_time_ticks: 1 });
            let caller = Caller { uid, gid: uid, groups: vec![100], process };
            for operation in operations {
                let mut at = Request { ledger: &ledger, caller: &caller, kinds: &kinds };
                let Ok(intent) = operation.intent(&mut at) else { continue };
                let authority = Authority::Caller(caller.clone());
                if let Ok(authorised) = decide(&ledger, authority, intent) {
                    done.push(ledger.apply(authorised));
                }
                if ledger.currency_count() > CURRENCIES_MAX {
                    return check(&ledger, &done);
                }
            }
        }
        check(&ledger, &done);
    }

    /// What the journal would write brings back the same ledger.
    fn check(ledger: &Ledger, done: &[Vec<Change>]) {
        let text = serde_json::to_vec(&ledger.snapshot()).expect("it can be written");
        let snapshot = serde_json::from_slice(&text).expect("what was written can be read");
        let restored = Ledger::restore(snapshot).expect("what was written fits");
        assert_eq!(restored.snapshot(), ledger.snapshot());
        let mut replayed = Ledger::new(0, 0);
        for changes in done {
            let text = serde_json::to_vec(changes).expect("they can be written");
            let changes = serde_json::from_slice(&text).expect("what was written can be read");
            replayed.replay(changes).expect("what was done fits");
        }
        assert_eq!(replayed.snapshot(), ledger.snapshot());
    }

    impl Resolver for Request<'_> {
        fn caller(&self) -> &Caller {
            self.caller
        }

        fn ledger(&self) -> &Ledger {
            self.ledger
        }

        fn kinds(&self) -> &ResourceKinds {
            self.kinds
        }

        fn now_s(&self) -> u64 {
            1_000_000
        }

        fn currency(&mut self, reference: &CurrencyRef) -> Result<CurrencyId, ApiError> {
            let text = reference.0.as_str();
            if text == "base" {
                return Ok(BASE);
            }
            let by_id = text.strip_prefix('#').and_then(|number| number.parse().ok());
            let by_pid = || {
                let pid = text.strip_prefix("pid:")?.parse().ok()?;
                self.ledger.client_of(ProcessIdentity { pid, start_time_ticks: 1 })
            };
            let known = |id: &CurrencyId| self.ledger.currency(*id).is_some();
            let by_name = || UIDS.into_iter().find_map(|uid| self.ledger.named(uid, text));
            let found = by_id.map(CurrencyId).filter(known).or_else(by_pid).or_else(by_name);
            found.ok_or_else(|| ApiError::new(ErrorCode::Unknown, "none"))
        }

        fn own_client(&mut self) -> Result<CurrencyId, ApiError> {
            let process = self.caller.process.expect("every caller has one");
            let client = self.ledger.client_of(process);
            client.ok_or_else(|| ApiError::new(ErrorCode::Unknown, "none"))
        }

        fn currency_of_user(&mut self, _: u32) -> Result<CurrencyId, ApiError> {
            Ok(BASE)
        }

        fn placements_of_user(&mut self, _: u32) -> Option<Placements> {
            None
        }

        fn is_named(&mut self, client: CurrencyId) -> bool {
            client.0.is_multiple_of(2)
        }

        fn identity(&self, pid: u32) -> Result<ProcessIdentity, ApiError> {
            Ok(ProcessIdentity { pid, start_time_ticks: 1 })
        }

        fn process(
            &mut self,
            pid: Option<u32>,
            start_time_ticks: Option<u64>,
        ) -> Result<NewClient, ApiError> {
            let own = self.caller.process.expect("every caller has one");
            let pid = pid.unwrap_or(own.pid);
            let process = ProcessIdentity { pid, start_time_ticks: start_time_ticks.unwrap_or(1) };
            Ok(NewClient::process(process, self.caller.uid, self.caller.gid))
        }

        fn thread(&mut self, tid: u32) -> Result<NewClient, ApiError> {
            let process = self.identity(tid / 8)?;
            let thread = ledger::ThreadIdentity { process, tid, start_time_ticks: 1 };
            let (uid, gid) = (self.caller.uid, self.caller.gid);
            Ok(NewClient { member: Member::Thread(thread), uid, gid })
        }

        fn cgroup(&mut self, path: &str) -> Result<NewClient, ApiError> {
            let (uid, gid) = (self.caller.uid, self.caller.gid);
            Ok(NewClient { member: Member::Cgroup(path.len() as u64), uid, gid })
        }
    }
}

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_requests_does_no_harm() {
    replay::replay("requests", 4_000, requests);
}
