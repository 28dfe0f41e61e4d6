//! The way of every operation: decided, then applied.

use crate::broker::Broker;
use crate::writer::Writer;
use crate::{Authority, Change, Intent, Ledger, Refusal};

/// An intent that the broker allowed, good for the ledger as it was then. Only [`decide`]
/// makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorised {
    authority: Authority,
    intent: Intent,
    version: u64,
}

impl Authorised {
    /// On whose authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// What.
    pub fn intent(&self) -> &Intent {
        &self.intent
    }
}

/// Allows an intent, or says why not.
///
/// # Errors
/// A [`Refusal`]; the ledger is unchanged either way.
pub fn decide(
    ledger: &Ledger,
    authority: Authority,
    intent: impl Into<Intent>,
) -> Result<Authorised, Refusal> {
    let intent = intent.into();
    let broker = Broker { ledger, authority: &authority };
    intent.check(&broker)?;
    Ok(Authorised { version: ledger.version(), authority, intent })
}

impl Ledger {
    /// Does what was authorised. Cannot fail.
    ///
    /// # Panics
    /// If the ledger was written to since the authorisation: a broken invariant of the caller.
    pub fn apply(&mut self, authorised: Authorised) -> Vec<Change> {
        assert_eq!(authorised.version, self.version(), "authorised for another version");
        let Authorised { authority, intent, .. } = authorised;
        let mut writer = Writer { ledger: self, authority: &authority, changes: Vec::new() };
        intent.apply(&mut writer);
        writer.undo_uncovered();
        writer.changes
    }
}
