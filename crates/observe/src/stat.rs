//! The one line of `/proc/<pid>/stat` and of `/proc/<pid>/task/<tid>/stat`.
//!
//! Parsed as bytes: a process chooses its own name, which may hold spaces, parentheses and
//! bytes that are not UTF-8, so fields are counted from the last `)`.

/// The fields that are used here. Numbering as in proc_pid_stat(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat<'a> {
    /// Field 2, without its parentheses.
    pub comm: &'a [u8],
    /// Field 3.
    pub state: u8,
    /// Field 4.
    pub parent_pid: u32,
    /// Field 5.
    pub process_group: u32,
    /// Field 6.
    pub session: u32,
    /// Field 9: the kernel's `PF_` flags.
    pub flags: u32,
    /// Field 12: faults for which something was read, of all its threads.
    pub major_faults: u64,
    /// Field 20.
    pub thread_count: u32,
    /// Field 22, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Field 28: bottom of the stack; 0 for a reader without the right to trace the process.
    pub start_stack: u64,
    /// Field 42: time for which the first thread waited for disks, in clock ticks; 0 where the kernel
    /// does not count that (`kernel.task_delayacct`).
    pub disk_wait_ticks: u64,
}

/// `PF_KTHREAD` of include/linux/sched.h.
const PF_KTHREAD: u32 = 0x0020_0000;

impl<'a> Stat<'a> {
    /// Parses a whole line. `None` when it is not such a line.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (comm, rest) = split_at_name(line)?;
        let mut fields = rest.split(|byte| *byte == b' ');
        let state = *fields.next()?.first()?;
        let parent_pid = number(fields.next()?)?;
        let process_group = id(fields.next()?)?;
        let session = id(fields.next()?)?;
        let flags = number(fields.nth(2)?)?; // 7 and 8 skipped
        let major_faults = number(fields.nth(2)?)?; // 10 and 11 skipped
        let thread_count = number(fields.nth(7)?)?; // 13 to 19 skipped
        let start_time_ticks = number(fields.nth(1)?)?; // 21 skipped
        let start_stack = number(fields.nth(5)?)?; // 23 to 27 skipped
        let disk_wait_ticks = fields.nth(13).and_then(number).unwrap_or(0); // 29 to 41 skipped
        Some(Self {
            comm,
            state,
            parent_pid,
            process_group,
            session,
            flags,
            major_faults,
            thread_count,
            start_time_ticks,
            start_stack,
            disk_wait_ticks,
        })
    }

    /// True for a thread of the kernel itself.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }
}

/// State letter (field 3) and thread count (field 20): what the hot path needs.
pub(crate) fn state_and_thread_count(line: &[u8]) -> Option<(u8, u32)> {
    let (_, rest) = split_at_name(line)?;
    let mut fields = rest.split(|byte| *byte == b' ');
    let state = *fields.next()?.first()?;
    let thread_count = number(fields.nth(16)?)?;
    Some((state, thread_count))
}

/// The name, and all that follows `") "`.
fn split_at_name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let close = line.iter().rposition(|byte| *byte == b')')?;
    Some((line.get(open + 1..close)?, line.get(close + 2..)?))
}

fn number<N: std::str::FromStr>(field: &[u8]) -> Option<N> {
    std::str::from_utf8(field).ok()?.trim_end().parse().ok()
}

/// A process group or session: -1 while a process is being taken down, then told as 0.
fn id(field: &[u8]) -> Option<u32> {
    let id: i64 = number(field)?;
    Some(u32::try_from(id).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = "S 41 42 43 0 -1 4194560 10 0 5 0 11 12 0 0 20 0 7 0 987654 12345 67 \
                        18446744073709551615 1 2 140737488 0 0 0 0 0 0 0 0 0 17 1 0 0 6 0 0\n";

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        for name in ["sh", "a) R 1 2 (b", ") ", "", "tab\tnewline\n)", "((("] {
            let line = format!("40 ({name}) {TAIL}");
            let stat = Stat::parse(line.as_bytes()).expect("a stat line");
            assert_eq!(stat.comm, name.as_bytes());
            assert_eq!(stat.state, b'S');
            assert_eq!((stat.parent_pid, stat.process_group, stat.session), (41, 42, 43));
            assert_eq!(stat.flags, 4_194_560);
            assert_eq!(stat.thread_count, 7);
            assert_eq!(stat.start_time_ticks, 987_654);
            assert_eq!(stat.start_stack, 140_737_488);
            assert_eq!((stat.major_faults, stat.disk_wait_ticks), (5, 6));
            assert_eq!(state_and_thread_count(line.as_bytes()), Some((b'S', 7)));
        }
    }

    #[test]
    fn names_need_not_be_text() {
        let mut line = b"40 (\xff\xfe) ".to_vec();
        line.extend_from_slice(TAIL.as_bytes());
        assert_eq!(Stat::parse(&line).expect("a stat line").comm, b"\xff\xfe");
    }

    #[test]
    fn cut_lines_are_refused() {
        let line = format!("40 (sh) {TAIL}");
        let end_of_field_28 = line.find("140737488").expect("field 28");
        for length in 0..end_of_field_28 {
            assert_eq!(Stat::parse(&line.as_bytes()[..length]), None, "length {length}");
        }
    }
}
