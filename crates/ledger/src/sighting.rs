//! What the ledger makes of a process as it was seen.
//!
//! The daemon hears of processes from the kernel, late, more than once, or not at all. So nothing hangs on which event
//! it was: a process is looked at, and what must be done is what its user, its parent and the ledger say now. Telling
//! the same again does nothing. The adversary of `sim` holds that no request finds another ledger because an event came
//! late.

use crate::operation::{Fork, Place, UserChanged};
use crate::{CurrencyId, Intent, Ledger, NewClient, Placements, PolicyKey, ProcessIdentity};
use std::collections::BTreeMap;

/// The uid under which each process that joined a client did so.
pub type JoinedAs = BTreeMap<ProcessIdentity, u32>;

/// A process as it was seen just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The process and its real ids.
    pub client: NewClient,
    /// Its parent, where its birth is told.
    pub parent: Option<ProcessIdentity>,
}

impl Sighting {
    /// Returns what must be done about the process, if anything. `place` answers where the policy puts a uid and gid.
    ///
    /// # Panics
    /// When what was seen is no process.
    pub fn meaning(
        &self,
        ledger: &Ledger,
        joined_as: &JoinedAs,
        mut place: impl FnMut(u32, u32) -> Option<Placements>,
    ) -> Option<Intent> {
        let Sighting { client, parent } = *self;
        let process = client.member.process().expect("a process was seen");
        if let Some(own) = ledger.client_of(process) {
            return changed(ledger, own, client, place);
        }
        if ledger.joined_by(&client.member).is_some() {
            // What the former user had joined ends.
            let same = joined_as.get(&process) == Some(&client.uid);
            return (!same).then(|| UserChanged { client, placements: None }.into());
        }
        let owner = |process| {
            let own = ledger.client_of(process).and_then(|id| ledger.currency(id));
            own.map(|currency| currency.record.owner)
        };
        // A child that became another user's before it was seen belongs to that user now, or to nobody.
        match (parent, place(client.uid, client.gid)) {
            (Some(parent), _) if owner(parent) == Some(client.uid) => {
                Some(Fork { parent, child: client }.into())
            }
            (_, Some(placements)) => Some(Place { client, placements }.into()),
            (Some(parent), None)
                if ledger.joined_by(&parent.into()).is_some()
                    && joined_as.get(&parent) == Some(&client.uid) =>
            {
                Some(Fork { parent, child: client }.into())
            }
            _ => None,
        }
    }
}

/// Returns what becomes of a client whose process has other ids than the ledger knows.
fn changed(
    ledger: &Ledger,
    own: CurrencyId,
    client: NewClient,
    mut place: impl FnMut(u32, u32) -> Option<Placements>,
) -> Option<Intent> {
    let record = &ledger.currency(own).expect("a client exists").record;
    let (uid, gid) = (record.owner, record.group);
    if (uid, gid) == (client.uid, client.gid) {
        return None;
    }
    let mut placements = place(client.uid, client.gid);
    // Another group that the policy funds alike is no way out of a freeze or of a nice job.
    if uid == client.uid {
        let keys = |it: &Placements| it.levels.iter().map(|it| it.key.clone()).collect();
        let before: Option<Vec<PolicyKey>> = place(uid, gid).as_ref().map(keys);
        placements = placements.filter(|now| Some(keys(now)) != before);
    }
    Some(UserChanged { client, placements }.into())
}
