//! Loads besides arithmetic: processes that spawn, read, write, list, compile and use memory.

use crate::workloads::c_project;
use crate::workloads::clock::{monotonic_ns, sleep_until};
use crate::workloads::notes::{Note, Notes};
use crate::workloads::work::{PreparedWork, WorkContext};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Bytes streamed over: more than the caches of most CPUs hold.
const STREAM_BYTES: usize = 64 << 20;
/// Bytes taken and returned in turn: more than the allocator keeps.
const CHURN_BYTES: usize = 8 << 20;
const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;

/// Prepares to run a short program over and over.
pub(crate) fn prepare_spawn(words: Vec<String>) -> PreparedWork {
    Box::new(move |context| spawn(&words, context))
}

/// Prepares to read a file line by line over and over.
pub(crate) fn prepare_read_lines(path: PathBuf) -> PreparedWork {
    Box::new(move |context| read_lines(&path, context))
}

/// Prepares to list a directory tree into a file over and over.
pub(crate) fn prepare_list(tree: PathBuf, to: PathBuf) -> PreparedWork {
    Box::new(move |context| {
        while !context.over() {
            let mut to = BufWriter::new(File::create(&to)?);
            list(&tree, &mut to, context)?;
            to.flush()?;
        }
        Ok(())
    })
}

/// Prepares to stream over memory, and to take and return memory.
pub(crate) fn prepare_memory() -> PreparedWork {
    let stream = vec![1_u64; STREAM_BYTES / size_of::<u64>()];
    Box::new(move |context| {
        memory(stream, context);
        Ok(())
    })
}

/// Prepares to read a file over and over; the file is made now.
pub(crate) fn prepare_read(file: PathBuf, mib: u64) -> io::Result<PreparedWork> {
    let chunk = vec![1_u8; CHUNK_BYTES];
    let mut made = File::create(&file)?;
    (0..mib).try_for_each(|_| made.write_all(&chunk))?;
    Ok(Box::new(move |context| read(&file, context)))
}

/// Prepares to write a file over and over.
pub(crate) fn prepare_write(file: PathBuf, mib: u64) -> PreparedWork {
    Box::new(move |context| write(&file, mib, context))
}

/// Prepares to compile a file over and over.
pub(crate) fn prepare_compile(source: PathBuf, object: PathBuf) -> PreparedWork {
    Box::new(move |context| {
        while !context.over() {
            run(&mut c_project::compiler(&source, &object))?;
            context.count();
        }
        Ok(())
    })
}

/// Prepares to build a project once.
pub(crate) fn prepare_build(dir: PathBuf, notes: &Path) -> io::Result<PreparedWork> {
    let notes = Notes::open(notes)?;
    Ok(Box::new(move |context| build(&dir, &notes, context)))
}

pub(crate) fn prepare_script(script: String, folder: PathBuf) -> PreparedWork {
    Box::new(move |context| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(folder);
        // SAFETY: prctl alone between fork and exec, which is safe there; it takes no memory.
        unsafe {
            shell.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
        }
        run(&mut shell)?;
        sleep_until(context.last_ns);
        Ok(())
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

/// Does `while true; do cat /proc/interrupts > /dev/null; done` (paper 3, 5.5.4).
fn spawn(words: &[String], context: &WorkContext) -> io::Result<()> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    while !context.over() {
        run(Command::new(program).args(arguments))?;
        context.count();
    }
    Ok(())
}

/// Reads without a process, as the shell's `read` does (paper 3, 5.5.5).
fn read_lines(path: &Path, context: &WorkContext) -> io::Result<()> {
    let mut line = Vec::new();
    while !context.over() {
        // A shell reads a byte at a time, since what follows may be for another program.
        let mut file = BufReader::with_capacity(64, File::open(path)?);
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break;
            }
        }
        context.count();
    }
    Ok(())
}

/// Lists names and their attributes, as `ls -lR` does.
fn list(dir: &Path, to: &mut dyn Write, context: &WorkContext) -> io::Result<()> {
    // Entries that vanish or cannot be read are left out, as ls leaves them out with an error.
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    for entry in entries.flatten() {
        let Ok(facts) = entry.metadata() else { continue };
        writeln!(to, "{:?} {} {:?}", facts.permissions(), facts.len(), entry.path())?;
        context.count();
        if context.over() {
            break;
        }
        if facts.is_dir() {
            list(&entry.path(), to, context)?;
        }
    }
    Ok(())
}

fn memory(mut stream: Vec<u64>, context: &WorkContext) {
    while !context.over() {
        for word in &mut stream {
            *word = word.wrapping_add(1);
        }
        std::hint::black_box(&mut stream);
        for _ in 0..4 {
            let mut churn = vec![0_u8; CHURN_BYTES];
            churn.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
            std::hint::black_box(churn);
        }
        context.count();
    }
}

fn read(path: &Path, context: &WorkContext) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    while !context.over() {
        match file.read(&mut chunk)? {
            0 => file.rewind()?,
            _ => context.count(),
        }
    }
    Ok(())
}

fn write(path: &Path, mib: u64, context: &WorkContext) -> io::Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![1_u8; CHUNK_BYTES];
    while !context.over() {
        file.rewind()?;
        for _ in 0..mib {
            file.write_all(&chunk)?;
            context.count();
        }
        file.sync_all()?;
    }
    Ok(())
}

/// Builds once, and notes its begin and duration.
fn build(dir: &Path, notes: &Notes, context: &WorkContext) -> io::Result<()> {
    let mut make = Command::new("make");
    make.arg("--silent").arg("--directory").arg(dir);
    // SAFETY: prctl alone between fork and exec, which is safe there; it takes no memory.
    unsafe {
        make.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    let at_ns = context.start_ns;
    run(&mut make)?;
    notes.add(Note { at_ns, took_ns: monotonic_ns() - at_ns, more: 0 });
    sleep_until(context.last_ns);
    Ok(())
}
