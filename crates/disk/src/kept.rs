//! Speeds that were measured, in a file that people can read and change.
//!
//! A disk is known by what it says of itself (its world-wide name, or its serial number), else by its
//! name and size: kernel names change from boot to boot.

use crate::iocost::Speed;
use crate::look::DiskFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where speeds are kept, unless an option says otherwise.
pub const DEFAULT_DISKS_FILE: &str = "/var/lib/allot/disks.toml";

/// Speeds of disks, by their [`identity`](DiskFacts::identity).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDisks {
    /// By identity.
    #[serde(default, rename = "disk")]
    disks: BTreeMap<String, KeptDisk>,
}

/// What is kept of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDisk {
    /// Its kernel name when it was measured, for people.
    pub name: String,
    /// When, in seconds since 1970.
    pub measured_at: u64,
    /// Requests in flight that it was measured with.
    pub depth: usize,
    /// What was measured.
    pub speed: Speed,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It cannot be read or written.
    #[error("{}", .0.display())]
    Os(PathBuf, #[source] io::Error),
    /// It says something else.
    #[error("{} is no file of disks' speeds", .0.display())]
    Nonsense(PathBuf, #[source] Box<toml::de::Error>),
    /// A number of it is one that the kernel would not take.
    #[error("{}: a speed of `{}` is 0", .0.display(), .1)]
    NoSpeed(PathBuf, String),
}

impl KeptDisks {
    /// What a file says; nothing where there is none.
    ///
    /// # Errors
    /// When it cannot be read, or says something else.
    pub fn load(path: &Path) -> Result<KeptDisks, KeptError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(KeptDisks::default());
            }
            Err(error) => return Err(KeptError::Os(path.to_owned(), error)),
        };
        let kept: KeptDisks = toml::from_str(&text)
            .map_err(|error| KeptError::Nonsense(path.to_owned(), Box::new(error)))?;
        match kept.disks.iter().find(|(_, disk)| !disk.speed.model.is_sound()) {
            Some((identity, _)) => Err(KeptError::NoSpeed(path.to_owned(), identity.clone())),
            None => Ok(kept),
        }
    }

    /// Replaces the file in one step; it is whole whenever the machine stops.
    ///
    /// # Errors
    /// When it cannot be written. Then the old one is as it was.
    pub fn save(&self, path: &Path) -> Result<(), KeptError> {
        let os = |error| KeptError::Os(path.to_owned(), error);
        let text = toml::to_string_pretty(self).expect("numbers and names are TOML");
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(os)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = folder.join(name);
        let write = || -> io::Result<()> {
            let mut file = std::fs::File::create(&new)?;
            file.write_all(b"# Speeds of disks, as `allot calibrate` measured them.\n\n")?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&new, path)?;
            std::fs::File::open(folder)?.sync_all()
        };
        write().map_err(|error| {
            // What is left of it, if anything.
            let _ = std::fs::remove_file(&new);
            os(error)
        })
    }

    /// Keeps what was measured of a disk, instead of what was kept of it before.
    pub fn keep(&mut self, facts: &DiskFacts, disk: KeptDisk) {
        self.disks.insert(facts.identity.clone(), disk);
    }

    /// What is kept of a disk.
    pub fn get(&self, facts: &DiskFacts) -> Option<&KeptDisk> {
        self.disks.get(&facts.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;

    fn kept() -> KeptDisks {
        let model =
            Model { rbps: 6, rseqiops: 5, rrandiops: 4, wbps: 3, wseqiops: 2, wrandiops: 1 };
        let speed = Speed { read_latency_us: 80, write_latency_us: 20, model };
        let disk = KeptDisk { name: "sda".to_owned(), measured_at: 7, depth: 64, speed };
        KeptDisks { disks: BTreeMap::from([("wwid naa.5000 \"x\"".to_owned(), disk)]) }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/disks.toml");
        assert_eq!(KeptDisks::load(&path).expect("no file is nothing"), KeptDisks::default());
        kept().save(&path).expect("it is written");
        assert_eq!(KeptDisks::load(&path).expect("it is read"), kept());
        let mut more = kept();
        more.disks.insert("other".to_owned(), more.disks.values().next().expect("one").clone());
        more.save(&path).expect("it is written");
        assert_eq!(KeptDisks::load(&path).expect("it is read"), more);
        let files = std::fs::read_dir(path.parent().expect("a folder")).expect("a folder").count();
        assert_eq!(files, 1, "nothing is left beside it");
    }

    #[test]
    fn nonsense_is_refused_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disks.toml");
        let text = toml::to_string(&kept()).expect("TOML");
        for wrong in ["disk = 5", "[disk.x]\nname = \"x\"\n", &format!("{text}\nmore = 1\n")] {
            std::fs::write(&path, wrong).expect("written");
            assert!(matches!(KeptDisks::load(&path), Err(KeptError::Nonsense(..))), "{wrong}");
        }
        std::fs::write(&path, text.replace("wbps = 3", "wbps = 0")).expect("written");
        assert!(matches!(KeptDisks::load(&path), Err(KeptError::NoSpeed(..))));
        assert!(kept().save(&folder.path().join("disks.toml/below")).is_err());
    }
}
