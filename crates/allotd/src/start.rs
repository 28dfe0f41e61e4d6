//! From options to a running allotd, and back.

use crate::audit::Audit;
use crate::clock::unix_ms;
use crate::doctor::Findings;
use crate::elder::Elder;
use crate::fair_queue::FairQueue;
use crate::front_supervisor::{NoFront, serve};
use crate::instances::why_missing;
use crate::keeper::{Keeper, Request};
use crate::listener::{Gate, GateError};
use crate::lives::Lives;
use crate::options::{Options, OthersName};
use crate::own_processes;
use crate::persons;
use crate::policy_file::{FundingPolicy, PolicyFileError};
use crate::reader::{Look, Read, Reader};
use crate::requests::Shared;
use crate::walls::KeeperWalls;
use enforcement::{
    Enforcement, EnforcementError, EnforcingProcess, Reach, Surveyed, Task, resource_kinds,
    with_causes,
};
use enforcer::Registration;
use front::Meter;
use journal::{Journal, JournalError};
use ledger::{Ledger, Persons, ResourceKinds};
use observe::{LifeError, LifeSource, ticks_since_boot};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, watch};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use wire::Status;

/// Why allotd cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory cannot be made or used.
    #[error("cannot use the directory {path}: {cause}")]
    Directory {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// A directory that others could have prepared.
    #[error("{path} belongs to uid {owner}, not to you; name another with --socket/--state-dir")]
    NotOurs {
        /// Its path.
        path: PathBuf,
        /// The uid of its owner.
        owner: u32,
    },
    /// The journal.
    #[error("{}", with_causes(.0))]
    Journal(#[from] JournalError),
    /// The funding policy.
    #[error(transparent)]
    Policy(#[from] PolicyFileError),
    /// The keeper's user.
    #[error("the keeper: {}", with_causes(.0))]
    KeeperUser(#[from] sandbox::UserError),
    /// The socket.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The front.
    #[error(transparent)]
    Front(#[from] NoFront),
    /// Only root manages a whole machine.
    #[error("only root can share a whole machine; `allotd --user` shares among your own processes")]
    NotRoot,
    /// The enforcer.
    #[error(
        "cpu tickets cannot be enforced: {}; `--enforcer none` keeps the ledger only",
        with_causes(.0)
    )]
    Enforcer(#[from] EnforcementError),
    /// The enforcing process ended without being told to; a guardian gave everything back.
    #[error("the enforcing process has ended; what it had changed is given back")]
    Enforcing,
    /// The thread that keeps the ledger panicked; everything was given back.
    #[error("allotd ends for a mistake of its own, reported above")]
    Keeper,
    /// The machine.
    #[error("the system refused to {what}: {cause}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The system's reason.
        cause: io::Error,
    },
}

/// Whether log lines are read on a terminal: codes of colours in a file or the journal hide the words.
fn shows_colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Logs to standard error: what `$ALLOT_LOG` asks for, as in `debug` or `info,allotd=trace`; else `info`.
pub fn log_to_stderr() {
    let asked = std::env::var("ALLOT_LOG").ok().and_then(|text| text.parse().ok());
    let levels = asked.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(shows_colours())
        .with_target(false)
        // It would say so on stderr, and panic where that is what cannot be written.
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(levels)).init();
}

/// Run until told to end by SIGTERM or SIGINT.
///
/// # Errors
/// When it cannot start.
pub fn run(options: Options, enforcers: &[Registration]) -> Result<(), StartError> {
    log_to_stderr();
    let uid = rustix::process::geteuid().as_raw();
    if !options.user && uid != 0 {
        return Err(StartError::NotRoot);
    }
    let system = |what| move |cause: io::Error| StartError::System { what, cause };
    if options.with_parent {
        let signal = rustix::process::Signal::TERM;
        rustix::process::set_parent_process_death_signal(Some(signal))
            .map_err(|errno| system("watch its parent")(errno.into()))?;
    }
    raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("make an event loop"))?;
    runtime.block_on(serve_until_told(options, uid, enforcers))
}

