//! Whether clients of the scheduler in the kernel get what they are promised: on random funding
//! graphs of depth one to five, some with threads that sleep and wake, beside the kernel's own
//! scheduler with `cpu.weight`.
//!
//! `kernel_shares POLICY GRAPHS SECONDS SEED`, as root, on a kernel that has sched_ext
//! (`scripts/bench-kernel` runs it in the lab). One line of JSON for each graph:
//!
//! - `all burn`: every client burns. Promised is what `valuation` and `policy::feasible` make of
//!   the graph alone. The kernel's own scheduler follows, with a control group for each client,
//!   weighted by the same values (as whole numbers from 1 to 10 000).
//! - `some sleep`: two thirds sleep and wake at random. Promised is what their tickets were due
//!   while they competed, which the scheduler counts (its values are compared with `valuation` bit
//!   for bit by another test). With other demands come other promises, so the kernel's own has no
//!   counterpart.
//!
//! `error` is the worst client's |used - promised| / promised; `error_beyond_quantum` leaves out one
//! quantum, within which nobody can be right; `deviations` is the worst in standard deviations of a
//! lottery, sqrt(quantum · used · (1 - share)). Under MTR-LS sleepers keep their places in the list, and what
//! they leave goes to whoever stands first: a share is the least that a client gets, and where some
//! sleep only what it lacks is an error.

#[path = "../tests/common/funds.rs"]
mod funds;

use enforce_scx::{Scx, ScxOptions, loader_main};
use enforcer::{CpuSample, Enforcer};
use funds::Funds;
use ledger::{CurrencyId, TicketKind};
use policy::keyed::lottery::mixed;
use policy::{ONE_SEAT, PolicyName, feasible};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

const CGROUPS: &str = "/sys/fs/cgroup";
const SETTLE: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // The loader is this program again.
    if arguments.first().is_some_and(|word| word == "helper") {
        loader_main();
        return;
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["work", seed] => work(number(seed)),
        [policy, graphs, seconds, seed] => {
            let policy = match *policy {
                "stride" => PolicyName::Stride,
                "lottery" => PolicyName::Lottery,
                "mtr-ls" => PolicyName::MtrLs,
                other => usage(&format!("'{other}' is no policy")),
            };
            measure(policy, number(graphs), Duration::from_secs(number(seconds)), number(seed));
        }
        _ => usage("four arguments are needed"),
    }
}

fn usage(why: &str) -> ! {
    eprintln!(
        "kernel_shares: {why}; usage: kernel_shares stride|lottery|mtr-ls GRAPHS SECONDS SEED"
    );
    process::exit(2);
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| usage(&format!("'{text}' is not a number")))
}

/// splitmix64 (Steele, Lea & Flood 2014).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % below
    }
}

