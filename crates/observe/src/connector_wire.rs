//! The messages of the kernel's process event connector (include/uapi/linux/cn_proc.h), behind
//! a netlink header and a connector header. All numbers are in the machine's own byte order.

/// `NLMSG_DONE`, the type of every connector message.
const NLMSG_DONE: u16 = 3;
/// `CN_IDX_PROC`, also the multicast group.
pub(crate) const CN_IDX_PROC: u32 = 1;
/// `CN_VAL_PROC`.
const CN_VAL_PROC: u32 = 1;

const NETLINK_HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
const EVENT_HEADER: usize = 16;
/// Longest message: the union of `struct proc_event` has 24 bytes.
pub(crate) const MESSAGE_BYTES: usize = NETLINK_HEADER + CONNECTOR_HEADER + EVENT_HEADER + 64;

const FORK: u32 = 0x0000_0001;
const EXEC: u32 = 0x0000_0002;
const UID: u32 = 0x0000_0004;
const GID: u32 = 0x0000_0040;
const EXIT: u32 = 0x8000_0000;
/// The events that are told on; Linux 6.6 and later can leave out the others.
pub(crate) const WANTED: u32 = FORK | EXEC | UID | GID | EXIT;

/// What a listener asks of the connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// `PROC_CN_MCAST_LISTEN`, for all events.
    Listen,
    /// The same for [`WANTED`] only. Kernels before 6.6 ignore the whole request.
    ListenFiltered,
    /// `PROC_CN_MCAST_IGNORE`.
    Ignore,
}

impl Request {
    /// The bytes to send to the kernel.
    pub fn encode(self) -> Vec<u8> {
        let mut data = Vec::new();
        match self {
            Self::Listen => data.extend(1_u32.to_ne_bytes()),
            Self::ListenFiltered => {
                data.extend(1_u32.to_ne_bytes());
                data.extend(WANTED.to_ne_bytes());
            }
            Self::Ignore => data.extend(2_u32.to_ne_bytes()),
        }
        let length = NETLINK_HEADER + CONNECTOR_HEADER + data.len();
        let mut message = Vec::with_capacity(length);
        message.extend(u32::try_from(length).expect("a short message").to_ne_bytes());
        message.extend(NLMSG_DONE.to_ne_bytes());
        message.extend([0; 10]); // flags, sequence number, port: the kernel fills in our port
        message.extend(CN_IDX_PROC.to_ne_bytes());
        message.extend(CN_VAL_PROC.to_ne_bytes());
        message.extend([0; 8]); // sequence number and acknowledgement
        message.extend(u16::try_from(data.len()).expect("a short message").to_ne_bytes());
        message.extend([0; 2]); // flags
        message.extend(data);
        message
    }
}

/// One event as the kernel tells it. `pid` is a thread, `tgid` its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelEvent {
    /// When, on `CLOCK_MONOTONIC`.
    pub timestamp_ns: u64,
    pub what: KernelEventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelEventKind {
    Fork {
        parent_tgid: u32,
        child_pid: u32,
        child_tgid: u32,
    },
    Exec {
        tgid: u32,
    },
    Uid {
        pid: u32,
        tgid: u32,
        real: u32,
        effective: u32,
    },
    Gid {
        pid: u32,
        tgid: u32,
        real: u32,
        effective: u32,
    },
    Exit {
        pid: u32,
        tgid: u32,
    },
    /// Acknowledgements and kinds that are not told on.
    Other,
}

impl KernelEvent {
    /// `None` when this is no message of the process event connector.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let length = word(message, 0)? as usize;
        let message = message.get(..length)?;
        let connector = message.get(NETLINK_HEADER..)?;
        if word(connector, 0)? != CN_IDX_PROC || word(connector, 1)? != CN_VAL_PROC {
            return None;
        }
        let event = connector.get(CONNECTOR_HEADER..)?;
        let timestamp_ns = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
        let data = event.get(EVENT_HEADER..)?;
        let field = |index| word(data, index);
        let what = match word(event, 0)? {
            FORK => KernelEventKind::Fork {
                parent_tgid: field(1)?,
                child_pid: field(2)?,
                child_tgid: field(3)?,
            },
            EXEC => KernelEventKind::Exec { tgid: field(1)? },
            UID => KernelEventKind::Uid {
                pid: field(0)?,
                tgid: field(1)?,
                real: field(2)?,
                effective: field(3)?,
            },
            GID => KernelEventKind::Gid {
                pid: field(0)?,
                tgid: field(1)?,
                real: field(2)?,
                effective: field(3)?,
            },
            EXIT => KernelEventKind::Exit { pid: field(0)?, tgid: field(1)? },
            _ => KernelEventKind::Other,
        };
        Some(Self { timestamp_ns, what })
    }
}

/// The `index`th 32-bit number.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let bytes = bytes.get(4 * index..4 * index + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(what: u32, data: [u32; 6]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(76_u32.to_ne_bytes());
        bytes.extend([0; 12]);
        for number in [CN_IDX_PROC, CN_VAL_PROC, 7, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(40_u16.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(what.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(123_456_u64.to_ne_bytes());
        for number in data {
            bytes.extend(number.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn events_are_decoded_field_by_field() {
        let decode = |what| KernelEvent::decode(&message(what, [1, 2, 3, 4, 5, 6])).map(|e| e.what);
        assert_eq!(
            decode(FORK),
            Some(KernelEventKind::Fork { parent_tgid: 2, child_pid: 3, child_tgid: 4 })
        );
        assert_eq!(decode(EXEC), Some(KernelEventKind::Exec { tgid: 2 }));
        assert_eq!(
            decode(UID),
            Some(KernelEventKind::Uid { pid: 1, tgid: 2, real: 3, effective: 4 })
        );
        assert_eq!(decode(EXIT), Some(KernelEventKind::Exit { pid: 1, tgid: 2 }));
        assert_eq!(decode(0), Some(KernelEventKind::Other));
        let event = KernelEvent::decode(&message(EXIT, [0; 6])).expect("an event");
        assert_eq!(event.timestamp_ns, 123_456);
    }

    #[test]
    fn foreign_and_cut_messages_are_refused() {
        let whole = message(FORK, [1; 6]);
        for length in 0..whole.len() {
            assert_eq!(KernelEvent::decode(&whole[..length]), None, "length {length}");
        }
        let mut foreign = whole.clone();
        foreign[NETLINK_HEADER] = 9;
        assert_eq!(KernelEvent::decode(&foreign), None);
    }
}
