#!/usr/bin/env bash
# dist/allotd.service, with all its protections, under systemd in the lab: whether allotd may load its scheduler so, and
# is started again when it was killed. The manager is systemd's for a user, run by root: what it does to a service is the
# same, and a system's would be alone in a namespace of process ids, where allotd takes another enforcer. One line a test.
# 46 s in the lab.
set -uo pipefail
here=$(realpath "$0")
top=$(cd "$(dirname "$here")/.." && pwd -P)
bin=${ALLOT_BIN_DIR:-$top/target/debug}
tests=(unit-verifies unit-starts unit-is-confined unit-restarts unit-stops)
# shellcheck source=tests/support/in-lab.bash
. "$top/tests/support/in-lab.bash"

# test NAME COMMAND...: says how it went.
test_that() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then echo "ok $name"; else echo "FAIL $name: $(tr '\n' ' ' <<<"$said" | cut -c 1-400)"; failed=1; fi
}
wait_for() {
  for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
  echo "waited 120 s for: $*"
  return 1
}
ctl() { systemctl --user "$@"; }
pid() { ctl show allotd -p MainPID --value; }
enforces() { "$bin/allot" --json status | grep -Eq '"name": *"sched-ext"' && [ "$(cat $state)" = enabled ]; }
verifies() {
  local said
  said=$(systemd-analyze --user verify /run/systemd/user/allotd.service 2>&1)
  [ -z "$said" ] || { echo "$said"; return 1; }
}
starts() {
  ctl start allotd && wait_for enforces || { cat /run/allotd.log; return 1; }
}
# What the unit and each part take away is gone. The keeper has nothing left. The enforcing process has in no thread more than
# KILL, SYS_NICE, DAC_OVERRIDE, DAC_READ_SEARCH, NET_ADMIN, SYS_RESOURCE and SYS_PTRACE, and SYS_ADMIN for cgroups' notes. The
# loader has SYS_ADMIN, PERFMON and BPF (docs/security.md).
may_have=$((1 << 5 | 1 << 23 | 1 << 1 | 1 << 2 | 1 << 12 | 1 << 24 | 1 << 19 | 1 << 21))
loads=$((1 << 21 | 1 << 38 | 1 << 39))
# within MASK PROCESS/THREAD...: no more capabilities than those, and a filter.
within() {
  local mask=$1 thread status set has
  shift
  for thread; do
    status=$(cat "$thread/status")
    grep -qx "Seccomp:	2" <<<"$status" || { echo "no filter in $thread: $status"; return 1; }
    for set in CapPrm CapBnd; do
      has=$((16#$(sed -n "s/^$set:\t//p" <<<"$status")))
      [ $((has & ~mask)) -eq 0 ] || { echo "too much in $set of $thread: $(printf '%x' "$has")"; return 1; }
    done
  done
}
is_confined() {
  local status enforcing
  status=$(cat "/proc/$(pid)/status")
  for line in "CapEff:	0000000000000000" "CapBnd:	0000000000000000" "NoNewPrivs:	1" "Seccomp:	2"; do
    grep -qx "$line" <<<"$status" || { echo "not '$line' in the keeper's: $status"; return 1; }
  done
  enforcing=$(pgrep -P "$(pid)" -x allot-enforce) || return
  within $may_have /proc/"$enforcing"/task/* && within $loads /proc/"$(pgrep -P "$enforcing" -x allot-loader)"/task/*
}
restarts() {
  local before
  before=$(pid)
  ctl kill --signal=KILL --kill-who=main allotd || return
  wait_for enforces || { cat /run/allotd.log; return 1; }
  [ "$(pid)" != "$before" ] && [ "$(ctl show allotd -p NRestarts --value)" = 1 ]
}
stops() {
  ctl stop allotd || return
  [ "$(cat $state)" = disabled ] || { echo "the scheduler is $(cat $state)"; return 1; }
  [ "$(ctl show allotd -p Result --value)" = success ] || { ctl show allotd -p Result; return 1; }
}

if [ "${1-}" = --inside ]; then
  bin=$2 state=/sys/kernel/sched_ext/state failed=0
  # The directories that a system's services have.
  export XDG_RUNTIME_DIR=/run XDG_CONFIG_HOME=/var/lib XDG_STATE_HOME=/var/lib
  mount -t tmpfs tmpfs /var/lib && mkdir -p /run/systemd/system /run/systemd/user /sys/fs/cgroup/manager || exit 1
  # Where the unit's protections (its own /tmp, no /home) do not hide it, wherever it was built.
  mkdir /var/lib/bin && cp "$bin/allot" "$bin/allotd" /var/lib/bin/ && bin=/var/lib/bin || exit 1
  sed -e "s|@bindir@|$bin|; s|^\[Service\]|&\nStandardError=append:/run/allotd.log|" "$top/dist/allotd.service" \
    >/run/systemd/user/allotd.service
  mkdir -p /var/lib/allot /run/systemd/user/allotd.service.d || exit 1
  cp "$top"/dist/allotd.service.d/{sched-ext,user-level,cgroup}.conf /run/systemd/user/allotd.service.d || exit 1
  for target in lab basic shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' >"/run/systemd/user/$target.target"
  done
  echo $$ >/sys/fs/cgroup/manager/cgroup.procs
  /lib/systemd/systemd --user --unit=lab.target >/run/manager.log 2>&1 &
  wait_for [ -S /run/systemd/private ] || { cat /run/manager.log; exit 1; }
  test_that unit-verifies verifies
  test_that unit-starts starts
  test_that unit-is-confined is_confined
  test_that unit-restarts restarts
  test_that unit-stops stops
  exit "$failed"
fi

need_binaries
for need in /lib/systemd/systemd systemctl systemd-analyze; do
  command -v "$need" >/dev/null || { every SKIP "$need is not installed"; exit 0; }
done
run_in_lab 420 40 ok -- bash "$here" --inside "$bin"
