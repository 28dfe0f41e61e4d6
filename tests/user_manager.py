#!/usr/bin/env python3
"""A private allotd under systemd's user manager: run by tests/lab-user-manager.sh, as root, where systemd is init."""

import glob
import json
import os
import pwd
import subprocess
import sys
import time

USER = pwd.getpwnam("www-data")
UID = USER.pw_uid
RUNTIME = f"/run/user/{UID}"
UNIT = f"user@{UID}.service"
SLICE = f"user-{UID}.slice"
ROOT = "/sys/fs/cgroup"
MANAGER = f"{ROOT}/user.slice/{SLICE}/{UNIT}"
SESSION = f"/user.slice/{SLICE}/session-1.scope"
ENV = {**os.environ, "XDG_RUNTIME_DIR": RUNTIME, "XDG_STATE_HOME": f"{RUNTIME}/state", "HOME": RUNTIME}
BURN = "while :; do :; done"
# The part of the CPU by which a share may be off: the kernel's fair class on one CPU, over SECONDS.
OFF = 0.02
SECONDS = 4.0


class Failed(Exception):
    pass


def check(right, why):
    if not right:
        raise Failed(why)


def eventually(what, look, seconds=60):
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, env=ENV, timeout=600)


def try_as_user(*command):
    return run("setpriv", "--reuid", str(UID), "--regid", str(USER.pw_gid), "--clear-groups", *command)


def as_user(*command):
    """Runs a command to its end, as the user, in no session."""
    found = try_as_user(*command)
    check(found.returncode == 0, f"{command}: {found.stdout}{found.stderr}")
    return found.stdout


def in_session(*command):
    """Starts a command as the user, in the session's scope, which is not the manager's."""

    def enter():
        with open(f"{ROOT}{SESSION}/cgroup.procs", "w") as procs:
            procs.write(str(os.getpid()))
        os.setgroups([])
        os.setgid(USER.pw_gid)
        os.setuid(UID)

    return subprocess.Popen(command, env=ENV, preexec_fn=enter, start_new_session=True,
                            stdout=subprocess.DEVNULL, stderr=LOG)


def place(pid):
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            return file.read().strip().removeprefix("0::")
    except OSError:
        return ""


