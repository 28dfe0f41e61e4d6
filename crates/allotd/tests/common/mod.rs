//! An allotd of a test's own, and real processes for it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wire::{Client, CurrencyView, LedgerView};

/// An unprivileged user of the tests; nobody's processes else.
pub const SOMEBODY: u32 = 64_001;
/// Another.
pub const SOMEBODY_ELSE: u32 = 64_002;

/// The end of a policy that leaves everybody alone but the users whom it names.
pub const NO_SERVICES: &str = "\n[system]\nmanaged = false\n[containers]\nmanaged = false\n";

/// The same, but root may give tickets by hand to processes of services, its own and those of the tests' users.
pub const BY_HAND: &str =
    "\n[system]\nmanaged = false\nby_hand = true\n[containers]\nmanaged = false\n";

/// Two users of the calling test's own, for what counts a user's processes: other tests run beside.
pub fn two_users() -> (u32, u32) {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let first = 100_000 + std::process::id() % 50_000 * 20 + TAKEN.fetch_add(2, Ordering::Relaxed);
    (first, first + 1)
}

/// A running allotd. Killed when dropped; its guardian then restores what it held.
pub struct Daemon {
    child: Option<Child>,
    pub dir: TempDir,
    options: Vec<String>,
    log: PathBuf,
    program: PathBuf,
    has_precedence: bool,
}

impl Daemon {
    /// A private one that shares among what it is given.
    pub fn private(options: &[&str]) -> Daemon {
        Daemon::start(&[&["--user"], options].concat())
    }

    /// One with these options; state and socket in a directory of its own.
    pub fn start(options: &[&str]) -> Daemon {
        let mut daemon = Daemon::prepare(options);
        daemon.launch();
        daemon
    }

    /// Not yet started.
    pub fn prepare(options: &[&str]) -> Daemon {
        let dir = tempfile::Builder::new().prefix("allotd-test-").tempdir().expect("a directory");
        // Other users of the tests reach the socket through it.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("a mode");
        let log = dir.path().join("log");
        let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        // A test shares out its own processes, not the machine that it runs on.
        if !["--user", "--enforcer"].iter().any(|own| options.iter().any(|one| one == own)) {
            options.extend(["--enforcer", "user-level"].map(str::to_owned));
        }
        let program = PathBuf::from(env!("CARGO_BIN_EXE_allotd"));
        Daemon { child: None, dir, options, log, program, has_precedence: false }
    }

    /// With more options, before it is launched.
    pub fn with(mut self, options: &[&str]) -> Daemon {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// Before the processes that it manages, as its unit has it (`CPUSchedulingPolicy=rr`), before it is launched.
    pub fn with_precedence(mut self) -> Daemon {
        self.has_precedence = true;
        self
    }

    /// By another program, before it is launched: an example of this package.
    pub fn example(mut self, name: &str) -> Daemon {
        self.program = self.example_program(name);
        self
    }

    /// An example of this package.
    pub fn example_program(&self, name: &str) -> PathBuf {
        let test = std::env::current_exe().expect("this program");
        let build = test.parent().and_then(Path::parent).expect("a build directory");
        build.join("examples").join(name)
    }

    /// By allotd itself again, before it is launched anew on the same state.
    pub fn become_allotd(&mut self) {
        self.program = PathBuf::from(env!("CARGO_BIN_EXE_allotd"));
    }

    pub fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }

    pub fn command(&self) -> Command {
        let mut command = match self.has_precedence {
            true => {
                let mut command = Command::new("chrt");
                command.args(["--rr", "1"]).arg(&self.program);
                command
            }
            false => Command::new(&self.program),
        };
        command
            .args(&self.options)
            .args(["--with-parent".as_ref(), "--state-dir".as_ref(), self.state_dir().as_os_str()])
            .args(["--socket".as_ref(), self.socket().as_os_str()])
            .stdin(Stdio::null());
        command
    }

    /// Start it and wait until it answers.
    pub fn launch(&mut self) {
        assert!(self.try_launch(), "allotd did not start:\n{}", self.log());
    }

    /// Start it; false if it ended instead of answering.
    pub fn try_launch(&mut self) -> bool {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.expect("a log");
        let mut child = self.command().stdout(Stdio::null()).stderr(log).spawn().expect("allotd");
        let until = Instant::now() + Duration::from_secs(60);
        let client = Client::new(self.socket());
        while Instant::now() < until {
            if child.try_wait().expect("a child").is_some() {
                return false;
            }
            if UnixStream::connect(self.socket()).is_ok()
                && client.status().is_ok_and(|status| status.pid == child.id())
            {
                self.child = Some(child);
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        panic!("allotd does not answer:\n{}", self.log());
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn client(&self) -> Client {
        Client::new(self.socket())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("it is dead");
    }

    /// Wait until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it ran");
        wait_for("allotd to end", || child.try_wait().expect("a child").is_some());
        child.wait().expect("it ended")
    }

    /// SIGTERM, and wait.
    pub fn stop(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal");
        wait_for("allotd to end", || child.try_wait().expect("a child").is_some());
        child.wait().expect("it ended")
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().expect("a child").is_none())
    }

    /// A raw request, for what the client library would not send. Answers status and body.
    pub fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(self.socket()).expect("allotd listens");
        // What is refused for its size may be cut off.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.unwrap_or(0), body.to_owned())
    }

