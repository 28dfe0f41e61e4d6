//! The walls around the keeper, what it gives up once it has opened what takes rights; and the front's in words.

use crate::options::Options;
use crate::start::StartError;
use enforcement::{Wall, wall};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use sandbox::{CapabilitySet, Files, Part, Restriction, SystemCalls, User, capabilities};
use std::io;
use std::path::{Path, PathBuf};

/// The user whom the keeper becomes where nothing is said.
const DEFAULT_USER: &str = "allot";

/// The user whom the keeper is to become, and the places where it works.
pub struct KeeperWalls {
    /// `None`: it stays who it is.
    user: Option<User>,
    is_private: bool,
    /// Its parent, with which it is to end.
    parent: Option<Pid>,
    state_dir: PathBuf,
    socket: PathBuf,
}

impl KeeperWalls {
    /// Finds out who the keeper is to be.
    ///
    /// # Errors
    /// When there is no such user as was asked for.
    pub fn plan(options: &Options, state_dir: &Path, socket: &Path) -> Result<Self, StartError> {
        let user = match &options.keeper_user {
            _ if options.user => None,
            Some(name) => Some(User::of(name)?),
            None => User::of(DEFAULT_USER).ok(),
        };
        let parent = getppid().filter(|_| options.with_parent);
        let (state_dir, socket) = (state_dir.to_owned(), socket.to_owned());
        Ok(KeeperWalls { user, is_private: options.user, parent, state_dir, socket })
    }

    /// Its uid, where it is another than ours.
    pub fn uid(&self) -> Option<u32> {
        self.user.map(|user| user.uid)
    }

    /// Gives the state directory to the keeper's user, and gives up everything that the keeper does not need. What is
    /// open stays so. There may be no other thread.
    ///
    /// # Errors
    /// When the state directory cannot be handed over, or rights cannot be given up that should be.
    pub fn build(self) -> Result<Vec<Wall>, StartError> {
        let system = |what| move |cause: io::Error| StartError::System { what, cause };
        if let Some(user) = self.user {
            let handed = sandbox::hand_over(&self.state_dir, user);
            let path = self.state_dir.clone();
            handed.map_err(|cause| StartError::Directory { path, cause })?;
        }
        let kept = self.capabilities();
        match self.user {
            Some(user) => user.become_for_good(kept),
            None => capabilities::keep(kept),
        }
        .map_err(system("give up rights"))?;
        sandbox::forgo_new_privileges().map_err(system("forgo new privileges"))?;
        sandbox::make_undumpable().map_err(system("hide its memory"))?;
        // The change of user has forgotten it.
        if self.parent.is_some() {
            let armed = set_parent_process_death_signal(Some(Signal::TERM));
            armed.map_err(|errno| system("watch its parent")(errno.into()))?;
            if getppid() != self.parent {
                return Err(system("find its parent")(io::ErrorKind::NotFound.into()));
            }
        }
        let files = self.restrict_files(kept);
        let calls = SystemCalls::of(Part::Keeper).keep_only();
        let listed =
            "seccomp(2): a list, without other processes' memory, signals and files' owners";
        let calls = wall("keeper: system calls", calls.map(|()| listed.to_owned()));
        Ok(vec![self.user_wall(kept), files, calls])
    }

    /// The capabilities that the keeper cannot do without here.
    fn capabilities(&self) -> CapabilitySet {
        let mut kept = CapabilitySet::empty();
        if self.is_private {
            return kept;
        }
        if observe::hides_processes() {
            kept |= CapabilitySet::SYS_PTRACE;
        }
        if !hears_of_processes_without_rights() {
            kept |= CapabilitySet::NET_ADMIN;
        }
        kept
    }

    fn user_wall(&self, kept: CapabilitySet) -> Wall {
        let rights = match kept.is_empty() {
            true => "without capabilities".to_owned(),
            false => format!("with {kept:?} alone"),
        };
        let uid = rustix::process::geteuid().as_raw();
        let (stands, says) = match (self.user, uid) {
            (Some(_), _) => (true, format!("uid {uid}, {rights}")),
            (None, 0) => {
                let says = format!(
                    "uid 0, {rights}: it could open what is root's. Make it a user of its own: \
                     `systemd-sysusers allot.conf` with the file that comes with allot, or --keeper-user NAME"
                );
                (self.is_private, says)
            }
            (None, _) => (true, format!("uid {uid}, its owner's, {rights}")),
        };
        tracing::info!("the keeper is {says}");
        Wall { name: "keeper: user".to_owned(), stands, says }
    }

    fn restrict_files(&self, kept: CapabilitySet) -> Wall {
        let name = "keeper: files";
        if kept.contains(CapabilitySet::SYS_PTRACE) {
            let says = "does not stand: /proc hides processes from whom landlock(7) restricts";
            return Wall { name: name.to_owned(), stands: false, says: says.to_owned() };
        }
        let mut write = vec![self.state_dir.clone(), PathBuf::from("/dev/null")];
        write.extend(self.socket.parent().map(Path::to_owned));
        let mut read: Vec<PathBuf> = READ.map(PathBuf::from).into();
        let mounts = observe::mounts().unwrap_or_default();
        let cgroups = mounts.into_iter().filter(|it| it.kind.starts_with("cgroup"));
        read.extend(cgroups.map(|it| it.mount_point));
        let run = Files::own_program();
        let built = Files { read, write, run, signals_own_only: true }.keep_only();
        let says = |restriction: &Restriction| match restriction {
            Restriction::Full => "landlock(7): it writes to its state directory alone".to_owned(),
            Restriction::Partial => "landlock(7), of which this kernel has a part".to_owned(),
            Restriction::No => "this kernel has no landlock(7)".to_owned(),
        };
        let mut stands = wall(name, built.as_ref().map(says));
        stands.stands &= !matches!(built, Ok(Restriction::No));
        stands
    }
}

/// The walls around a front that serves: it does not begin before it has given up the rest.
pub fn of_front(files: Restriction) -> [Wall; 3] {
    let wall = |part: &str, stands, says: &str| {
        let (name, says) = (format!("front: {part}"), says.to_owned());
        Wall { name, stands, says }
    };
    let says = match files {
        Restriction::Full => "landlock(7): none, and no port, signal or socket of others",
        Restriction::Partial => "landlock(7), of which this kernel has a part",
        Restriction::No => {
            "this kernel has no landlock(7); the system calls to open files are refused"
        }
    };
    [
        wall("capabilities", true, "none, and none to gain"),
        wall("files", files != Restriction::No, says),
        wall("system calls", true, "seccomp(2): a list, to read and write what is open"),
    ]
}

/// The files that the keeper reads: processes, cgroups and devices; names of users, by whatever the system has for that; its own
/// program and libraries.
const READ: [&str; 16] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/run",
    "/var/run",
    "/var/db",
    "/var/lib/sss",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    "/gnu/store",
];

/// Since Linux 6.6 the proc connector tells everybody.
fn hears_of_processes_without_rights() -> bool {
    let release = observe::machine().kernel_release;
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 6)
}
