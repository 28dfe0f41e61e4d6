#!/usr/bin/env bash
# The cgroup enforcer on a real kernel, in the lab, as root: crates/enforce/tests/cgroup.rs where nobody else owns the
# cgroup tree, and cgroup_systemd.rs where systemd does. One line a test. 288 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
failed=0

# tests NAME PROGRAM...: runs the tests of one file in the lab, by a program if one is given.
tests() {
  local name=$1 binary status
  shift
  binary=$(test_binary "$name" 2>"$log") || {
    echo "FAIL lab-$name: the tests could not be built"
    tail -n 20 "$log" | sed 's/^/    /'
    failed=1
    return
  }
  echo "file lab-$name" >"$log"
  lab/run --cpus 2 --timeout 600 -- "$@" "$binary" --test-threads=1 --nocapture >>"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    echo "SKIP lab-$name: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
    return
  fi
  if ! awk -v files=1 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
    tail -n 80 "$log" | sed 's/^/    /'
    failed=1
  fi
}

tests cgroup
tests cgroup_systemd crates/enforce/tests/support/under-systemd.sh
exit "$failed"
