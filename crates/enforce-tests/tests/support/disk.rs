//! Disks of memory on a real kernel (null_blk), which take a set time for every request and can vanish.
#![allow(dead_code, reason = "not every test needs everything")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const SETTINGS: &str = "/sys/kernel/config/nullb";

/// A disk of a test. Vanishes when dropped.
pub struct NullDisk {
    /// Its kernel name.
    pub name: String,
}

/// Makes null_blk ready.
///
/// # Errors
/// Why this machine has none.
pub fn available() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("only root can make disks".to_owned());
    }
    if !Path::new("/sys/module/null_blk").exists() {
        run("modprobe", &["null_blk", "nr_devices=0"])?;
    }
    if !Path::new(SETTINGS).exists() {
        run("mount", &["-t", "configfs", "configfs", "/sys/kernel/config"])?;
    }
    match Path::new(SETTINGS).exists() {
        true => Ok(()),
        false => Err("null_blk cannot be set up through configfs".to_owned()),
    }
}

/// Runs a program.
///
/// # Errors
/// What it said.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

impl NullDisk {
    /// Of 256 MiB, that takes so long for a request and so many at a time.
    pub fn new(name: &str, request: Duration, depth: u32) -> NullDisk {
        let settings = Path::new(SETTINGS).join(name);
        fs::create_dir(&settings).unwrap_or_else(|error| panic!("{}: {error}", settings.display()));
        let disk = NullDisk { name: name.to_owned() };
        let nanoseconds = request.as_nanos().to_string();
        let depth = depth.to_string();
        for (file, text) in [
            ("size", "256"),
            ("memory_backed", "1"),
            // A request ends by a timer.
            ("irqmode", "2"),
            ("completion_nsec", &nanoseconds),
            ("hw_queue_depth", &depth),
            ("power", "1"),
        ] {
            fs::write(settings.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
        let begun = Instant::now();
        while !disk.device().exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{name} does not appear");
            std::thread::sleep(Duration::from_millis(10));
        }
        disk
    }

    /// As in /dev.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Its folder of settings.
    pub fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join("queue")
    }

    /// With ext4, without a journal's thread and lazy writes, which would use it beside the test.
    pub fn mounted(&self) -> Mounted {
        let device = self.device().display().to_string();
        let plain = ["-q", "-O", "^has_journal", "-E", "lazy_itable_init=0", &device];
        run("mkfs.ext4", &plain).expect("a file system");
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().to_str().expect("text");
        run("mount", &["-o", "noatime", &device, place]).expect("it is mounted");
        Mounted { folder }
    }

    /// As if it were pulled out.
    pub fn vanish(&self) {
        let settings = Path::new(SETTINGS).join(&self.name);
        // Both are of no use once it is gone.
        let _ = fs::write(settings.join("power"), "0");
        let _ = fs::remove_dir(settings);
    }
}

impl Drop for NullDisk {
    fn drop(&mut self) {
        self.vanish();
    }
}

/// A file system of a test. Unmounted when dropped.
pub struct Mounted {
    /// Where it is mounted.
    pub folder: tempfile::TempDir,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let place = self.folder.path().to_str().expect("text");
        // A test that fails may leave it busy: then it goes when that ends.
        let _ = run("umount", &[place]).or_else(|_| run("umount", &["-l", place]));
    }
}
