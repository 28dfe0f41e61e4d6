//! The best source of life events that this machine offers.

use crate::connector::ProcConnector;
use crate::life::{LifeError, LifeEvent, LifeSource};
use crate::scanner::Scanner;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// How often the scanner looks where the kernel tells no events.
const SCAN_PERIOD: Duration = Duration::from_millis(500);

/// Opens the best source of life events, and says which one and why, for `allot doctor`.
///
/// The source keeps working when the kernel's events end for good: it then tells
/// [`LifeEvent::Lost`] and goes on by scanning, and [`LifeSource::poll_fd`] is `None` from then on.
///
/// # Errors
/// When not even `/proc` can be read.
pub fn watch_best() -> Result<(Box<dyn LifeSource>, String), LifeError> {
    match ProcConnector::open() {
        Ok(connector) => {
            let filter = if connector.is_filtered() { ", filtered by the kernel" } else { "" };
            let why = format!("the kernel's process event connector{filter}");
            Ok((Box::new(LifeWatcher { source: Box::new(connector) }), why))
        }
        Err(error) => {
            let why = format!(
                "scanning /proc every {} ms, for the process event connector is not available: \
                 {error}",
                SCAN_PERIOD.as_millis()
            );
            Ok((Box::new(LifeWatcher { source: Box::new(Scanner::new(SCAN_PERIOD)?) }), why))
        }
    }
}

/// A source that turns to scanning when the one that it began with fails.
struct LifeWatcher {
    source: Box<dyn LifeSource>,
}

impl LifeSource for LifeWatcher {
    fn next(&mut self, timeout: Duration) -> Result<Vec<LifeEvent>, LifeError> {
        let told = self.source.next(timeout);
        self.or_scan(told)
    }

    fn catch_up(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
        let told = self.source.catch_up();
        self.or_scan(told)
    }

    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.poll_fd()
    }

    fn name(&self) -> &'static str {
        self.source.name()
    }
}

impl LifeWatcher {
    /// Turns to scanning where the kernel's events have ended.
    fn or_scan(
        &mut self,
        told: Result<Vec<LifeEvent>, LifeError>,
    ) -> Result<Vec<LifeEvent>, LifeError> {
        match told {
            Err(error) if self.source.poll_fd().is_some() => {
                let reason = format!("{error}; from now on /proc is scanned");
                tracing::warn!(reason, "process events ended");
                self.source = Box::new(Scanner::new(SCAN_PERIOD)?);
                Ok(vec![LifeEvent::Lost { reason }])
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// A kernel that falls silent for good cannot be had on demand.
    struct Failing(std::fs::File);

    impl LifeSource for Failing {
        fn next(&mut self, _: Duration) -> Result<Vec<LifeEvent>, LifeError> {
            Err(LifeError::Deaf { reason: "test".to_owned() })
        }

        fn catch_up(&mut self) -> Result<Vec<LifeEvent>, LifeError> {
            self.next(Duration::ZERO)
        }

        fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }

        fn name(&self) -> &'static str {
            "failing"
        }
    }

    #[test]
    fn a_source_that_fails_is_replaced_by_scanning() {
        let file = std::fs::File::open("/proc/self/stat").expect("/proc");
        let mut watcher = LifeWatcher { source: Box::new(Failing(file)) };
        let events = watcher.next(Duration::ZERO).expect("a replacement");
        assert!(matches!(events.as_slice(), [LifeEvent::Lost { .. }]), "{events:?}");
        assert_eq!(watcher.name(), "scanner");
        assert!(watcher.poll_fd().is_none());
        watcher.next(Duration::ZERO).expect("the scanner works");
    }
}
