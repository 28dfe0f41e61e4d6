#!/usr/bin/env bash
# Memory on a real kernel, in the lab, as root: the reclaimer on a disk of a known speed (crates/enforce/tests/memory.rs), and
# the cgroups' shares (cgroup_memory.rs). One line a test. Those that look for long run with ALLOT_LONG set (`make soak`).
# 130 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

failed=0
skipped=()
if [ -z "${ALLOT_LONG:-}" ]; then
  skipped=(--skip without_minima --skip tickets_decide --skip the_machine_counts)
fi

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
  lab/run --cpus 2 --timeout 900 -- "$@" "$binary" --test-threads=1 --nocapture "${skipped[@]}" >>"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    echo "SKIP lab-$name: $(grep -E '^(lab|with-disk): ' "$log" | tail -n 1 | sed 's/^[a-z-]*: //')"
    return
  fi
  if ! awk -v files=1 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
    tail -n 80 "$log" | sed 's/^/    /'
    failed=1
  fi
}

# The directory that lab/with-disk adds is no argument of the tests: they find it in the environment.
# shellcheck disable=SC2016  # the shell in the lab expands it
tests memory lab/with-disk --latency-us 4000 --swap 256M -- bash -c '"${@:1:$#-1}"' with-disk
tests cgroup_memory
exit "$failed"