async fn serve_until_told(
    options: Options,
    uid: u32,
    enforcers: &[Registration],
) -> Result<(), StartError> {
    let told = Told::new()?;
    let (places, walls) = Places::prepare(&options)?;
    let policy = match options.user {
        true => None,
        false => {
            Some(FundingPolicy::read(&options.funding_policy, options.memory_to_promise_kib())?)
        }
    };
    let persons = persons::of_this_machine();
    // The steps that take rights come first. Another allotd that listens at the socket is a clear reason to end, and its
    // registry is left alone.
    let gate = Gate::open(&places.socket, options.user.then_some(uid), persons.clone())?;
    let life = observe::watch_best();
    let (mut enforcement, enforcing, surveyed) = begin_enforcing(&options, &places, &policy)?;
    let findings = Findings::of(surveyed);
    let walls = walls.build()?;
    // The journal's lock makes sure that this is the only allotd on that state, before anything else is touched.
    let mut state = State::open(&places.state_dir, uid, options.recover)?;
    state.ledger.set_persons(persons.clone());
    enforcement.start()?;
    tell_without_effect(&policy, &mut enforcement);
    let walls = walls.into_iter().chain(enforcement.walls().iter().cloned());
    let findings = Arc::new(findings.with_walls(walls));
    let kinds = resource_kinds(enforcers);
    let parts = Parts {
        uid,
        places,
        policy,
        persons,
        state,
        life,
        findings,
        enforcement,
        enforcing,
        kinds,
    };
    parts.start(&options)?.serve(gate, told).await
}

/// Where it keeps what is durable, and where it listens.
struct Places {
    state_dir: PathBuf,
    socket: PathBuf,
}

impl Places {
    /// Makes the directories, unless they are there, and plans who is to work in them.
    fn prepare(options: &Options) -> Result<(Places, KeeperWalls), StartError> {
        let state_dir =
            options.state_dir.clone().unwrap_or_else(|| default_state_dir(options.user));
        let default_socket =
            if options.user { wire::private_socket() } else { wire::default_socket() };
        let socket = options.socket.clone().unwrap_or(default_socket);
        let walls = KeeperWalls::plan(options, &state_dir, &socket)?;
        private_dir(&state_dir, 0o700, walls.uid())?;
        if let Some(parent) = socket.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            private_dir(parent, if options.user { 0o700 } else { 0o755 }, None)?;
        }
        Ok((Places { state_dir, socket }, walls))
    }

    /// Beside the socket, where nothing survives a reboot. Each socket has its own.
    fn registry(&self) -> PathBuf {
        let mut registry = self.socket.clone().into_os_string();
        registry.push(".held");
        PathBuf::from(registry)
    }
}

/// Starts the enforcing process, with all rights that we have, and tells it whom it may touch.
fn begin_enforcing(
    options: &Options,
    places: &Places,
    policy: &Option<FundingPolicy>,
) -> Result<(Enforcement, EnforcingProcess, Surveyed), StartError> {
    let program =
        std::env::current_exe().map_err(system("find its own program, to start the guardian"))?;
    let seed = options.seed.unwrap_or_else(a_seed);
    let settings = options.settings(program.clone(), places.registry(), seed);
    let shares_others = options.others == OthersName::Auto;
    // A private allotd touches what it is given, as far as the kernel lets its user.
    let reach = policy.as_ref().map_or_else(Reach::everybody, |policy| policy.reach().clone());
    let (choice, socket) = (options.choice(), Some(places.socket.clone()));
    Ok(Enforcement::begin(&program, Task { settings, choice, shares_others, reach, socket })?)
}

/// Says which parts of the policy have no effect with the users and the enforcers that there are.
fn tell_without_effect(policy: &Option<FundingPolicy>, enforcement: &mut Enforcement) {
    for resource in policy.iter().flat_map(FundingPolicy::resources) {
        let why = why_missing(&resource).or_else(|| enforcement.without_effect(&resource));
        if let Some(why) = why {
            tracing::warn!("what the funding policy says of {resource} has no effect: {why}");
        }
    }
    for why in policy.iter().flat_map(FundingPolicy::strangers) {
        tracing::warn!("the funding policy: {why}");
    }
}

