#!/usr/bin/env bash
# Memory and disk tickets of a system's allotd, in the lab: said on the command line, enforced in one tree of cgroups beside
# the scheduler in the kernel and with the kernel's weights; given back when allotd stops or is killed, adopted when it
# returns. One boot, 60 s in the lab without KVM. One line a test.
set -uo pipefail
here=$(realpath "$0")
top=$(cd "$(dirname "$here")/.." && pwd -P)
bin=${ALLOT_BIN_DIR:-$top/target/debug}
tests=(shares-refused shares-set shares-told shares-stopped shares-adopted shares-killed shares-one-tree shares-left)
# shellcheck source=tests/support/in-lab.bash
. "$top/tests/support/in-lab.bash"

# test_that NAME COMMAND...: says how it went.
test_that() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then echo "ok $name"; else echo "FAIL $name: $(tr '\n' ' ' <<<"$said" | cut -c 1-600)"; fi
}
wait_for() {
  for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  echo "waited 60 s for: $*; log: $(tail -n 3 "$work/log")"
  return 1
}
# is WHAT IS WANTED
is() { [ "$2" = "$3" ] || { echo "$1 is '$2', not '$3'"; return 1; }; }
allot() { "$bin/allot" --socket "$work/sock" "$@"; }
start() {
  nice -n -20 "$bin/allotd" --state-dir "$work/state" --socket "$work/sock" --funding-policy "$work/policy.toml" "$@" \
    >>"$work/log" 2>&1 </dev/null &
  echo $! >"$work/pid"
  wait_for allot status
}
daemon() { cat "$work/pid"; }
gone() { ! kill -0 "$(daemon)"; }
group_of() { echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")"; }
scheduler() { cat "/sys/block/$ALLOT_DISK/queue/scheduler"; }
has_bfq() { [[ $(scheduler) == *"[bfq]"* ]]; }
# As it was before allotd touched anything.
untouched() {
  is "the scheduler" "$(scheduler)" "$found_scheduler" &&
    is "the root's controllers" "$(cat /sys/fs/cgroup/cgroup.subtree_control)" "$found_controllers" &&
    is "the reader's cgroup" "$(group_of "$reader")" "$found_group" && ! [ -e /sys/fs/cgroup/allot ]
}
shared() {
  local group number
  group=$(group_of "$reader")
  number=$(cat "/sys/block/$ALLOT_DISK/dev")
  is memory.min "$(cat "$group/memory.min")" $((8 << 20)) &&
    is memory.low "$(cat "$group/memory.low")" $((8 << 20)) && has_bfq &&
    grep -q "^$number " "$group/io.bfq.weight"
}

refused() {
  local said
  ! said=$(allot fund "pid:$reader" --from base --memory 900G 2>&1) || { echo "not refused"; return 1; }
  [[ $said == *"KiB"* ]] || { echo "$said"; return 1; }
  ! said=$(allot fund "pid:$reader" --from "$user" --memory 8M 2>&1) || { echo "not refused: amounts of a user"; return 1; }
  [[ $said == *"only base has amounts"* ]] || { echo "$said"; return 1; }
  untouched
}
set_shares() {
  allot fund "pid:$reader" --from base --memory 8M && allot fund "pid:$reader" --from base --disk "$ALLOT_DISK=400" &&
    wait_for shared && shared
}
told() {
  local said
  said=$(allot doctor)
  grep -q "^ *memory *cgroup" <<<"$said" && grep -q "disk:$ALLOT_DISK *bfq" <<<"$said" || { echo "$said"; return 1; }
  allot tree --resource memory | grep -q "8192 hard *0.[0-9] *% *0.[0-9] *%" || { allot tree --resource memory; return 1; }
}
stopped() {
  kill "$(daemon)" && wait_for gone && untouched
}
adopted() {
  start "$@" && wait_for shared && shared
}
killed() {
  kill -9 "$(daemon)" && wait_for untouched && untouched
}
# With the kernel's weights of the CPU everything is set on the same cgroup.
one_tree() {
  start --enforcer cgroup && wait_for shared && shared && [ -e "$(group_of "$reader")/cpu.weight" ] || return
  allot doctor | grep -q "^ *memory *cgroup" && stopped
}
left() {
  start --others none || return
  sleep 2
  untouched || return
  allot doctor | grep -q "^ *memory *none" || { allot doctor; return 1; }
  stopped
}

inside() {
  work=$(mktemp -d)
  chmod 755 "$work"
  user=1000
  printf '[users]\ncpu = 100\n[system]\nmanaged = false\n' >"$work/policy.toml"
  grep -q ':1000:' /etc/passwd && user=$(id -nu 1000)
  head -c 8M /dev/zero >"$ALLOT_DISK_DIR/file"
  # Somebody's process that reads for ever. A child would share its tickets.
  setpriv --reuid 1000 --regid 1000 --clear-groups /usr/bin/python3 -c '
import sys, time
while True:
    open(sys.argv[1], "rb").read()
    time.sleep(0.2)' "$ALLOT_DISK_DIR/file" &
  reader=$!
  modprobe bfq
  found_scheduler=$(scheduler) found_controllers=$(cat /sys/fs/cgroup/cgroup.subtree_control) found_group=$(group_of "$reader")
  start && wait_for allot currency show "pid:$reader" || exit
  user=$(allot --json currency show "pid:$reader" | sed -n 's/.*"issuer": *\([0-9]*\).*/#\1/p' | head -n 1)
  test_that shares-refused refused
  test_that shares-set set_shares
  test_that shares-told told
  test_that shares-stopped stopped
  test_that shares-adopted adopted
  test_that shares-killed killed
  test_that shares-one-tree one_tree
  test_that shares-left left
  kill "$reader"
  rm -rf "$work"
}

if [ "${1:-}" = inside ]; then inside; exit 0; fi
need_binaries
run_in_lab 400 60 'ok|SKIP' -- env ALLOT_BIN_DIR="$bin" "$top/lab/with-disk" --latency-us 1000 -- bash "$here" inside
