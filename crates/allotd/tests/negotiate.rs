//! `allot negotiate` against a real allotd, for real processes.
//!
//! Who is traded for waits for the CPU beside another process that is bound to the same one, on any
//! machine and under any load, and never for disks. It is in a cgroup of its own, whose pressure says so.

mod common;

use common::{Daemon, SOMEBODY, Worker, allot, may_switch_users, wait_for};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::{Amount, Client, Good, OfferPoint, OfferView, Operation, TicketKind, TraderView};

fn good(resource: &str) -> Good {
    Good { resource: resource.to_owned(), kind: TicketKind::Soft }
}

fn fund(currency: &str, from: &str, resource: &str, amount: u64) -> Operation {
    let amount = Amount { resource: resource.to_owned(), kind: TicketKind::Soft, amount };
    Operation::Fund { currency: currency.into(), from: from.into(), amount }
}

fn create(name: &str) -> Operation {
    Operation::CreateCurrency { name: name.to_owned(), owner: None, group: None, mode: None }
}

/// A cgroup of its own with a process that is always ready, beside one on the same CPU.
struct Pressed {
    worker: Worker,
    _beside: Worker,
    folder: PathBuf,
}

impl Pressed {
    /// `None`, and a line that says so, where this machine cannot run the test.
    fn here(test: &str) -> Option<Pressed> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(place))
        });
        let Some(mount) = mount else {
            eprintln!("SKIP {test}: no cgroup v2");
            return None;
        };
        let folder = mount.join(format!("allot-negotiate-{}-{test}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&folder) {
            eprintln!("SKIP {test}: {}: {error}", folder.display());
            return None;
        }
        let bound = || Worker::shell("exec taskset -c 0 sh -c 'while :; do :; done'", 0);
        let pressed = Pressed { worker: bound(), _beside: bound(), folder };
        let pid = pressed.worker.pid().to_string();
        std::fs::write(pressed.folder.join("cgroup.procs"), pid).expect("it is moved");
        if std::fs::read_to_string(pressed.folder.join("cpu.pressure")).is_err() {
            eprintln!("SKIP {test}: cgroups have no pressure files");
            return None;
        }
        Some(pressed)
    }

    fn client(&self) -> String {
        format!("pid:{}", self.worker.pid())
    }

    /// It and a currency of the same rights, each with 1000 tickets of two goods.
    fn funded(&self, client: &Client) {
        let pid = Some(self.worker.pid());
        let adopt = Operation::Adopt { pid, start_time_ticks: None, from: None, funding: None };
        client.operate(adopt).expect("adopted");
        client.operate(create("other")).expect("made");
        for (name, resource) in
            [(self.client().as_str(), "disk:sda"), ("other", "disk:sda"), ("other", "cpu")]
        {
            client.operate(fund(name, "base", resource, 1000)).expect("funded");
        }
    }

    fn view(&self, client: &Client) -> TraderView {
        client.traders(&[&self.client()]).expect("an answer").traders.remove(0)
    }

    /// Its first offer, once it has one.
    fn offer(&self, client: &Client) -> OfferView {
        let mut offer = None;
        wait_for("an offer", || {
            offer = self.view(client).offers.into_iter().next();
            offer.is_some()
        });
        offer.expect("it was waited for")
    }
}

