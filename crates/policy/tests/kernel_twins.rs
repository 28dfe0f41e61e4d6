//! The keyed policies and the kernel's headers, compiled here by a C compiler, give the same
//! numbers for the same calls. (That the compiled scheduler does is tested in the kernel itself.)

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use allot_policy::PolicyName;
use allot_policy::keyed::{Client, Settings, WHOLE, build, lottery::mixed};

const STEPS: u64 = 100_000;
const CLIENTS: u64 = 16;

struct Step {
    operation: u64,
    client: u64,
    argument: u64,
    value: u64,
    owed_ns: i64,
    left_at_ns: u64,
    waiting: u64,
}

/// Random numbers of every magnitude, and mostly what a scheduler would see.
fn random_step(dice: &mut impl FnMut() -> u64) -> Step {
    let operation = dice() % 5;
    let argument = match operation {
        1 => (dice() % 2_000) >> (dice() % 11),
        _ => (dice() >> 30) >> (dice() % 34),
    };
    let owed_ns = ((dice() >> 20) >> (dice() % 44)) as i64;
    Step {
        operation,
        client: dice() % CLIENTS,
        argument,
        value: (dice() % (WHOLE + 1)) >> (dice() % 49),
        owed_ns: if dice().is_multiple_of(2) { owed_ns } else { -owed_ns },
        left_at_ns: (dice() >> 30) >> (dice() % 34),
        waiting: (dice() % 100_000) >> (dice() % 17),
    }
}

/// What both write down after a step.
fn line(answer: u64, client: &Client, service: u64) -> String {
    format!(
        "{answer} {} {} {} {} {} {} {service}",
        client.due_ns,
        client.charged_ns,
        client.draws,
        client.left,
        client.position,
        client.next_place
    )
}

fn twins_agree(name: PolicyName, number: u32, seed: u64, program: &Path) {
    let mut draws = 0u64;
    let mut dice = || {
        draws += 1;
        mixed(mixed(seed) ^ draws)
    };
    let settings = Settings {
        cpus: 1 + (dice() % 8) as u32,
        quantum_ns: 500_000 + dice() % 100_000_000,
        round_ns: 1_000_000 + dice() % 1_000_000_000,
        seed,
    };
    // Some runs begin where virtual time wraps around.
    let mut service = if seed.is_multiple_of(2) { 0 } else { 0u64.wrapping_sub(dice() >> 24) };
    let mut policy = build(name, settings);
    let mut clients: Vec<_> = (0..CLIENTS).map(|id| Client::new(id, 0)).collect();
    let Settings { cpus, quantum_ns, round_ns, .. } = settings;
    let mut input = format!("{number} {cpus} {quantum_ns} {round_ns} {seed} {service}\n");
    let mut expected = Vec::new();
    for _ in 0..STEPS {
        let Step { operation, client: id, argument, value, owed_ns, left_at_ns, waiting } =
            random_step(&mut dice);
        let client = &mut clients[id as usize];
        client.set_value(value);
        client.due_ns = client.charged_ns.wrapping_add_signed(-owed_ns);
        client.left_at_ns = left_at_ns;
        writeln!(
            input,
            "{operation} {id} {argument} {value} {} {left_at_ns} {waiting}",
            client.due_ns
        )
        .expect("strings can be written to");
        let answer = match operation {
            0 => {
                policy.join(client, service);
                client.position
            }
            1 => {
                let answer = policy.key(client, argument, waiting, service);
                service = service.wrapping_add(answer.lost_ns);
                answer.key
            }
            2 => {
                let drawn = policy.draw(client);
                let cost_ns = policy.charge(client, argument, drawn, service);
                service = service.wrapping_add(cost_ns);
                cost_ns
            }
            3 => policy.slice(client, argument),
            _ => u64::from(policy.is_settled(client, argument)),
        };
        expected.push(line(answer, client, service));
    }
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("what was compiled runs");
    let mut stdin = child.stdin.take().expect("it was asked for");
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("it does not panic").expect("all is read");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut lines = text.lines();
    for (step, expected) in expected.iter().enumerate() {
        assert_eq!(lines.next(), Some(expected.as_str()), "{name}, seed {seed}, step {step}");
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn the_kernels_headers_give_the_same_numbers() {
    let test = "the_kernels_headers_give_the_same_numbers";
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("SKIP {test}: there is no C compiler (cc)");
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-twin");
    let compiled = Command::new("cc")
        .args(["-O1", "-w", "-fsanitize=undefined", "-fno-sanitize-recover"])
        .arg("-I")
        .arg(here.join("../../bpf"))
        .arg(here.join("tests/support/twin.c"))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.is_ok_and(|status| status.success()), "cc compiles the headers");
    let policies = [(PolicyName::Lottery, 0), (PolicyName::Stride, 1), (PolicyName::MtrLs, 2)];
    for (name, number) in policies {
        for seed in 0..4 {
            twins_agree(name, number, seed, &program);
        }
    }
}