/// What a client does: burns; or, with a seed, burns for up to 6 ms and sleeps for up to 6 ms, by
/// turns.
fn work(seed: u64) -> ! {
    if seed == 0 {
        loop {
            std::hint::spin_loop();
        }
    }
    let mut dice = Dice(seed);
    loop {
        let until = cpu_time() + Duration::from_micros(200 + dice.throw(6_000));
        while cpu_time() < until {}
        thread::sleep(Duration::from_micros(100 + dice.throw(6_000)));
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A process that burns or sleeps; killed when dropped.
struct Worker(Child);

impl Worker {
    fn new(seed: u64) -> Worker {
        let me = env::current_exe().expect("this program");
        let child = Command::new(me).args(["work", &seed.to_string()]).stdin(Stdio::null()).spawn();
        Worker(child.expect("it starts"))
    }

    /// CPU time, by the kernel's own count.
    fn used_ns(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.0.id()));
        let text = text.expect("it lives");
        text.split(' ').next().expect("three numbers").parse().expect("a number")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Currencies in layers beneath base, each funded by one or two of the layer above, now and then
/// with hard tickets; clients funded by any of the last two layers.
fn random_graph(dice: &mut Dice, workers: &[Worker]) -> (Funds, Vec<CurrencyId>, u64) {
    let mut funds = Funds::new();
    let depth = 1 + dice.throw(5);
    let mut above: Vec<CurrencyId> = Vec::new();
    let mut pool: Vec<CurrencyId> = Vec::new();
    for layer in 0..depth {
        let mut here = Vec::new();
        for index in 0..2 + dice.throw(2) {
            let name = format!("layer{layer}-{index}");
            let amount = 100 * (1 + dice.throw(4));
            let currency = match above.is_empty() {
                true => funds.currency(&name, amount),
                false => {
                    let currency = funds.unfunded(&name);
                    let first = above[dice.throw(above.len() as u64) as usize];
                    let second = above[dice.throw(above.len() as u64) as usize];
                    funds.fund_with(currency, first, TicketKind::Soft, amount);
                    if second != first {
                        let hard = index == 0 && dice.throw(2) == 0;
                        let (kind, amount) = match hard {
                            true => (TicketKind::Hard, 100 + 100 * dice.throw(3)),
                            false => (TicketKind::Soft, 100 * (1 + dice.throw(4))),
                        };
                        funds.fund_with(currency, second, kind, amount);
                    }
                    currency
                }
            };
            here.push(currency);
        }
        pool = above.iter().chain(&here).copied().collect();
        above = here;
    }
    let clients = workers
        .iter()
        .map(|worker| {
            let issuer = pool[dice.throw(pool.len() as u64) as usize];
            let client = funds.client(issuer, 100 * (1 + dice.throw(3)), worker.0.id());
            let other = pool[dice.throw(pool.len() as u64) as usize];
            if other != issuer && dice.throw(3) == 0 {
                funds.fund(client, other, 100 * (1 + dice.throw(3)));
            }
            client
        })
        .collect();
    (funds, clients, depth)
}

/// How far what was used is from what was promised, at worst.
fn errors(promised: &[f64], used: &[f64], quantum_ns: u64, at_least: bool) -> serde_json::Value {
    let all: f64 = used.iter().sum();
    let (mut error, mut beyond, mut deviations) = (0_f64, 0_f64, 0_f64);
    for (promised, used) in promised.iter().zip(used) {
        let off = if at_least { (promised - used).max(0.0) } else { (used - promised).abs() };
        error = error.max(off / promised);
        beyond = beyond.max((off - quantum_ns as f64).max(0.0) / promised);
        let variance = quantum_ns as f64 * promised * (1.0 - promised / all);
        deviations = deviations.max(off / variance.max(1.0).sqrt());
    }
    let percent = |part: f64| (part * 1e4).round() / 1e2;
    serde_json::json!({
        "error_percent": percent(error),
        "error_beyond_quantum_percent": percent(beyond),
        "deviations": (deviations * 100.0).round() / 100.0,
    })
}

fn measure(policy: PolicyName, graphs: u64, window: Duration, seed: u64) {
    let options = ScxOptions { policy, ..ScxOptions::default() };
    let quantum_ns = options.quantum_ns;
    let mut scx = Scx::start(options).expect("it loads");
    let seats = thread::available_parallelism().expect("CPUs").get();
    let mut generation = 0;
    for graph in 0..graphs {
        for sleepers in [false, true] {
            let mut dice = Dice(seed.wrapping_mul(1000).wrapping_add(graph));
            let clients = 4 + dice.throw(9);
            let workers: Vec<Worker> = (0..clients)
                .map(|index| match sleepers && index % 3 != 0 {
                    true => Worker::new(1 + dice.throw(1 << 40)),
                    false => Worker::new(0),
                })
                .collect();
            let mut dice = Dice(!seed.wrapping_mul(1000).wrapping_add(graph));
            let (mut funds, ids, depth) = random_graph(&mut dice, &workers);
            // This program itself is not to wait long for its turn.
            let own = funds.currency("own", 1000);
            funds.client(own, 1000, process::id());
            generation += 1;
            let mut plan = funds.plan(generation);
            let values: Vec<(u64, u64)> = {
                for id in &ids {
                    plan.cpu_mut().set_active(*id, true);
                }
                ids.iter().map(|id| (id.0, plan.cpu_mut().value(*id))).collect()
            };
            scx.apply(&funds.plan(generation).into()).expect("it goes on");
            scx.status().expect("it goes on");
            thread::sleep(SETTLE);
            let before = scx.sample().expect("it goes on").cpu.expect("of the CPU");
            let began = Instant::now();
            thread::sleep(window);
            let after = scx.sample().expect("it goes on").cpu.expect("of the CPU");
            let took = began.elapsed();
            let of = |sample: &CpuSample, id: CurrencyId| {
                let client = sample.clients.iter().find(|client| client.id == id);
                let client = client.expect("it is in the plan");
                (client.used_ns as f64, client.promised_ns as f64)
            };
            let used = ids.iter().map(|id| of(&after, *id).0 - of(&before, *id).0);
            let used: Vec<f64> = used.collect();
            let all: f64 = used.iter().sum();
            let static_promise: Vec<f64> = {
                let seats_of = feasible::promised(&values, seats);
                let parts = ids.iter().map(|id| {
                    let seat = seats_of.iter().find(|(key, _)| *key == id.0);
                    seat.map_or(0.0, |(_, seat)| *seat as f64 / ONE_SEAT as f64)
                });
                let parts: Vec<f64> = parts.collect();
                let sum: f64 = parts.iter().sum();
                parts.into_iter().map(|part| part / sum * all).collect()
            };
            let due: Vec<f64> =
                ids.iter().map(|id| of(&after, *id).1 - of(&before, *id).1).collect();
            let promised = if sleepers { &due } else { &static_promise };
            let at_least = sleepers && policy == PolicyName::MtrLs;
            let mut line = serde_json::json!({
                "policy": policy.to_string(),
                "cpus": seats,
                "graph": graph,
                "depth": depth,
                "clients": clients,
                "what": if sleepers { "some sleep" } else { "all burn" },
                "least_share_percent":
                    (promised.iter().fold(all, |least, one| least.min(*one)) / all * 1e4).round() / 1e2,
                "busy_percent": (all / took.as_nanos() as f64 / seats as f64 * 100.0).round(),
                "allot": errors(promised, &used, quantum_ns, at_least),
            });
            if !sleepers {
                // Its own scheduler again, for as long.
                scx.revert().expect("it goes on");
                line["default"] = match by_weight(&workers, &values, window) {
                    Ok(used) => {
                        let sum: f64 = used.iter().sum();
                        let promised: Vec<f64> =
                            static_promise.iter().map(|part| part / all * sum).collect();
                        errors(&promised, &used, quantum_ns, false)
                    }
                    Err(error) => serde_json::json!(format!("not measured: {error}")),
                };
            }
            if env::var_os("ALLOT_DETAILS").is_some() {
                for (index, id) in ids.iter().enumerate() {
                    let ms = |ns: f64| (ns / 1e6).round();
                    let (promised, due, used) = (static_promise[index], due[index], used[index]);
                    let what = (ms(promised), ms(due), ms(used));
                    eprintln!("{id}: if all burn, due, used (ms): {what:?}");
                }
            }
            println!("{line}");
        }
    }
}

/// What the kernel's own scheduler gives, in ns, with a weighted control group for each.
fn by_weight(
    workers: &[Worker],
    values: &[(u64, u64)],
    window: Duration,
) -> std::io::Result<Vec<f64>> {
    let top = PathBuf::from(CGROUPS);
    fs::write(top.join("cgroup.subtree_control"), "+cpu")?;
    let greatest = values.iter().map(|(_, value)| *value).max().unwrap_or(1);
    let groups: Vec<PathBuf> =
        (0..workers.len()).map(|index| top.join(format!("allot-shares-{index}"))).collect();
    let measured = (|| {
        for ((worker, (_, value)), group) in workers.iter().zip(values).zip(&groups) {
            fs::create_dir_all(group)?;
            let weight = (*value as u128 * 10_000 / greatest as u128).max(1);
            fs::write(group.join("cpu.weight"), weight.to_string())?;
            fs::write(group.join("cgroup.procs"), worker.0.id().to_string())?;
        }
        thread::sleep(SETTLE);
        let before: Vec<u64> = workers.iter().map(Worker::used_ns).collect();
        thread::sleep(window);
        let after = workers.iter().map(Worker::used_ns);
        Ok(after.zip(before).map(|(after, before)| (after - before) as f64).collect())
    })();
    for (worker, group) in workers.iter().zip(&groups) {
        let _ = fs::write(top.join("cgroup.procs"), worker.0.id().to_string());
        let _ = fs::remove_dir(group);
    }
    measured
}
