//! The users of an attack: honest ones and what they are to get, hostile ones and their tricks.

use crate::common::{Daemon, Worker, as_user, client_of, scheduling_of, state_of, two_users};
use crate::machine;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::Operation;

/// Everything in `examples/hostile`, each played by every hostile user.
const TRICKS: [&str; 18] = [
    "hog",
    "continue",
    "answer-stops",
    "trace",
    "terminal",
    "chain",
    "forks",
    "sleepers",
    "escape",
    "gone",
    "batches",
    "traders",
    "unread",
    "slow-heads",
    "modes",
    "names",
    "gifts",
    "garbage",
];

const HOSTILE: u32 = 4;

/// Users who want all of the CPU: the honest hogs', and the hostile ones.
pub const COMPETING: u32 = 1 + HOSTILE;

/// The longest that a newcomer may wait for its place before something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many processes a user may have, as distributions and administrators limit them.
const PROCESSES_MAX: u32 = 300;

/// The users of one attack, nobody's else.
pub struct Users {
    first: u32,
    /// The directory in the hierarchy that counts CPU time, one below for each.
    accounts: Option<PathBuf>,
}

impl Users {
    pub fn of_this_test() -> Users {
        // Ten pairs, one after the other.
        let (first, _) = two_users();
        for _ in 1..5 {
            two_users();
        }
        let accounts = PathBuf::from(format!("/sys/fs/cgroup/cpuacct/hostile-suite-{first}"));
        let made = std::fs::create_dir(&accounts).is_ok();
        let users = Users { first, accounts: made.then_some(accounts) };
        for uid in users.first..=users.last() {
            if let Some(account) = users.account(uid) {
                std::fs::create_dir(account).expect("an account");
            }
            users.end_with_this_test(uid);
        }
        users
    }

    fn last(&self) -> u32 {
        self.first + 3 + HOSTILE - 1
    }

    fn hogs(&self) -> u32 {
        self.first
    }

    fn waker(&self) -> u32 {
        self.first + 1
    }

    fn newcomer(&self) -> u32 {
        self.first + 2
    }

    fn hostile(&self) -> impl Iterator<Item = u32> {
        self.first + 3..=self.last()
    }

    pub fn are_hostile(&self, uid: u32) -> bool {
        self.hostile().any(|one| one == uid)
    }

    pub fn named(&self) -> String {
        format!("{}-{}", self.first, self.last())
    }

    fn account(&self, uid: u32) -> Option<PathBuf> {
        self.accounts.as_ref().map(|accounts| accounts.join(uid.to_string()))
    }

    /// A program that runs as a user, counted for that user, in a session of its own.
    fn spawn(
        &self,
        uid: u32,
        program: &Path,
        arguments: &[&str],
        how: impl FnOnce(&mut Command),
    ) -> Child {
        let mut command = Command::new("sh");
        // Enters the account, then becomes the user, then the program.
        let enter = "[ -z \"$1\" ] || echo 0 > \"$1/cgroup.procs\"; shift; exec \"$@\"";
        let account = self.account(uid).unwrap_or_default();
        command.args(["-c", enter, "sh"]).arg(account);
        // Each in a session of its own, as those who log in are: the shell leads no group yet, so nothing is forked.
        command.args(["setsid", "prlimit", &format!("--nproc={PROCESSES_MAX}")]);
        command.args(as_uid(uid)).args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        how(&mut command);
        command.spawn().expect("a program")
    }

    /// Sees that no process of a user outlives this test, however that ends.
    fn end_with_this_test(&self, uid: u32) {
        // One process, which forks nothing: what allotd has opened is counted.
        let watch = format!("tail --pid={} -f /dev/null; kill -9 -1", std::process::id());
        let mut command = Command::new("setsid");
        command.args(as_uid(uid)).args(["sh", "-c", &watch]).stdin(Stdio::null());
        let watches = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        drop(watches.expect("a watch"));
    }

    /// CPU time of each user so far, of those that have ended too; nothing where it is not counted.
    pub fn cpu_times(&self) -> BTreeMap<u32, u64> {
        let used = |uid: u32| {
            let text = std::fs::read_to_string(self.account(uid)?.join("cpuacct.usage")).ok()?;
            Some((uid, text.trim().parse().ok()?))
        };
        (self.first..=self.last()).filter_map(used).collect()
    }

