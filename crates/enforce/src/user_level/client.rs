//! One client: a managed process, its part in the draws and its account.

use super::process::{Hands, Process, Trouble};
use crate::{AppliedClient, ClientSample, ClientState, Held};
use ledger::{CurrencyId, ProcessIdentity};
use policy::ONE_SEAT;

/// Whether a client takes part in the draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It wants the CPU.
    Competing,
    /// It does not.
    Asleep,
    /// Somebody else has stopped it.
    StoppedByOthers,
    /// The plan has frozen it.
    Frozen,
}

/// A client of the plan.
pub(super) struct Client {
    pub id: CurrencyId,
    pub process: Process,
    pub presence: Presence,
    /// Index of its scheduling group's name.
    pub group: usize,
    /// It is a shell's foreground job, which must not be stopped between draws.
    pub foreground: bool,
    /// It won the last draw.
    pub won: bool,
    /// Its CPU clock when it was last read.
    pub clock_ns: u64,
    /// Its CPU clock when it was last asked whether it competes.
    pub seen_clock_ns: u64,
    /// When that was, on the monotonic clock.
    pub seen_at_ns: u64,
    pub account: Account,
    pub value: u64,
    pub promised: u64,
    /// Why it is not held as it should be.
    pub note: Option<String>,
}

/// What a client was promised and got.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub used_ns: u64,
    pub promised_ns: u64,
    pub active_ns: u64,
    pub wins: u64,
    pub draws: u64,
}

impl Client {
    /// Adds to what it was promised, for a time in which nothing changed.
    pub fn integrate(&mut self, elapsed_ns: u64) {
        if self.presence == Presence::Competing {
            let promised = u128::from(self.promised) * u128::from(elapsed_ns);
            self.account.promised_ns += (promised / u128::from(ONE_SEAT)) as u64;
            self.account.active_ns += elapsed_ns;
        }
    }

    /// Reads its CPU clock. Answers what it used since the last time; `None` once it has been
    /// reaped.
    pub fn measure(&mut self) -> Option<u64> {
        let clock = self.process.cpu_time_ns()?;
        let used = clock.saturating_sub(self.clock_ns);
        self.clock_ns = clock;
        self.account.used_ns += used;
        Some(used)
    }

    /// What it used since this was last asked, and in how long a time, as last measured.
    pub fn activity(&mut self, now_ns: u64) -> (u64, u64) {
        let used = self.clock_ns.saturating_sub(self.seen_clock_ns);
        let elapsed = now_ns.saturating_sub(self.seen_at_ns);
        self.seen_clock_ns = self.clock_ns;
        self.seen_at_ns = now_ns;
        (used, elapsed)
    }

    /// Sets how it is held, if it is not held so already. `Ok(false)`: it was to be stopped, but
    /// somebody else has done so.
    pub fn hold(&mut self, wanted: Held, hands: &mut Hands<'_>) -> Result<bool, Trouble> {
        match wanted {
            Held::Free => {
                if self.process.is_idled() {
                    self.process.set_idle(false, hands)?;
                }
                self.process.go_on(hands.registry)?;
                Ok(true)
            }
            Held::Idle => {
                if !self.process.is_idled() {
                    self.process.set_idle(true, hands)?;
                }
                self.process.go_on(hands.registry)?;
                Ok(true)
            }
            Held::Stopped => self.process.stop(hands.registry),
        }
    }

    pub fn held(&self) -> Held {
        match (self.process.is_stopped(), self.process.is_idled()) {
            (true, _) => Held::Stopped,
            (false, true) => Held::Idle,
            (false, false) => Held::Free,
        }
    }

    pub fn identity(&self) -> ProcessIdentity {
        self.process.identity()
    }

    fn state(&self) -> ClientState {
        match self.presence {
            Presence::Competing if self.won => ClientState::Running,
            Presence::Competing => ClientState::Waiting,
            Presence::Asleep => ClientState::Sleeping,
            Presence::StoppedByOthers => ClientState::Stopped,
            Presence::Frozen => ClientState::Frozen,
        }
    }

    pub fn applied(&self) -> AppliedClient {
        AppliedClient {
            id: self.id,
            founder: self.identity().into(),
            state: self.state(),
            held: self.held(),
            note: self.note.clone(),
        }
    }

    pub fn sample(&self) -> ClientSample {
        let Account { used_ns, promised_ns, active_ns, wins, draws } = self.account;
        ClientSample {
            id: self.id,
            founder: self.identity().into(),
            state: self.state(),
            value: self.value,
            promised: self.promised,
            promised_ns,
            used_ns,
            active_ns,
            wins,
            draws,
        }
    }
}
