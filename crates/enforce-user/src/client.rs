//! One client: a managed process, its part in the draws and its account.

use crate::process::{Hands, HoldError, Process};
use enforcer::{
    ClientState, ClientStatus, CpuAccount, CpuClientSample, HoldState, Presence, PresenceTracker,
};
use ledger::{CurrencyId, ProcessIdentity};

/// Draws in which a client runs although it is stopped, until it is held harder.
pub(crate) const DEFIED_MAX: u32 = 3;

/// A client of the plan.
pub(crate) struct Client {
    pub id: CurrencyId,
    pub process: Process,
    /// The real uids that the process may have; anybody's where there are none.
    pub owners: Vec<u32>,
    pub presence: Presence,
    /// Index of its scheduling group's name.
    pub group: usize,
    /// It is a shell's foreground job, which must not be stopped between draws.
    pub foreground: bool,
    /// Draws in which it ran although it was stopped.
    pub defied: u32,
    /// It won the last draw.
    pub won: bool,
    /// Its CPU clock when it was last read.
    pub clock_ns: u64,
    pub tracker: PresenceTracker,
    pub account: CpuAccount,
    pub value: u64,
    pub promised: u64,
    /// Why it is not held as it should be.
    pub note: Option<String>,
}

impl Client {
    /// Adds to what it was promised, for a time in which nothing changed.
    pub fn integrate(&mut self, elapsed_ns: u64) {
        if self.presence == Presence::Competing {
            self.account.integrate(self.promised, elapsed_ns);
        }
    }

    /// Reads its CPU clock. Answers what it used since the last time; `None` once it has been
    /// reaped.
    pub fn measure(&mut self) -> Option<u64> {
        let clock = match self.presence {
            Presence::Asleep | Presence::StoppedByOthers => {
                self.process.cpu_time_since(self.clock_ns)?
            }
            Presence::Competing | Presence::Frozen => self.process.cpu_time_ns()?,
        };
        let used = clock.saturating_sub(self.clock_ns);
        self.clock_ns = clock;
        self.account.used_ns += used;
        self.tracker.add(used);
        Some(used)
    }

    /// Sets how it is held, if it is not held so already. `Ok(false)`: it was to be stopped, but
    /// somebody else has done so.
    pub fn hold(&mut self, wanted: HoldState, hands: &mut Hands<'_>) -> Result<bool, HoldError> {
        if wanted == HoldState::Free {
            return self.change(wanted, hands);
        }
        self.must_be_theirs()?;
        let held = self.change(wanted, hands)?;
        // It may have become another's meanwhile; then whoever drops the client gives it back at once.
        self.must_be_theirs()?;
        Ok(held)
    }

    /// Asks the kernel whose the process is now.
    pub fn must_be_theirs(&self) -> Result<(), HoldError> {
        let uid = self.process.real_uid()?;
        if self.owners.is_empty() || self.owners.contains(&uid) {
            return Ok(());
        }
        Err(HoldError::Unmanaged(format!(
            "it belongs to uid {uid} now, who has no part in its client"
        )))
    }

    fn change(&mut self, wanted: HoldState, hands: &mut Hands<'_>) -> Result<bool, HoldError> {
        match wanted {
            HoldState::Free => {
                if self.process.is_idled() {
                    self.process.set_idle(false, hands)?;
                }
                self.process.go_on(hands.table)?;
                Ok(true)
            }
            HoldState::Idle => {
                if !self.process.is_idled() {
                    self.process.set_idle(true, hands)?;
                }
                self.process.go_on(hands.table)?;
                Ok(true)
            }
            // What may stand for ever can be killed meanwhile: a frozen process of version 1 cannot.
            HoldState::Stopped if self.presence == Presence::Frozen && self.defied < DEFIED_MAX => {
                self.process.stop(hands.table)
            }
            HoldState::Stopped => self.process.halt(hands),
        }
    }

    pub fn held(&self) -> HoldState {
        match (self.process.stands(), self.process.is_idled()) {
            (true, _) => HoldState::Stopped,
            (false, true) => HoldState::Idle,
            (false, false) => HoldState::Free,
        }
    }

    /// The user by whom it is held harder with all of theirs; `None` where the plan does not say whose it is.
    pub fn owner(&self) -> Option<u32> {
        self.owners.first().copied()
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.process.identity()
    }

    fn state(&self) -> ClientState {
        self.presence.state(self.won)
    }

    pub fn status(&self) -> ClientStatus {
        ClientStatus {
            id: self.id,
            founder: self.identity().into(),
            state: self.state(),
            note: self.note.clone(),
        }
    }

    pub fn sample(&self) -> CpuClientSample {
        let (who, now) = ((self.id, self.identity().into()), (self.value, self.promised));
        CpuClientSample::of(who, self.state(), now, self.account)
    }
}