/// The parts of allotd, before its threads run.
struct Parts {
    uid: u32,
    places: Places,
    policy: Option<FundingPolicy>,
    persons: Persons,
    state: State,
    life: Result<(Box<dyn LifeSource>, String), LifeError>,
    findings: Arc<Findings>,
    enforcement: Enforcement,
    enforcing: EnforcingProcess,
    kinds: ResourceKinds,
}

impl Parts {
    /// Starts the threads that keep, answer and watch.
    fn start(self, options: &Options) -> Result<Running, StartError> {
        let Parts { uid, places, policy, persons, state, life, .. } = self;
        let (findings, enforcement, enforcing) = (self.findings, self.enforcement, self.enforcing);
        let kinds = self.kinds;
        let State { journal, ledger, sequence, watched_until_ticks } = state;
        // Watched since before the first look at the processes, so that none is missed.
        let (lives, life_source) = match life {
            Ok((source, why)) => (Some(Arc::new(Lives::new(source))), why),
            Err(error) => (None, format!("none: {error}")),
        };
        let served = Meter::default();
        let requests = Arc::new(FairQueue::new(served.clone()));
        let reads = Arc::new(FairQueue::new(served.clone()));
        let acknowledged = Arc::new(AtomicU64::new(sequence));
        let (events, _) = broadcast::channel(4096);
        let (end, ending) = watch::channel(false);
        let audit_dir = Audit::directory(&places.state_dir);
        let reader = Reader {
            queue: Arc::clone(&reads),
            keeper: Arc::clone(&requests),
            policy: policy.clone(),
            kinds: kinds.clone(),
            hides_processes: observe::hides_processes(),
        };
        let keeper = Keeper {
            ledger,
            audit: Audit::open(audit_dir.clone(), &journal),
            elder: options.user.then(|| Elder::watch(options.machine_socket.clone())),
            journal,
            policy,
            enforcement,
            kinds,
            status: first_status(uid, options.user, &places.state_dir, sequence, life_source),
            events: events.clone(),
            memory_kib: options.memory_to_promise_kib(),
            lives: lives.clone(),
            watched_until_ticks,
            acknowledged: Arc::clone(&acknowledged),
            served: served.clone(),
        };
        let keeping = spawn("allot-keeper", {
            let end = end.clone();
            let requests = Arc::clone(&requests);
            move || {
                // However the keeper ends, so does allotd.
                let _ends = OnDrop(|| {
                    requests.close();
                    let _ = end.send(true);
                });
                keeper.run(&requests);
            }
        })?;
        own_processes::tell_enforcing(enforcing.pid());
        let is_abandoned = Arc::new(AtomicBool::new(false));
        spawn("allot-watch", {
            let (requests, is_abandoned) = (Arc::clone(&requests), Arc::clone(&is_abandoned));
            move || {
                if let Some(how) = enforcing.wait() {
                    tracing::error!("the enforcing process has ended: {how}");
                    is_abandoned.store(true, Ordering::SeqCst);
                    let _ = requests.push_urgent(Request::Stop);
                }
            }
        })?;
        spawn("allot-reader", move || reader.run())?;
        if let Some(lives) = lives {
            let (requests, ending) = (requests.clone(), ending.clone());
            spawn("allot-life", move || lives.watch(&requests, &ending))?;
        }
        tracing::info!("listening at {}", places.socket.display());
        let shared = Shared {
            keeper: requests,
            reader: reads,
            served,
            acknowledged,
            persons: Arc::new(persons),
            hides_processes: observe::hides_processes(),
            ruler: uid,
            unread: front::Tally::default(),
            events,
            doctor: findings,
            ending,
            audit_dir,
            audit_readers: Default::default(),
        };
        Ok(Running { keeping, is_abandoned, end, shared })
    }
}

