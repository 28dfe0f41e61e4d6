//! What allotd shows.

use crate::{Class, DiskLimit, ErrorCode, TicketKind};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Trouble)]
pub struct ApiError {
    /// A short, stable word: `invalid`, `unknown`, `forbidden`, `conflict`, `cycle`, `limit`,
    /// `journal`, `internal`.
    #[schema(value_type = String)]
    pub code: ErrorCode,
    /// What, where, and what to do.
    pub message: String,
    /// Which of the operations of a batch, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<usize>,
}

impl ApiError {
    /// An error that is not of one operation of a batch.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> ApiError {
        ApiError { code, message: message.into(), operation: None }
    }
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// What is wrong.
    pub error: ApiError,
}

/// How an allotd is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Of allotd.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Who runs it.
    pub uid: u32,
    /// Whether it touches only what it was given (demo, experiments, `--user`).
    pub private: bool,
    /// Where its journal is.
    pub state_dir: String,
    /// The journal's last number.
    pub sequence: u64,
    /// Currencies, base and clients included.
    pub currencies: u64,
    /// Tickets.
    pub tickets: u64,
    /// Clients.
    pub clients: u64,
    /// How it learns of forks and exits, and why so.
    pub life_source: String,
    /// Who enforces cpu tickets.
    pub cpu: EnforcerView,
    /// Who enforces tickets of other resources, of those that anybody has tickets of.
    #[serde(default)]
    pub others: Vec<DoctorResource>,
}

/// An enforcer and its settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnforcerView {
    /// `sched-ext`, `cgroup`, `user-level` or `none`.
    pub name: String,
    /// Why this one.
    pub why: String,
    /// `lottery`, `stride` or `mtr-ls`.
    pub policy: String,
    /// Of the policy's random numbers.
    pub seed: u64,
    /// Nanoseconds between draws.
    pub quantum_ns: u64,
    /// The CPUs that it shares out.
    pub cpus: Vec<u32>,
    /// How losers wait: `idle` (SCHED_IDLE) or `stop`.
    pub hold: String,
    /// The plan that it follows.
    pub generation: u64,
    /// What is not as the plan has it, in words.
    pub drift: Vec<String>,
}

/// What kind of node a currency is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Nature)]
pub enum CurrencyKind {
    /// The root.
    Base,
    /// A name.
    Pure,
    /// For one job; goes away with it.
    Job,
    /// A process.
    Client,
}

/// A process behind a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessView {
    /// Its number.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time_ticks: u64,
    /// Its command's name, where it could be read.
    pub command: String,
}

/// A part of the machine's work that consumes as (part of) a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum MemberView {
    /// All threads of a process that are no members themselves.
    Process(ProcessView),
    /// One thread.
    Thread {
        /// Its number.
        tid: u32,
        /// Whose it is.
        process: ProcessView,
    },
    /// A cgroup and those below it.
    Cgroup {
        /// The kernel's number of it.
        id: u64,
        /// Its directory, where that is known.
        path: Option<String>,
    },
    /// The kernel's threads.
    Kernel,
    /// Every process that no other member covers.
    Rest,
}

/// Rights granted besides the mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Grant {
    /// `uid:1000`, `gid:100` or `pid:4711`.
    pub to: String,
    /// As in `f-i`.
    pub rights: String,
}

fn is_zero(amount: &i64) -> bool {
    *amount == 0
}

fn thousand() -> u64 {
    1000
}

/// A limit that a currency has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskLimitView {
    /// The disk's kernel name.
    pub disk: String,
    /// What it is.
    #[serde(flatten)]
    pub limit: DiskLimit,
    /// The superuser has set it: then only the superuser changes it.
    pub by_superuser: bool,
}

/// What a currency is worth in one resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceValue {
    /// Of what.
    pub resource: String,
    /// Whether it competes now.
    pub active: bool,
    /// Its base value now, as a part of the whole, 0 to 1.
    pub value: f64,
    /// What it is sure of when all compete, as a part of the whole.
    pub guaranteed: f64,
    /// Base tickets lent to jobs by nice.
    pub lent: u64,
    /// Soft base tickets that it has received in exchanges, less those that it gives.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exchanged_soft: i64,
    /// Hard ones, likewise; of memory in KiB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exchanged_hard: i64,
    /// Its soft tickets' total, active or not.
    pub issued_soft: u64,
    /// Its hard tickets' total, of [`hard_total`](ResourceValue::hard_total).
    pub issued_hard: u64,
    /// What all its hard tickets total: 1000; of base's memory what there is to promise, in KiB.
    #[serde(default = "thousand")]
    pub hard_total: u64,
}

/// A currency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurrencyView {
    /// Its id.
    pub id: u64,
    /// Its name; a client's is its command, a job's `job`.
    pub name: String,
    /// What kind of node.
    #[serde(rename = "nature")]
    pub kind: CurrencyKind,
    /// Owner's uid.
    pub owner: u32,
    /// Owner's name, or the uid again.
    pub owner_name: String,
    /// Group's gid.
    pub group: u32,
    /// As in `fci--i---`.
    pub mode: String,
    /// Rights besides.
    pub grants: Vec<Grant>,
    /// A client's process.
    pub process: Option<ProcessView>,
    /// Whose client it is, where that is no process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub founder: Option<MemberView>,
    /// Where its founder consumes now, where that is another client that it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<u64>,
    /// Who else consumes as part of it: those who have joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberView>,
    /// How it competes.
    #[serde(default)]
    pub class: Class,
    /// Hard caps on disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DiskLimitView>,
    /// Whether the funding policy put that process here.
    pub placed: bool,
    /// A client without any tickets, stopped until it gets some.
    pub frozen: bool,
    /// Per resource that it has tickets of or has issued.
    pub resources: Vec<ResourceValue>,
}

