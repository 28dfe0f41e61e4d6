//! What is written down today is read tomorrow, and what was written before there were members.

mod common;
use allot_ledger::operation::{Adopt, Ensure, Exit, Join};

use allot_ledger::{
    Change, Class, CurrencyKind, Intent, Ledger, Member, NewClient, Snapshot, ThreadIdentity,
};
use common::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn read<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let again = serde_json::to_string(&value).expect("it can be written");
    assert_eq!(serde_json::from_str::<T>(&again).expect("and read"), value);
    // What concerns processes alone is written as before, so an older allotd reads it too.
    assert_eq!(again, text);
    value
}

/// Texts of the version in which a client was one process.
#[test]
fn older_journals_are_read() {
    let adopt: Intent = read(
        r#"{"operation":"adopt","client":{"process":{"pid":7,"start_time_ticks":1},"uid":1,"gid":1},"issuer":3,"funding":[{"resource":"cpu","kind":"soft","amount":5}]}"#,
    );
    let Some(Adopt { client, .. }) = Adopt::of(&adopt) else { panic!("{adopt:?}") };
    assert_eq!(*client, new_client(7, 1));
    let exit_read: Intent =
        read(r#"{"operation":"exit","process":{"pid":7,"start_time_ticks":1}}"#);
    assert_eq!(exit_read, exit(7));
    let fork_read: Intent = read(
        r#"{"operation":"fork","parent":{"pid":7,"start_time_ticks":1},"child":{"process":{"pid":8,"start_time_ticks":1},"uid":1,"gid":1}}"#,
    );
    assert_eq!(fork_read, fork(7, 8, 1));
    let change: Change = read(
        r#"{"what":"currency","id":4,"before":null,"after":{"name":"","owner":1,"group":1,"mode":"fci------","nature":{"client":{"process":{"pid":7,"start_time_ticks":1},"placed":true}}}}"#,
    );
    let Change::Currency { after: Some(record), .. } = &change else { panic!("{change:?}") };
    let founder = process(7).into();
    assert_eq!(record.kind, CurrencyKind::Client { founder, placed: true, class: Class::Host });
    let snapshot: Snapshot = read(
        r#"{"currencies":[[0,{"name":"base","owner":0,"group":0,"mode":"fci------","nature":"base"}],[4,{"name":"","owner":1,"group":1,"mode":"fci------","nature":{"client":{"process":{"pid":7,"start_time_ticks":1},"placed":false}}}]],"tickets":[[0,{"issuer":0,"holder":4,"resource":"cpu","kind":"soft","amount":5}]],"homes":[],"next_currency":5,"next_ticket":1}"#,
    );
    let ledger = Ledger::restore(snapshot).expect("it fits");
    assert_eq!(ledger.client_of(process(7)), Some(allot_ledger::CurrencyId(4)));
}

#[test]
fn every_member_can_be_written() {
    let thread = ThreadIdentity { process: process(7), tid: 9, start_time_ticks: 2 };
    let (uid, gid) = (1, 2);
    let client = allot_ledger::CurrencyId(4);
    for member in [
        Member::Process(process(7)),
        Member::Thread(thread),
        Member::Cgroup(u64::MAX),
        Member::Kernel,
        Member::Rest,
    ] {
        let new = NewClient { member, uid, gid };
        let intents = [
            Intent::from(Join { member: new, client }),
            Intent::from(Adopt { client: new, issuer: client, funding: vec![soft(1)] }),
            Intent::from(Ensure { member, funding: vec![hard(2)] }),
            Intent::from(Exit { member }),
        ];
        for intent in intents {
            let text = serde_json::to_string(&intent).expect("it can be written");
            assert_eq!(serde_json::from_str::<Intent>(&text).expect("and read"), intent, "{text}");
        }
        let kind = CurrencyKind::Client { founder: member, placed: true, class: Class::Guest };
        let text = serde_json::to_string(&kind).expect("it can be written");
        assert_eq!(serde_json::from_str::<CurrencyKind>(&text).expect("and read"), kind, "{text}");
        let change = Change::Member { member, before: None, after: Some(client) };
        let text = serde_json::to_string(&change).expect("it can be written");
        assert_eq!(serde_json::from_str::<Change>(&text).expect("and read"), change, "{text}");
    }
}
