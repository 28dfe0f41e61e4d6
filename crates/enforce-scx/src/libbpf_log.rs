//! What libbpf says, kept for the error that follows.

use libbpf_rs::PrintLevel;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, Once};

const KEPT_LINES: usize = 40;
static LINES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

fn lines() -> MutexGuard<'static, VecDeque<String>> {
    LINES.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn hear(level: PrintLevel, said: String) {
    tracing::debug!(target: "libbpf", ?level, "{}", said.trim_end());
    if level != PrintLevel::Warn {
        return;
    }
    let mut lines = lines();
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.trim_end().to_owned());
    }
}

/// Begins anew to collect warnings.
pub(crate) fn collect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, hear)));
    });
    lines().clear();
}

/// The last warnings.
pub(crate) fn take() -> String {
    let lines: Vec<String> = lines().drain(..).collect();
    lines.join("\n")
}