def used_s(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scopes():
    return glob.glob(f"{MANAGER}/app.slice/allot-*.scope")


def start_manager(delegate):
    with open(f"/run/systemd/system/{UNIT}", "w") as unit:
        unit.write(
            f"[Unit]\nDefaultDependencies=no\n[Service]\nUser={USER.pw_name}\nType=notify\nSlice={SLICE}\nKillMode=mixed\n"
            f"Delegate={delegate}\nEnvironment=XDG_RUNTIME_DIR={RUNTIME} HOME={RUNTIME}\n"
            "ExecStart=/lib/systemd/systemd --user --unit=basic.target\n"
        )
    os.makedirs(RUNTIME, exist_ok=True)
    os.chown(RUNTIME, UID, USER.pw_gid)
    for command in (["daemon-reload"], ["restart", UNIT]):
        done = run("systemctl", *command)
        check(done.returncode == 0, f"systemctl {command}: {done.stderr}")


def start_session():
    """A scope of the system's manager, as logind makes one: kept by a process that sleeps."""
    command = ["systemd-run", "--quiet", "--scope", f"--slice={SLICE}", "--unit=session-1.scope",
               "--property=DefaultDependencies=no", "sleep", "infinity"]
    keeper = subprocess.Popen(command, env=ENV)
    eventually("the session is there", lambda: place(keeper.pid) == SESSION)
    return keeper


def start_allotd():
    daemon = in_session("allotd", "--user")
    eventually("allotd answers", lambda: try_as_user("allot", "status").returncode == 0 or daemon.poll() is not None)
    check(daemon.poll() is None, "allotd ended")
    return daemon


def status():
    return json.loads(as_user("allot", "--json", "status"))


def run_hogs(tickets):
    """Foreground jobs of the session, each by `allot run`."""
    shells = [in_session("taskset", "-c", "0", "allot", "run", "--tickets", str(amount), "--", "sh", "-c", BURN)
              for amount in tickets]
    for shell in shells:
        eventually("a job has its cgroup", lambda: "/allot/" in place(shell.pid))
    return shells


def shares(pids):
    before = [used_s(pid) for pid in pids]
    while True:
        time.sleep(0.2)
        used = [used_s(pid) - b for pid, b in zip(pids, before)]
        if sum(used) >= SECONDS:
            return [part / sum(used) for part in used]


def service(name, *command):
    """Starts a unit of the user's manager, not delegated: the manager's own."""
    as_user("systemd-run", "--user", "--quiet", f"--unit={name}", *command)
    pid = lambda: int(as_user("systemctl", "--user", "show", "--value", "-p", "MainPID", name))
    eventually("the service runs", pid)
    found = pid()
    eventually("it is in its unit", lambda: place(found).endswith(f"/{name}"))
    return found


def test(name, work):
    try:
        work()
        print(f"ok {name}", flush=True)
        return True
    except Exception as error:
        print(f"FAIL {name}: {error}".replace("\n", " "), flush=True)
        return False


class Machine:
    def choice(self):
        start_manager("cpu memory pids")
        self.session = start_session()
        self.daemon = start_allotd()
        found = status()["cpu"]
        check(found["name"] == "cgroup", found)
        check(scopes() == [], "nothing is made before there is a client")

    def shares(self):
        self.hogs = run_hogs([900, 900, 100])
        # Weights follow who competes within a period.
        time.sleep(0.5)
        got = shares([hog.pid for hog in self.hogs])
        due = [900 / 1900, 900 / 1900, 100 / 1900]
        print("# shares:", " ".join(f"{share:.4f}" for share in got), flush=True)
        check(all(abs(share - wanted) <= OFF for share, wanted in zip(got, due)), f"{got} for {due}")

    def places(self):
        self.scope = scopes()[0]
        unit = os.path.basename(self.scope)
        show = as_user("systemctl", "--user", "show", "-p", "Delegate,CPUWeight", unit)
        check("Delegate=yes" in show and "CPUWeight=100" in show, show)
        for hog in self.hogs:
            check(place(hog.pid).startswith(self.scope.removeprefix(ROOT) + "/allot/c"), place(hog.pid))
            state = open(f"/proc/{hog.pid}/stat").read().rsplit(")", 1)[1].split()[0]
            check(state == "R", f"a hog is held: {state}")

    def adopts(self):
        self.stray = in_session("taskset", "-c", "0", "sh", "-c", BURN)
        self.own = service("own.service", "taskset", "-c", "0", "sh", "-c", BURN)
        for pid in (self.stray.pid, self.own):
            as_user("allot", "adopt", str(pid), "--tickets", "900")
            eventually("it has its cgroup", lambda: "/allot/" in place(pid))

    def keeps_limits(self):
        pid = service("small.service", "--property=MemoryMax=64M", "sleep", "1000")
        as_user("allot", "adopt", str(pid))
        told = lambda: any("has settings of its own" in word for word in status()["cpu"]["drift"])
        eventually("it is told why it is left there", told)
        check(place(pid).endswith("/small.service"), place(pid))

    def given_back(self):
        """Nobody is in a cgroup of ours, nobody was ended, and what is left has no weights."""
        alive = [hog.pid for hog in self.hogs] + [self.stray.pid]
        eventually("the clients' cgroups are gone", lambda: not os.path.exists(f"{self.scope}/allot"))
        for pid in alive:
            check(place(pid) == self.scope.removeprefix(ROOT) + "/rest", f"{pid}: {place(pid)}")
        check(place(self.own).endswith("/own.service"), place(self.own))
        eventually("the guardian is gone", lambda: not open(f"{self.scope}/guardian/cgroup.procs").read())
        control = open(f"{self.scope}/cgroup.subtree_control").read().split()
        check("cpu" not in control, control)

    def stopped(self):
        self.daemon.terminate()
        self.daemon.wait(60)
        self.given_back()

    def killed(self):
        self.daemon = start_allotd()
        # Its ledger has the clients that still live.
        for pid in [hog.pid for hog in self.hogs] + [self.stray.pid, self.own]:
            eventually("it has its cgroup again", lambda: "/allot/" in place(pid))
        self.scope = (ROOT + place(self.own)).split("/allot/")[0]
        self.daemon.kill()
        self.daemon.wait()
        self.given_back()

    def scope_ends(self):
        for hog in [*self.hogs, self.stray]:
            hog.kill()
            hog.wait()
        as_user("systemctl", "--user", "stop", "own.service", "small.service")
        eventually("no scope is left", lambda: scopes() == [])

    def not_delegated(self):
        start_manager("pids")
        said = as_user("allotd", "--user", "doctor")
        check("was not given the cpu controller" in said, said)
        check("systemctl edit user@.service" in said, said)
        self.daemon = start_allotd()
        found = status()["cpu"]
        check(found["name"] == "user-level", found)
        self.daemon.terminate()
        self.daemon.wait(60)
        self.session.kill()


LOG = open("/run/user-manager.log", "w+")
os.chmod("/run/user-manager.log", 0o666)
machine = Machine()
results = [test("user-manager-" + name.replace("_", "-"), getattr(machine, name))
           for name in ("choice", "shares", "places", "adopts", "keeps_limits", "stopped", "killed", "scope_ends",
                        "not_delegated")]
if not all(results):
    LOG.seek(0)
    print(LOG.read()[-6000:])
sys.exit(0 if all(results) else 1)