impl Drop for Pressed {
    fn drop(&mut self) {
        let _ = self.worker.0.kill();
        let _ = self.worker.0.wait();
        // What has ended leaves a moment later.
        let until = Instant::now() + Duration::from_secs(10);
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A negotiator that runs; its lines.
struct Negotiator {
    child: Child,
    output: PathBuf,
}

impl Negotiator {
    fn start(daemon: &Daemon, arguments: &[&str]) -> Negotiator {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("negotiator-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let output = daemon.dir.path().join(name);
        let file = std::fs::File::create(&output).expect("a file");
        let child = command(daemon, arguments)
            .stdout(file.try_clone().expect("a file"))
            .stderr(file)
            .spawn()
            .expect("allot runs");
        Negotiator { child, output }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }

    #[track_caller]
    fn wait_for(&self, what: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.said().contains(what) {
            assert!(Instant::now() < until, "it did not say `{what}`:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGTERM; answers its exit status.
    fn stop(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("a signal");
        wait_for("the negotiator to end", || self.child.try_wait().expect("a child").is_some());
        self.child.wait().expect("it ended").code()
    }

    fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it is dead");
    }
}

impl Drop for Negotiator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(daemon: &Daemon, arguments: &[&str]) -> Command {
    let mut command = Command::new(allot());
    command.args(["--socket".as_ref(), daemon.socket().as_os_str()]);
    command.arg("negotiate").args(arguments).env("XDG_RUNTIME_DIR", daemon.dir.path());
    command.stdin(Stdio::null());
    command
}

/// Counts in a file, so many thousands a second as `rate` says.
struct Counter {
    rate: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Counter {
    fn start(path: &Path) -> Counter {
        let (rate, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
        let (own_rate, own_stop, path) = (rate.clone(), stop.clone(), path.to_owned());
        let write = move |path: &Path, count: f64| {
            let next = path.with_extension("next");
            std::fs::write(&next, format!("{count:.0}\n")).expect("written");
            std::fs::rename(next, path).expect("renamed");
        };
        write(&path, 0.0);
        let thread = std::thread::spawn(move || {
            let (mut count, mut last) = (0.0, Instant::now());
            while !own_stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
                count +=
                    last.elapsed().as_secs_f64() * 1e3 * own_rate.load(Ordering::Relaxed) as f64;
                last = Instant::now();
                write(&path, count);
            }
        });
        Counter { rate, stop, thread: Some(thread) }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Somebody who wants disk tickets, in small parts and at any price that a negotiator may ask.
fn partner() -> Operation {
    Operation::Offer {
        party: Some("other".into()),
        gives: good("cpu"),
        wants: good("disk:sda"),
        points: vec![OfferPoint { give: 100, want: 50 }],
        partial: true,
        least: 0,
        most: Some(400),
        until_s: None,
        lease: None,
    }
}

fn held(view: &TraderView, resource: &str) -> u64 {
    view.holdings.iter().find(|it| it.good == good(resource)).expect("it has some").held
}

#[test]
fn it_offers_what_is_not_waited_for_keeps_what_helps_and_leaves_in_order() {
    let Some(pressed) = Pressed::here("keeps") else { return };
    let mut daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    pressed.funded(&client);
    let path = daemon.dir.path().join("count");
    let counter = Counter::start(&path);
    let progress = format!("file:{}", path.display());
    let arguments =
        ["--for", &pressed.client(), "--progress", &progress, "--window", "200ms", "-v"];
    let mut negotiator = Negotiator::start(&daemon, &arguments);
    let offer = pressed.offer(&client);
    assert_eq!((offer.gives, offer.wants), (good("disk:sda"), good("cpu")));
    assert_eq!(
        offer.points.last().map(|point| point.give),
        Some(93),
        "a tenth of the 937 that it can give"
    );
    assert!(offer.lease.is_some());
    // allotd is gone, and comes back: it goes on.
    daemon.kill();
    negotiator.wait_for("it is tried again");
    daemon.launch();
    negotiator.wait_for("allotd answers again");
    let client = daemon.client();
    client.operate(partner()).expect("offered");
    wait_for("an exchange", || !pressed.view(&client).exchanges.is_empty());
    counter.rate.store(3, Ordering::Relaxed);
    let view = pressed.view(&client);
    let (gave, got) = (1000 - held(&view, "disk:sda"), held(&view, "cpu") - 1000);
    assert!(gave > 0 && got > 0 && gave <= 150 && got <= 150, "{gave} for {got}");
    negotiator.wait_for("on trial");
    negotiator.wait_for("kept: +");
    wait_for("another offer", || !pressed.view(&client).offers.is_empty());
    let exchange = view.exchanges[0].id;
    assert_eq!(negotiator.stop(), Some(0));
    let view = pressed.view(&client);
    assert_eq!(view.offers, [], "withdrawn");
    assert!(view.exchanges.iter().any(|it| it.id == exchange), "what helped stays, on its lease");
    assert_eq!(view.exchanges[0].leases.len(), 1);
    let said = negotiator.said();
    assert!(said.contains("offered 93 disk:sda for") && said.contains("each"), "{said}");
    // The next one takes it over, and leaves it for good.
    let mut next = Negotiator::start(&daemon, &[&arguments[..], &["--keep"]].concat());
    next.wait_for(&format!("took over exchange {exchange}"));
    let second = command(&daemon, &arguments).output().expect("allot runs");
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        second.status.code() == Some(1) && said.contains("another of your negotiators"),
        "{said}"
    );
    assert_eq!(next.stop(), Some(0));
    let view = pressed.view(&client);
    let kept = view.exchanges.iter().find(|it| it.id == exchange).expect("it stays");
    assert_eq!((kept.until_s, &kept.leases[..]), (None, &[][..]));
}

#[test]
fn what_a_killed_negotiator_leaves_lapses() {
    let Some(pressed) = Pressed::here("lapses") else { return };
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    pressed.funded(&client);
    let path = daemon.dir.path().join("count");
    let _counter = Counter::start(&path);
    let progress = format!("file:{}", path.display());
    let arguments = [
        "--for",
        &pressed.client(),
        "--progress",
        &progress,
        "--window",
        "200ms",
        "--lease",
        "15s",
    ];
    let mut negotiator = Negotiator::start(&daemon, &arguments);
    wait_for("an offer", || !pressed.view(&client).offers.is_empty());
    negotiator.kill();
    wait_for("the end of its offers", || pressed.view(&client).offers.is_empty());
    client.operate(partner()).expect("offered");
    let mut negotiator = Negotiator::start(&daemon, &arguments);
    wait_for("an exchange", || !pressed.view(&client).exchanges.is_empty());
    negotiator.kill();
    wait_for("the end of its exchange", || pressed.view(&client).exchanges.is_empty());
    let view = pressed.view(&client);
    assert_eq!((held(&view, "disk:sda"), held(&view, "cpu")), (1000, 1000));
}

#[test]
fn what_does_not_help_is_taken_back() {
    let Some(pressed) = Pressed::here("back") else { return };
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    pressed.funded(&client);
    let path = daemon.dir.path().join("count");
    let counter = Counter::start(&path);
    counter.rate.store(3, Ordering::Relaxed);
    client.operate(partner()).expect("offered");
    let progress = format!("file:{}", path.display());
    let arguments = ["--for", &pressed.client(), "--progress", &progress, "--window", "200ms"];
    let negotiator = Negotiator::start(&daemon, &[&arguments[..], &["--json"]].concat());
    wait_for("an exchange", || !pressed.view(&client).exchanges.is_empty());
    counter.rate.store(1, Ordering::Relaxed);
    negotiator.wait_for(r#""what":"taken_back""#);
    wait_for("its end", || pressed.view(&client).exchanges.is_empty());
    let lines = negotiator.said();
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["what"] == "exchanged" && line["gave"].is_u64()));
}

#[test]
fn a_policy_takes_clients_as_they_come_and_go() {
    let Some(pressed) = Pressed::here("policy") else { return };
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let file = daemon.dir.path().join("negotiate.toml");
    let policy = "[[group]]\nmatch = { names = [\"other\"], of = \"currencies\" }\n\
                  [[group]]\nmatch = { names = [\"sh\", \"setpriv\", \"taskset\"] }\n\
                  window = \"200ms\"\nmost_part = 0.03\n";
    std::fs::write(&file, policy).expect("written");
    let path = file.display().to_string();
    let mut negotiator = Negotiator::start(&daemon, &["--policy", &path]);
    std::thread::sleep(Duration::from_millis(300));
    pressed.funded(&client);
    let offer = pressed.offer(&client);
    let give = offer.points.last().map(|point| point.give);
    assert_eq!(give, Some(2), "a tenth of 3 % of the 937 that it can give");
    negotiator.wait_for("other #");
    client
        .operate(Operation::Release { client: pressed.client().as_str().into() })
        .expect("released");
    negotiator.wait_for("it is gone");
    assert_eq!(negotiator.stop(), Some(0));
}

#[test]
fn a_command_is_traded_for_and_its_status_is_told() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    // It lives until the negotiator has seen it.
    let log = daemon.dir.path().join("log");
    let script = "echo one; until grep -q negotiating LOG; do sleep 0.1; done; echo two; exit 7";
    let script = script.replace("LOG", &log.display().to_string());
    let arguments = ["--progress", "lines", "--window", "200ms", "--", "sh", "-c", &script];
    let mut run = command(&daemon, &arguments);
    run.stderr(std::fs::File::create(&log).expect("a file"));
    let output = run.output().expect("allot runs");
    let said = std::fs::read_to_string(&log).expect("it is there");
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\ntwo\n");
    assert!(said.contains("negotiating"), "{said}");
}

#[test]
fn it_has_a_hundredth_of_its_clients_tickets() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    let worker = Worker::idle(0);
    client.operate_all(vec![create("build"), fund("build", "base", "cpu", 500)]).expect("made");
    let funding = Amount { resource: "cpu".to_owned(), kind: TicketKind::Soft, amount: 700 };
    let adopt = Operation::Adopt {
        pid: Some(worker.pid()),
        start_time_ticks: None,
        from: Some("build".into()),
        funding: Some(vec![funding]),
    };
    client.operate(adopt).expect("adopted");
    let negotiator = Negotiator::start(&daemon, &["--for", &format!("pid:{}", worker.pid())]);
    let own = format!("pid:{}", negotiator.child.id());
    wait_for("its tickets", || client.traders(&[&own]).is_ok());
    let view = client.traders(&[&own]).expect("an answer").traders.remove(0);
    let tickets: Vec<u64> = view.cpu_tickets.iter().map(|ticket| ticket.amount).collect();
    assert_eq!(tickets, [7]);
}

#[test]
fn what_cannot_be_is_refused() {
    let daemon = Daemon::private(&["--enforcer", "none"]);
    let client = daemon.client();
    client.operate_all(vec![create("build"), fund("build", "base", "cpu", 500)]).expect("made");
    let bad = daemon.dir.path().join("bad.toml");
    std::fs::write(&bad, "[[group]]\nmatch = {}\nwindov = \"5s\"\n").expect("written");
    let bad = bad.display().to_string();
    for (arguments, status, what) in [
        (&["--for", "nobody"][..], 1, "nobody"),
        (&["--for", "#99"], 1, "#99"),
        (&[], 2, "--for"),
        (&["--for", "build", "--progress", "lines"], 2, "COMMAND"),
        (&["--for", "build", "--progress", "ftp:x"], 2, "ftp:x"),
        (&["--for", "build", "--window", "1ms"], 2, "window"),
        (&["--for", "build", "--most-part", "2"], 2, "most_part"),
        (&["--policy", &bad], 2, "line 3"),
        (&["--policy", "/no/such"], 2, "/no/such"),
        (&["--policy", &bad, "--for", "build"], 2, "--for"),
        (&["--for", "build", "--", "/no/such"], 127, "/no/such"),
    ] {
        let output = command(&daemon, arguments).output().expect("allot runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(what), "{arguments:?}: {said}");
    }
}

#[test]
fn nobody_trades_for_others() {
    if !may_switch_users("nobody_trades_for_others") {
        return;
    }
    let daemon = Daemon::start(&["--enforcer", "none"]);
    let client = daemon.client();
    client.operate_all(vec![create("build"), fund("build", "base", "cpu", 500)]).expect("made");
    let own = daemon.dir.path().join("own");
    std::fs::create_dir(&own).expect("a directory");
    std::os::unix::fs::chown(&own, Some(SOMEBODY), Some(SOMEBODY)).expect("a mode");
    let as_somebody = || {
        let mut command = command(&daemon, &["--for", "build", "--window", "200ms"]);
        command.uid(SOMEBODY).gid(SOMEBODY).current_dir("/").env("XDG_RUNTIME_DIR", &own);
        command
    };
    let output = as_somebody().output().expect("allot runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("no right `c`"), "{said}");
    let to = format!("uid:{SOMEBODY}");
    let rights = "-c-".to_owned();
    client.operate(Operation::Grant { currency: "build".into(), to, rights }).expect("granted");
    let mut allowed = as_somebody().stdout(Stdio::piped()).spawn().expect("allot runs");
    let mut lines = BufReader::new(allowed.stdout.take().expect("piped")).lines();
    // A right on the client is none on whoever funds it: it has no tickets of its own, and says so.
    let first = lines.next().expect("it speaks").expect("a line");
    let second = lines.next().expect("it speaks").expect("a line");
    let _ = allowed.kill();
    let _ = allowed.wait();
    assert!(
        first.contains("no tickets of its own") && second.contains("negotiating"),
        "{first}, {second}"
    );
}
