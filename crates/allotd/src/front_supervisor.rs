//! Keeps a front at work: starts it, and another when it dies, later each time that one dies soon.

use crate::connections::Connections;
use crate::front_process::FrontProcess;
use crate::front_session::{Session, SessionEnd};
use crate::listener::Gate;
use crate::requests::Shared;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From a front's death to the next one, at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// A front that has lived so long died of something new.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// There is no front.
#[derive(Debug, thiserror::Error)]
#[error("the front, which speaks with callers, cannot be started: {0}")]
pub struct NoFront(String);

/// The pauses between fronts.
#[derive(Debug, Default)]
struct BackOff {
    pause: Option<Duration>,
}

impl BackOff {
    /// The pause after a front that has lived so long, and whether its end is news.
    fn after(&mut self, life: Duration) -> (Duration, bool) {
        let before = self.pause.filter(|_| life < LONG_LIFE);
        let pause = before.map_or(PAUSE_FIRST, |pause| (pause * 2).min(PAUSE_MAX));
        self.pause = Some(pause);
        (pause, before.is_none())
    }
}

/// Serves callers until allotd ends.
///
/// # Errors
/// When the first front cannot be started.
pub async fn serve(gate: Gate, shared: Shared) -> Result<(), NoFront> {
    let shared = Arc::new(shared);
    let connections = RefCell::new(Connections::default());
    let mut ending = shared.ending.clone();
    let mut back_off = BackOff::default();
    let has_served = Cell::new(false);
    loop {
        let began = Instant::now();
        let life = one_life(&gate, &shared, &connections, &has_served).await;
        connections.borrow_mut().close_all();
        let why = match life {
            Ok(()) => return Ok(()),
            Err(why) if !has_served.get() => return Err(NoFront(why)),
            Err(why) => why,
        };
        let (pause, is_news) = back_off.after(began.elapsed());
        match is_news {
            true => {
                tracing::error!("the front: {why}; its connections are closed, another starts");
            }
            false => tracing::debug!("the front: {why}; another starts in {pause:?}"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.wait_for(|ending| *ending) => return Ok(()),
        }
    }
}

/// One front, from its start to its end: in order, or the reason.
async fn one_life(
    gate: &Gate,
    shared: &Arc<Shared>,
    connections: &RefCell<Connections>,
    has_served: &Cell<bool>,
) -> Result<(), String> {
    let (process, sockets) = FrontProcess::start().map_err(|error| error.to_string())?;
    let ready = || has_served.set(true);
    let end = Session::run(gate, shared, connections, sockets, ready).await;
    let ended = process.end().await;
    match (end, ended) {
        (SessionEnd::InOrder, _) => Ok(()),
        (end, Err(error)) => Err(format!("{end}; {error}")),
        // It was we who killed it.
        (end @ SessionEnd::Broke(_), _) => Err(end.to_string()),
        (end, Ok((status, None))) => Err(format!("{end} ({status})")),
        (end, Ok((status, Some(words)))) => Err(format!("{end} ({status}): {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_front_comes_later_each_time_that_one_dies_soon() {
        let mut back_off = BackOff::default();
        assert_eq!(back_off.after(Duration::ZERO), (PAUSE_FIRST, true));
        let pauses: Vec<Duration> = (0..12).map(|_| back_off.after(Duration::ZERO).0).collect();
        assert!(pauses.is_sorted() && pauses[0] == PAUSE_FIRST * 2);
        assert_eq!(back_off.after(Duration::ZERO), (PAUSE_MAX, false));
        assert_eq!(back_off.after(LONG_LIFE), (PAUSE_FIRST, true));
    }
}