    pub fn post(&self, body: &str) -> (u16, String) {
        self.raw(&format!(
            "POST /v1/operations HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        self.raw(&format!("GET {path} HTTP/1.1\r\nhost: allotd\r\nconnection: close\r\n\r\n"))
    }

    /// The command line, as this user.
    pub fn allot(&self, arguments: &[&str], uid: u32) -> Output {
        let mut command = Command::new(allot());
        command.args(["--socket".as_ref(), self.socket().as_os_str()]).args(arguments);
        if uid != 0 {
            command.uid(uid).gid(uid);
        }
        command.current_dir("/").output().expect("allot runs")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- allotd's log:\n{}", self.log());
        }
    }
}

/// The command line's program, which stands beside allotd.
pub fn allot() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_allotd")).with_file_name("allot");
    assert!(path.exists(), "{} is not built: cargo build --workspace", path.display());
    path
}

/// A real process that ends with its test.
pub struct Worker(pub Child);

impl Worker {
    /// Burns CPU time.
    pub fn busy() -> Worker {
        Worker::shell("while :; do :; done", 0)
    }

    /// Sleeps, as this user: one process. A shell that waits for its child would be two, and the
    /// second be placed, and take its part, at any later time.
    pub fn idle(uid: u32) -> Worker {
        Worker::shell("exec sleep 1000", uid)
    }

    /// Runs a shell script, as this user.
    pub fn shell(script: &str, uid: u32) -> Worker {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "sh", "-c", script]);
        if uid != 0 {
            command.uid(uid).gid(uid);
        }
        let quiet = || Stdio::null();
        let child = command.stdin(quiet()).stdout(quiet()).stderr(quiet()).current_dir("/");
        // A group of its own, so that what it starts can be ended with it.
        Worker(child.process_group(0).spawn().expect("a worker"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.0.id() as i32);
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

/// The processes that a process has made.
pub fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = |task: std::fs::DirEntry| {
        std::fs::read_to_string(task.path().join("children")).unwrap_or_default()
    };
    let text: String = tasks.map(read).collect();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn child_named(parent: u32, name: &str) -> u32 {
    let is_it = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it.trim() == name)
    };
    children_of(parent).into_iter().find(is_it).unwrap_or_else(|| panic!("{parent} has no {name}"))
}

/// The enforcing process of an allotd.
pub fn enforcing_process(allotd: u32) -> u32 {
    child_named(allotd, "allot-enforce")
}

/// The front of an allotd; `None` while there is none that has given up its rights.
pub fn front(allotd: u32) -> Option<u32> {
    let is_front = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.starts_with("Name:\tallot-front\n") && status.contains("Seccomp:\t2")
    };
    children_of(allotd).into_iter().find(is_front)
}

/// The guardian of an allotd.
pub fn guardian(allotd: u32) -> u32 {
    child_named(enforcing_process(allotd), "allot-guardian")
}

/// The state letter of a process, `R`, `S`, `T`, …
pub fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next()).unwrap_or('?')
}

/// The scheduling policy of a process: 0 is SCHED_OTHER, 5 is SCHED_IDLE.
pub fn scheduling_of(pid: u32) -> i32 {
    // SAFETY: reads the policy of a process by its number; no memory is involved.
    unsafe { libc::sched_getscheduler(pid as i32) }
}

/// Poll until something holds; a minute is for ever.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether tests may switch users; says so when not.
pub fn may_switch_users(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("SKIP {test}: needs root, to act as other users");
    }
    root
}

/// The client of a process.
pub fn client_of(ledger: &LedgerView, pid: u32) -> Option<&CurrencyView> {
    ledger
        .currencies
        .iter()
        .find(|currency| currency.process.as_ref().is_some_and(|process| process.pid == pid))
}

/// Issuers and amounts of the tickets that a currency holds.
pub fn backing(ledger: &LedgerView, id: u64) -> Vec<(u64, u64)> {
    let held = ledger.tickets.iter().filter(|ticket| ticket.holder == id);
    held.map(|ticket| (ticket.issuer, ticket.amount)).collect()
}

/// Runs something as another user: the credentials of one thread are its own.
pub fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let switched = || {
        let id = libc::c_long::from(uid);
        // SAFETY: changes the credentials of this thread, which ends with `act`.
        let failed = unsafe {
            libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>())
                | libc::syscall(libc::SYS_setresgid, id, id, id)
                | libc::syscall(libc::SYS_setresuid, id, id, id)
        };
        assert_eq!(failed, 0, "root may become uid {uid}");
        act()
    };
    std::thread::scope(|scope| scope.spawn(switched).join().expect("it does not panic"))
}

/// The 50th and 99th of a hundred and the greatest, in ms.
pub fn percentiles(mut times: Vec<Duration>) -> (f64, f64, f64) {
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    (at(0.5), at(0.99), at(1.0))
}