/// The status of allotd before the keeper has looked at anything.
fn first_status(
    uid: u32,
    private: bool,
    state_dir: &Path,
    sequence: u64,
    life_source: String,
) -> Status {
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        uid,
        private,
        state_dir: state_dir.display().to_string(),
        sequence,
        currencies: 0,
        tickets: 0,
        clients: 0,
        life_source,
        cpu: wire::EnforcerView::default(),
        others: Vec::new(),
    }
}

/// allotd, its threads running.
struct Running {
    keeping: JoinHandle<()>,
    /// Whether the enforcing process ended without being told to.
    is_abandoned: Arc<AtomicBool>,
    /// Says that everything ends.
    end: watch::Sender<bool>,
    shared: Shared,
}

impl Running {
    /// Answers at the gate until a signal or the keeper's end; then ends the threads, the keeper in order.
    async fn serve(self, gate: Gate, told: Told) -> Result<(), StartError> {
        let Running { keeping, is_abandoned, end, shared } = self;
        let (requests, reads) = (Arc::clone(&shared.keeper), Arc::clone(&shared.reader));
        let mut serving = std::pin::pin!(serve(gate, shared));
        let mut ended = end.subscribe();
        let served = tokio::select! {
            served = &mut serving => Some(served),
            () = told.received() => None,
            _ = ended.wait_for(|ended| *ended) => None,
        };
        tracing::info!("ending");
        let _ = requests.push_urgent(Request::Stop);
        let _ = reads.push_urgent(Look { read: Read::Stop, since: 0 });
        let kept = tokio::task::spawn_blocking(move || keeping.join()).await;
        let _ = end.send(true);
        if served.is_none() {
            // Answers that are on their way are finished; a reader that takes nothing is not
            // waited for.
            let _ = tokio::time::timeout(Duration::from_secs(2), serving).await;
        }
        if !matches!(kept, Ok(Ok(()))) {
            return Err(StartError::Keeper);
        }
        if is_abandoned.load(Ordering::SeqCst) {
            return Err(StartError::Enforcing);
        }
        match served {
            Some(served) => Ok(served?),
            None => Ok(()),
        }
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |cause| StartError::System { what, cause }
}

/// The signals that end allotd.
struct Told([Signal; 3]);

impl Told {
    fn new() -> Result<Told, StartError> {
        Ok(Told([
            signal(SignalKind::terminate()).map_err(system("catch SIGTERM"))?,
            signal(SignalKind::interrupt()).map_err(system("catch SIGINT"))?,
            signal(SignalKind::hangup()).map_err(system("catch SIGHUP"))?,
        ]))
    }

    /// Waits for one of them.
    async fn received(self) {
        let Told([mut terminated, mut interrupted, mut hung_up]) = self;
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            _ = hung_up.recv() => {}
        }
    }
}

/// The state as the journal tells it.
struct State {
    journal: Journal,
    ledger: Ledger,
    sequence: u64,
    /// Up to when processes were watched, in clock ticks since boot.
    watched_until_ticks: u64,
}

impl State {
    /// Opens it; damaged, with what can be read of it if that is asked for. Clients of another boot are forgotten.
    fn open(state_dir: &Path, uid: u32, recover: bool) -> Result<State, StartError> {
        let boot = observe::machine().boot_id.clone().unwrap_or_default();
        let gid = rustix::process::getegid().as_raw();
        if recover {
            let report = Journal::recover(state_dir)?;
            tracing::warn!(
                "what was there is at {}; the ledger is as of entry {}; {} acknowledged operations are lost",
                report.moved_to.display(),
                report.sequence.unwrap_or(0),
                report.lost,
            );
        }
        let (mut journal, recovered) = Journal::open(state_dir, &boot, uid, gid)?;
        let sequence = recovered.sequence;
        tracing::info!("journal at {sequence}, {} entries replayed", recovered.replayed);
        let mut ledger = recovered.ledger;
        if !recovered.same_boot {
            forget_clients(&mut ledger, &mut journal)?;
        }
        let watched_until_ticks = match journal.entries(sequence.saturating_sub(1), 1) {
            Ok(last) if recovered.same_boot => last.first().map_or(0, |it| ticks_at(it.at_unix_ms)),
            _ => ticks_since_boot(),
        };
        Ok(State { journal, ledger, sequence, watched_until_ticks })
    }
}

