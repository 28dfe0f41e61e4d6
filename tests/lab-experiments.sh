#!/usr/bin/env bash
# Three experiments, short, in the lab. With the scheduler in the kernel: shares (cpu-hierarchy), each within its stated
# bound of 2 percentage points and ten quanta, and ticket transfers (inversion), with which a wait must be at most half as
# long. On a disk of 4 ms a request: shares of it (disk-shares), 4:1 within 5 % and a turn of BFQ's; on a clock that counts
# instructions, since a disk that is slower at times is another disk. One line an experiment; 200 s in the lab.
# experiments/lab-all and lab-disk run all of them, long enough for figures.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=$(realpath "${ALLOT_BIN_DIR:-target/debug}")
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
lab/run --cpus 2 --timeout 900 -- env ALLOT_BIN_DIR="$bin" tests/experiments.sh --quick sched-ext >"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  echo "SKIP lab-experiments: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
  exit 0
fi
results=$(grep -E '^(ok|FAIL|SKIP) ' "$log" | sed 's/^\([A-Z]*[a-z]*\) /\1 lab-/')
echo "$results"
if [ "$status" -ne 0 ] || [ -z "$results" ]; then
  echo "FAIL lab-experiments: exit status $status"
  tail -n 60 "$log" | sed 's/^/    /'
  exit 1
fi
# shellcheck disable=SC2016  # the guest expands it
lab/run --icount --cpus 2 --timeout 600 -- lab/with-disk --latency-us 4000 --depth 1 -- bash -c 'modprobe bfq
  exec "$1/allot" exp run disk-shares --seconds 40 --out "${TMPDIR:-/tmp}/report"' - "$bin" >"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 0 ]; then
  echo "ok lab-experiment:disk-shares"
else
  echo "FAIL lab-experiment:disk-shares: $(grep -m 1 'NOT HELD' "$log" || echo "exit status $status")"
  tail -n 30 "$log" | sed 's/^/    /'
  exit 1
fi