    /// The honest hogs' part of all that was used since `before`.
    pub fn share_of_honest_hogs(&self, before: &BTreeMap<u32, u64>) -> Option<f64> {
        let now = self.cpu_times();
        let used = |uid: &u32| now[uid].saturating_sub(before[uid]) as f64;
        let all: f64 = before.keys().map(used).sum();
        before.contains_key(&self.hogs()).then(|| used(&self.hogs()) / all)
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        let all: BTreeSet<u32> = (self.first..=self.last()).collect();
        end_all_of(&all);
        let accounts = all.iter().filter_map(|uid| self.account(*uid));
        for account in accounts.chain(self.accounts.clone()) {
            // Whoever has ended is in it until somebody has waited for it.
            let until = Instant::now() + PATIENCE;
            while std::fs::remove_dir(&account).is_err() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// What runs a program as a user.
fn as_uid(uid: u32) -> [String; 6] {
    let id = uid.to_string();
    let words = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"];
    words.map(str::to_owned)
}

/// Ends every process of some users. The kernel sends this signal to all at once, so that no fork escapes it.
fn end_all_of(uids: &BTreeSet<u32>) {
    let until = Instant::now() + PATIENCE;
    loop {
        for uid in uids {
            let [program, arguments @ ..] = as_uid(*uid);
            let mut command = Command::new(program);
            command.args(arguments).args(["sh", "-c", "kill -9 -1"]).stderr(Stdio::null());
            let _ = command.status();
        }
        let left = machine::processes_of(uids);
        if !left.iter().any(|pid| machine::is_alive(*pid)) || Instant::now() > until {
            return;
        }
    }
}

/// Honest users: hogs, one who wakes, one who asks, and newcomers.
pub struct Honest {
    hogs: Vec<Child>,
    waker: Child,
    asks: u32,
    newcomer: u32,
}

impl Honest {
    pub fn start(daemon: &Daemon, users: &Users) -> Honest {
        let shell = Path::new("sh");
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = ["-c", "while :; do :; done"];
        let hogs: Vec<Child> =
            (0..cpus).map(|_| users.spawn(users.hogs(), shell, &busy, |_| {})).collect();
        let wakes = ["-e", "while (1) { $i = 0 for 1..9999; select undef, undef, undef, 0.02 }"];
        let waker = users.spawn(users.waker(), Path::new("perl"), &wakes, |_| {});
        let own = as_user(users.hogs(), || daemon.client().operate(create("own")).map(drop));
        own.expect("a currency of one's own");
        Honest { hogs, waker, asks: users.hogs(), newcomer: users.newcomer() }
    }

    pub fn a_hog(&self) -> u32 {
        self.hogs[0].id()
    }

    pub fn are_clients(&self, daemon: &Daemon) -> bool {
        let ledger = daemon.client().ledger().expect("alive");
        self.hogs.iter().chain([&self.waker]).all(|it| client_of(&ledger, it.id()).is_some())
    }

    /// Whether the enforcer has taken up every one: what it opens for each is open then.
    pub fn are_measured(&self, daemon: &Daemon) -> bool {
        let clients = daemon.client().sample().expect("alive").clients;
        let is_measured = |pid| clients.iter().any(|it| it.pid == pid && it.used_ns > 0);
        self.hogs.iter().chain([&self.waker]).all(|it| is_measured(it.id()))
    }

    /// How long each of an honest user's requests takes; none fails.
    pub fn ask(&self, daemon: &Daemon, count: usize) -> Vec<Duration> {
        as_user(self.asks, || {
            let client = wire::Client::answered_within(daemon.socket(), PATIENCE);
            let modes = ["fci--i---", "fci------"].iter().cycle().take(count);
            let ask = |mode: &&str| {
                let began = Instant::now();
                let mode = (*mode).to_owned();
                let change = Operation::ChangeMode { currency: "own".into(), mode };
                client.operate(change).expect("an honest request is served");
                began.elapsed()
            };
            modes.map(ask).collect()
        })
    }

    /// How long a new process waits until it has its place. Root looks, as often as it takes: a user who asked so often
    /// would have to rest.
    pub fn newcomer(&self, daemon: &Daemon) -> Duration {
        let worker = Worker::idle(self.newcomer);
        let began = Instant::now();
        let who = format!("pid:{}", worker.pid());
        let client = wire::Client::answered_within(daemon.socket(), PATIENCE);
        while client.traders(&[&who]).is_err() {
            assert!(began.elapsed() < PATIENCE, "a newcomer waits for a minute");
            std::thread::sleep(Duration::from_millis(1));
        }
        began.elapsed()
    }

    /// What was made is there, and belongs to whom it belonged.
    pub fn still_have_all(&self, daemon: &Daemon) {
        let ledger = daemon.client().ledger().expect("alive");
        let own = ledger.currencies.iter().find(|it| it.name == "own" && it.owner == self.asks);
        assert!(own.is_some(), "an honest user's currency is there");
        let home = ledger.currencies.iter().find(|it| {
            it.owner == self.asks && it.kind == wire::CurrencyKind::Pure && it.name != "own"
        });
        let home = home.expect("the policy's currency");
        let backing = crate::common::backing(&ledger, home.id);
        assert_eq!(backing, [(0, 1000)], "with what the policy gave it");
    }

    /// Nobody is held or moved, now that allotd is gone.
    pub fn are_as_they_were(&self) {
        for hog in self.hogs.iter().map(Child::id) {
            assert_eq!((state_of(hog), scheduling_of(hog)), ('R', 0), "{hog}");
            assert_eq!(machine::stat_of(hog)[16], "0", "its nice value");
            assert_eq!(cgroups_of(hog), cgroups_of(std::process::id()), "{hog}");
        }
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        for child in self.hogs.iter_mut().chain([&mut self.waker]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

/// Where a process is, but for the hierarchy that counts for the test.
fn cgroups_of(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().filter(|line| !line.contains(":cpuacct:")).map(str::to_owned).collect()
}

/// Hostile users, each of whom plays every trick.
pub struct Hostile {
    uids: BTreeSet<u32>,
    players: Vec<Child>,
}

impl Hostile {
    pub fn start(daemon: &Daemon, users: &Users) -> Hostile {
        let program = daemon.example_program("hostile");
        let built = "`cargo build --examples -p allotd`, with --release for a test with that";
        assert!(program.is_file(), "{} is not there: {built}", program.display());
        let socket = daemon.socket();
        let socket = socket.to_str().expect("a path");
        let uids: BTreeSet<u32> = users.hostile().collect();
        let mut players = Vec::new();
        for uid in &uids {
            for trick in TRICKS {
                let player = users.spawn(*uid, &program, &[socket, trick], |command| {
                    command.stdout(Stdio::piped());
                    command.env("ALLOT_HOSTILE_OWN", format!("{uid}:"));
                    command.env("ALLOT_HOSTILE_VICTIM", format!("{}:", users.hogs()));
                });
                players.push(player);
            }
        }
        Hostile { uids, players }
    }

    /// Whether every program has become the user's, and none has ended.
    pub fn all_play(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let plays = |player: &Child| {
            let dir = std::fs::metadata(format!("/proc/{}", player.id()));
            dir.is_ok_and(|dir| self.uids.contains(&dir.uid()))
        };
        self.players.iter().all(plays)
    }

    /// The tricks that are not played any more, though only a chain's first program ends by itself.
    fn given_up(&self) -> Vec<&'static str> {
        let tricks = TRICKS.iter().cycle().zip(&self.players);
        let ended = tricks.filter(|(trick, it)| **trick != "chain" && !machine::is_alive(it.id()));
        ended.map(|(trick, _)| *trick).collect()
    }

    /// Ends them all, and answers what they got that they should not have.
    pub fn end(mut self) -> Vec<String> {
        let given_up = self.given_up();
        assert!(given_up.is_empty(), "played to the end: {given_up:?}");
        end_all_of(&self.uids);
        let mut got = Vec::new();
        for player in &mut self.players {
            let _ = player.wait();
            let said = BufReader::new(player.stdout.take().expect("piped"));
            got.extend(said.lines().map_while(Result::ok));
        }
        got
    }
}
