//! Loads besides arithmetic: processes that spawn, read, write, list, compile and use memory.

use crate::orders::Work;
use crate::page::{Note, Notes};
use crate::workload::{Begin, Workplace, monotonic_ns};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than the caches of most CPUs hold.
const STREAM_BYTES: usize = 64 << 20;
/// Taken and given back in turn: more than the allocator keeps.
const CHURN_BYTES: usize = 8 << 20;
const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) fn prepare(work: &Work) -> io::Result<Begin> {
    Ok(match work.clone() {
        Work::Spawn(words) => Box::new(move |place| spawn(&words, place)),
        Work::ReadLines(path) => Box::new(move |place| read_lines(&path, place)),
        Work::List { tree, to } => Box::new(move |place| {
            while !place.over() {
                let mut to = BufWriter::new(File::create(&to)?);
                list(&tree, &mut to, place)?;
                to.flush()?;
            }
            Ok(())
        }),
        Work::Memory => {
            let stream = vec![1_u64; STREAM_BYTES / size_of::<u64>()];
            Box::new(move |place| {
                memory(stream, place);
                Ok(())
            })
        }
        Work::Read { file, mib } => {
            let chunk = vec![1_u8; CHUNK_BYTES];
            let mut made = File::create(&file)?;
            (0..mib).try_for_each(|_| made.write_all(&chunk))?;
            Box::new(move |place| read(&file, place))
        }
        Work::Write { file, mib } => Box::new(move |place| write(&file, mib, place)),
        Work::Compile { source, object } => Box::new(move |place| {
            while !place.over() {
                let mut command = crate::sources::compiler(&source, &object);
                run(&mut command)?;
                place.count();
            }
            Ok(())
        }),
        Work::Build { dir, notes } => {
            let notes = Notes::open(&notes)?;
            Box::new(move |place| build(&dir, &notes, place))
        }
        other => unreachable!("prepared elsewhere: {other:?}"),
    })
}

/// Runs a program to its end, without output.
fn run(command: &mut Command) -> io::Result<()> {
    let status =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{command:?} ended with {status}"))),
    }
}

/// `while true; do cat /proc/interrupts > /dev/null; done` (paper 3, 5.5.4).
fn spawn(words: &[String], place: &Workplace) -> io::Result<()> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    while !place.over() {
        run(Command::new(program).args(arguments))?;
        place.count();
    }
    Ok(())
}

/// The same without a process: the shell's `read` (paper 3, 5.5.5).
fn read_lines(path: &Path, place: &Workplace) -> io::Result<()> {
    let mut line = Vec::new();
    while !place.over() {
        // A shell reads a byte at a time, since what follows may be for another program.
        let mut file = BufReader::with_capacity(64, File::open(path)?);
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break;
            }
        }
        place.count();
    }
    Ok(())
}

/// `ls -lR`: names and their attributes.
fn list(dir: &Path, to: &mut dyn Write, place: &Workplace) -> io::Result<()> {
    // What goes away meanwhile, or is closed to us, is left out, as ls does with an error.
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        let Ok(facts) = entry.metadata() else { continue };
        writeln!(to, "{:?} {} {:?}", facts.permissions(), facts.len(), entry.path())?;
        place.count();
        if place.over() {
            break;
        }
        if facts.is_dir() {
            list(&entry.path(), to, place)?;
        }
    }
    Ok(())
}

fn memory(mut stream: Vec<u64>, place: &Workplace) {
    while !place.over() {
        for word in &mut stream {
            *word = word.wrapping_add(1);
        }
        std::hint::black_box(&mut stream);
        for _ in 0..4 {
            let mut churn = vec![0_u8; CHURN_BYTES];
            churn.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
            std::hint::black_box(churn);
        }
        place.count();
    }
}

fn read(path: &Path, place: &Workplace) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    while !place.over() {
        match file.read(&mut chunk)? {
            0 => file.rewind()?,
            _ => place.count(),
        }
    }
    Ok(())
}

fn write(path: &Path, mib: u64, place: &Workplace) -> io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![1_u8; CHUNK_BYTES];
    while !place.over() {
        file.rewind()?;
        for _ in 0..mib {
            file.write_all(&chunk)?;
            place.count();
        }
        file.sync_all()?;
    }
    Ok(())
}

/// Builds once, and notes when and how long.
fn build(dir: &Path, notes: &Notes, place: &Workplace) -> io::Result<()> {
    let mut make = Command::new("make");
    make.arg("--silent").arg("--directory").arg(dir);
    // SAFETY: prctl alone between fork and exec, which is safe there; it takes no memory.
    unsafe {
        make.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let at_ns = place.start_ns;
    run(&mut make)?;
    notes.add(Note { at_ns, took_ns: monotonic_ns() - at_ns, more: 0 });
    crate::workload::sleep_until(place.last_ns);
    Ok(())
}