/// Runs something when it goes out of scope, by panic too.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A seed from the kernel's random numbers.
fn a_seed() -> u64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => u64::from(std::process::id()),
    }
}

fn spawn(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|cause| StartError::System { what: "start a thread", cause })
}

/// After a reboot nobody lives who was named by a number of the last boot.
fn forget_clients(ledger: &mut ledger::Ledger, journal: &mut Journal) -> Result<(), StartError> {
    let members = ledger.clients().chain(ledger.joined()).map(|(member, _)| member);
    let gone: BTreeSet<_> = members.filter(|member| !member.outlives_boot()).collect();
    let mut batch = journal.begin()?;
    for member in gone {
        // A process takes with it what its threads had.
        if ledger.client_of_member(&member).is_none() {
            continue;
        }
        let intent = ledger::Intent::from(ledger::operation::Exit { member });
        let authority = ledger::Authority::System;
        let authorised = ledger::decide(ledger, authority.clone(), intent.clone())
            .expect("the system may say that a client is gone");
        let changes = ledger.apply(authorised);
        batch.append(unix_ms(), &authority, &intent, &changes)?;
    }
    batch.commit()?;
    Ok(())
}

/// A moment of this boot in ticks since boot, rounded down.
fn ticks_at(at_unix_ms: u64) -> u64 {
    let ago_ms = unix_ms().saturating_sub(at_unix_ms);
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    ticks_since_boot().saturating_sub(ago_ms * ticks_per_second / 1000 + 1)
}

fn default_state_dir(user: bool) -> PathBuf {
    if !user {
        return PathBuf::from("/var/lib/allot");
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match (set("XDG_STATE_HOME"), set("HOME")) {
        (Some(dir), _) => Path::new(&dir).join("allot"),
        (None, Some(home)) => Path::new(&home).join(".local/state/allot"),
        (None, None) => {
            PathBuf::from(format!("/tmp/allot-{}/state", rustix::process::getuid().as_raw()))
        }
    }
}

/// Every client costs a few file descriptors.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const WANTED: u64 = 1 << 20;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.unwrap_or(WANTED);
    // Root may raise the maximum too; others may not, and get what there is.
    let raised = Rlimit { current: Some(WANTED), maximum: Some(WANTED.max(most)) };
    let within = Rlimit { current: Some(WANTED.min(most)), maximum };
    if current.is_some_and(|current| current < WANTED)
        && setrlimit(Resource::Nofile, raised).is_err()
        && let Err(errno) = setrlimit(Resource::Nofile, within)
    {
        tracing::warn!("cannot raise the limit of open files: {errno}");
    }
}

/// Make a directory that is ours, or the keeper's. One that somebody else owns could be changed under us.
fn private_dir(path: &Path, mode: u32, keeper: Option<u32>) -> Result<(), StartError> {
    let directory = |cause| StartError::Directory { path: path.to_owned(), cause };
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(directory)?;
    let found = std::fs::metadata(path).map_err(directory)?;
    let uid = rustix::process::geteuid().as_raw();
    let sticky = found.mode() & 0o1000 != 0;
    // In /tmp anybody may have put a link there, and may turn it elsewhere at any time.
    let named = std::fs::symlink_metadata(path).map_err(directory)?;
    // The keeper's user has it since an earlier start.
    if keeper.is_some_and(|keeper| named.is_dir() && named.uid() == keeper) {
        return Ok(());
    }
    if named.uid() != uid && named.uid() != 0 {
        return Err(StartError::NotOurs { path: path.to_owned(), owner: named.uid() });
    }
    if found.uid() != uid && !(found.uid() == 0 && (uid == 0 || sticky || mode == 0o755)) {
        return Err(StartError::NotOurs { path: path.to_owned(), owner: found.uid() });
    }
    Ok(())
}
