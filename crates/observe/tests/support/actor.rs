//! A process that lives as the tests tell it: one command a line on standard input, one line of
//! answer on standard output. It ends with its standard input, and its children with it.

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Uid, fork, setresgid, setresuid};
use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let mut actor = Actor {
        lifeline: nix::unistd::pipe().expect("a pipe"),
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
    lifeline: (OwnedFd, OwnedFd),
    spinning: Arc<AtomicBool>,
    kept: Vec<UnixStream>,
}

/// Byte by byte, so that nothing is left in a buffer when another program image reads on.
fn read_command() -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match nix::unistd::read(std::io::stdin(), &mut byte) {
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
            "reap" => waitpid(None, None).expect("a child").pid().expect("its pid").to_string(),
            "double-fork" => self.double_fork(),
            "storm" => {
                for _ in 0..number() {
                    waitpid(nix::unistd::Pid::from_raw(child_that_exits()), None).expect("child");
                }
                "ok".to_owned()
            }
            "setuid" => {
                let uid = Uid::from_raw(number());
                setresuid(uid, uid, uid).expect("setresuid");
                "ok".to_owned()
            }
            "setgid" => {
                let gid = Gid::from_raw(number());
                setresgid(gid, gid, gid).expect("setresgid");
                "ok".to_owned()
            }
            "setgroups" => {
                let groups: Vec<Gid> = (0..number()).map(|n| Gid::from_raw(5000 + n)).collect();
                nix::unistd::setgroups(&groups).expect("setgroups");
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
                let clock = nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID;
                let time = nix::time::clock_gettime(clock).expect("our own clock");
                (time.tv_sec() * 1_000_000_000 + time.tv_nsec()).to_string()
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
        match unsafe { fork() }.expect("fork") {
            ForkResult::Parent { child } => child.as_raw(),
            ForkResult::Child => self.wait_for_the_end(),
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
        let (reader, writer) = nix::unistd::pipe().expect("a pipe");
        // SAFETY: the children only make system calls that are async-signal-safe.
        let middle = match unsafe { fork() }.expect("fork") {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let grandchild = self.child_that_waits();
                let _ = nix::unistd::write(&writer, &grandchild.to_ne_bytes());
                // SAFETY: ends this process without running anything of the parent's.
                unsafe { libc::_exit(0) }
            }
        };
        let mut bytes = [0; 4];
        nix::unistd::read(&reader, &mut bytes).expect("the grandchild's pid");
        waitpid(middle, None).expect("the middle ends");
        format!("{middle} {}", i32::from_ne_bytes(bytes))
    }
}

fn child_that_exits() -> i32 {
    // SAFETY: the child does nothing but exit.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child.as_raw(),
        // SAFETY: ends this process without running anything of the parent's.
        ForkResult::Child => unsafe { libc::_exit(7) },
    }
}
