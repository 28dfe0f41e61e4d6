//! A process that lives as the tests tell it: one command a line on standard input, one line of
//! answer on standard output. It ends with its standard input, and its children with it.

use rustix::process::{Pid, WaitOptions, wait, waitpid};
use std::ffi::CString;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let mut actor = Actor {
        lifeline: std::io::pipe().expect("a pipe"),
        spinning: Arc::new(AtomicBool::new(false)),
        kept: Vec::new(),
    };
    answer("ready");
    while let Some(command) = read_command() {
        if command == "main-exit" {
            std::thread::spawn(move || {
                answer("ok");
                actor.serve();
                std::process::exit(0);
            });
            // SAFETY: ends this thread alone; nothing that other threads use is on its stack.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            unreachable!("this thread has ended");
        }
        actor.obey(&command);
    }
}

struct Actor {
    /// Children read from it and end when we are gone.
    lifeline: (PipeReader, PipeWriter),
    spinning: Arc<AtomicBool>,
    kept: Vec<UnixStream>,
}

/// Byte by byte, so that nothing is left in a buffer when another program image reads on.
fn read_command() -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match rustix::io::read(std::io::stdin(), &mut byte) {
            Ok(1) if byte[0] == b'\n' => return String::from_utf8(line).ok(),
            Ok(1) => line.push(byte[0]),
            _ => return None,
        }
    }
}

fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).expect("the test reads our answers");
}

impl Actor {
    fn serve(&mut self) {
        while let Some(command) = read_command() {
            self.obey(&command);
        }
    }

    fn obey(&mut self, command: &str) {
        let (verb, argument) = command.split_once(' ').unwrap_or((command, ""));
        let number = || argument.parse::<u32>().expect("a number");
        let reply = match verb {
            "fork" => self.child_that_waits().to_string(),
            "fork-exit" => child_that_exits().to_string(),
            "reap" => reap(None).to_string(),
            "double-fork" => self.double_fork(),
            "storm" => {
                for _ in 0..number() {
                    reap(Pid::from_raw(child_that_exits()));
                }
                "ok".to_owned()
            }
            "setuid" => {
                let uid = number();
                // SAFETY: the call takes plain numbers.
                assert_eq!(unsafe { libc::setresuid(uid, uid, uid) }, 0, "setresuid");
                "ok".to_owned()
            }
            "setgid" => {
                let gid = number();
                // SAFETY: the call takes plain numbers.
                assert_eq!(unsafe { libc::setresgid(gid, gid, gid) }, 0, "setresgid");
                "ok".to_owned()
            }
            "setgroups" => {
                let groups: Vec<u32> = (0..number()).map(|n| 5000 + n).collect();
                // SAFETY: the kernel reads as many numbers as the vector has.
                let set = unsafe { libc::setgroups(groups.len(), groups.as_ptr()) };
                assert_eq!(set, 0, "setgroups");
                "ok".to_owned()
            }
            "exec" => {
                let error = std::process::Command::new("/proc/self/exe").arg("anew").exec();
                panic!("exec: {error}");
            }
            "name" => {
                let bytes: Vec<u8> = argument
                    .as_bytes()
                    .chunks(2)
                    .map(|pair| u8::from_str_radix(str::from_utf8(pair).expect("hex"), 16))
                    .collect::<Result<_, _>>()
                    .expect("hex");
                let name = CString::new(std::ffi::OsString::from_vec(bytes).into_encoded_bytes())
                    .expect("a name without NUL");
                rustix::thread::set_name(&name).expect("set_name");
                "ok".to_owned()
            }
            "threads" => {
                for _ in 0..number() {
                    std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
                }
                "ok".to_owned()
            }
            "spin" => {
                self.spinning.store(true, Ordering::Relaxed);
                let spinning = Arc::clone(&self.spinning);
                let (tell, told) = std::sync::mpsc::channel();
                std::thread::spawn(move || {
                    tell.send(rustix::thread::gettid()).expect("the main thread waits");
                    while spinning.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                told.recv().expect("the thread began").as_raw_nonzero().to_string()
            }
            "unspin" => {
                self.spinning.store(false, Ordering::Relaxed);
                "ok".to_owned()
            }
            "burn" => {
                let end = Instant::now() + Duration::from_millis(u64::from(number()));
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
                (time.tv_sec * 1_000_000_000 + time.tv_nsec).to_string()
            }
            "connect" => {
                self.kept.push(UnixStream::connect(argument).expect("connect"));
                "ok".to_owned()
            }
            other => panic!("no such command: {other}"),
        };
        answer(&reply);
    }

    fn child_that_waits(&self) -> i32 {
        // SAFETY: the child only makes system calls that are async-signal-safe.
        match unsafe { libc::fork() } {
            -1 => panic!("fork"),
            0 => self.wait_for_the_end(),
            child => child,
        }
    }

    fn wait_for_the_end(&self) -> ! {
        let mut byte = [0_u8];
        // SAFETY: plain system calls on descriptors that we own; the buffer outlives the read.
        unsafe {
            libc::close(self.lifeline.1.as_raw_fd());
            libc::read(self.lifeline.0.as_raw_fd(), byte.as_mut_ptr().cast(), 1);
            libc::_exit(0)
        }
    }

    /// A child that leaves behind a child of its own: "middle grandchild".
    fn double_fork(&self) -> String {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        // SAFETY: the children only make system calls that are async-signal-safe.
        let middle = match unsafe { libc::fork() } {
            0 => {
                let grandchild = self.child_that_waits();
                let _ = writer.write_all(&grandchild.to_ne_bytes());
                // SAFETY: ends this process without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
            -1 => panic!("fork"),
            child => child,
        };
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).expect("the grandchild's pid");
        reap(Pid::from_raw(middle));
        format!("{middle} {}", i32::from_ne_bytes(bytes))
    }
}

fn child_that_exits() -> i32 {
    // SAFETY: the child does nothing but exit.
    match unsafe { libc::fork() } {
        // SAFETY: ends this process without running anything of the parent's.
        0 => unsafe { libc::_exit(7) },
        -1 => panic!("fork"),
        child => child,
    }
}

/// Waits for the end of a child, of any where none is named.
fn reap(child: Option<Pid>) -> Pid {
    let ended = match child {
        Some(child) => waitpid(Some(child), WaitOptions::empty()),
        None => wait(WaitOptions::empty()),
    };
    ended.expect("a child").expect("it has ended").0
}