/// A ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TicketView {
    /// Its id.
    pub id: u64,
    /// Who issued it.
    pub issuer: u64,
    /// Whom it funds.
    pub holder: u64,
    /// Of what.
    pub resource: String,
    /// Relative or fixed.
    pub kind: TicketKind,
    /// How many.
    pub amount: u64,
}

/// The whole funding graph, in order of ids; base first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LedgerView {
    /// The journal's last number.
    pub sequence: u64,
    /// Every currency.
    pub currencies: Vec<CurrencyView>,
    /// Every ticket.
    pub tickets: Vec<TicketView>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientState {
    /// Won the last draw.
    Running,
    /// Lost it and waits.
    Waiting,
    /// Does not want the CPU.
    Sleeping,
    /// Has no tickets and is stopped.
    Frozen,
    /// Stopped by somebody else.
    Stopped,
    /// Not touched; the reason is in the enforcer's drift.
    Unmanaged,
}

/// One client in a sample. Totals count from its adoption by this allotd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClientSample {
    /// Its currency.
    pub id: u64,
    /// Its process.
    pub pid: u32,
    /// Its command's name.
    pub command: String,
    /// What it does.
    pub state: ClientState,
    /// Its base value now, as a part of the whole, 0 to 1.
    pub value: f64,
    /// Its share of the CPUs shared out, after nobody is promised more than one CPU, 0 to 1.
    pub promised_share: f64,
    /// The integral of that: CPU time promised so far, in ns.
    pub promised_ns: u64,
    /// CPU time used so far, in ns.
    pub used_ns: u64,
    /// Draws won.
    pub wins: u64,
    /// Draws taken part in.
    pub draws: u64,
    /// The average part of a slice that it used when it won, where it won; more than 1 where it
    /// also ran without (paper 3's get_counter_info).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_used: Option<f64>,
}

/// What was measured at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sample {
    /// Monotonic clock, ns.
    pub at_ns: u64,
    /// CPUs shared out.
    pub seats: u32,
    /// The plan's generation.
    pub generation: u64,
    /// Draws held so far.
    pub draws: u64,
    /// Draws that came later than half a quantum.
    pub late: u64,
    /// CPU time used so far by allotd itself, all threads, ns.
    pub daemon_cpu_ns: u64,
    /// Every client, in order of id.
    pub clients: Vec<ClientSample>,
    /// Resources that are measured in a unit of their own, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSample>,
}

/// The use of one resource, in the unit of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceSample {
    /// The resource.
    pub resource: String,
    /// Every client that competes for it or uses it, in order of id.
    pub clients: Vec<ResourceUse>,
}

/// What one client has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResourceUse {
    /// Its currency.
    pub id: u64,
    /// The base value of its tickets, as a part of the whole; 0 while it does not compete.
    pub value: f64,
    /// The amount that it is promised now.
    pub promised: Option<u64>,
    /// The amount that it has now, or has used so far.
    pub used: u64,
}

/// The current scheduling policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyView {
    /// `lottery`, `stride` or `mtr-ls`.
    pub policy: String,
    /// By whose hand.
    pub enforcer: String,
}

/// Let another draw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// `lottery`, `stride` or `mtr-ls`.
    pub policy: String,
}

/// What a line of the trace tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TraceKind {
    /// A client's first member became runnable.
    Join,
    /// A thread was queued.
    Queue,
    /// A thread was chosen to run.
    Win,
    /// A client was charged.
    Charge,
    /// A client's last member went to sleep.
    Leave,
}

/// One line of the trace (paper 3, table 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TraceLine {
    /// Monotonic clock, ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: TraceKind,
    /// To which client.
    pub client: u64,
    /// To which thread; 0 where it was not one thread's.
    pub tid: u32,
    /// On which CPU.
    pub cpu: u16,
    /// The thread's place in the queue.
    pub key: u64,
    /// The client's base value, as a part of the whole, 0 to 1.
    pub value: f64,
    /// CPU time that it used so far, ns.
    pub used_ns: u64,
    /// CPU time that its tickets were due so far, ns.
    pub due_ns: u64,
    /// CPU time that it was charged so far, ns: where that is less than what was due, the rest is
    /// owed to it (the lottery's compensation).
    pub charged_ns: u64,
    /// The lottery's random number, its mean being 1.
    pub drawn: f64,
    /// Virtual time: CPU time that was given to all, ns.
    pub virtual_ns: u64,
    /// Counts the lines of this CPU: a gap says that some were lost.
    pub number: u32,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Somebody's operation was done.
    Operation,
    /// A process came, forked, went or changed its user.
    Process,
    /// Something about allotd itself.
    Daemon,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The journal's number, where it has one.
    pub sequence: Option<u64>,
    /// Unix time, ms.
    pub at_unix_ms: u64,
    /// What kind.
    pub kind: EventKind,
    /// Who asked; nobody for what was observed.
    pub uid: Option<u32>,
    /// In words.
    pub text: String,
    /// Offers that came, changed or went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<u64>,
    /// Exchanges that were made or ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<u64>,
}

/// How one resource is enforced here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DoctorResource {
    /// Which.
    pub resource: String,
    /// By whom; `none` where nobody does yet.
    pub enforcer: String,
    /// Why.
    pub why: String,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What.
    pub name: String,
    /// Whether it is as allot would like it.
    pub ok: bool,
    /// What was found, and what to do.
    pub says: String,
}

/// What this machine offers, and what allot makes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Doctor {
    /// In one line: kernel, CPUs, memory.
    pub machine: String,
    /// Per resource.
    pub resources: Vec<DoctorResource>,
    /// Everything that was looked at.
    pub checks: Vec<Check>,
}
