#!/usr/bin/env bash
# Two experiments, short, with the scheduler in the kernel, in the lab: shares (cpu-hierarchy), each within its stated
# bound of 2 percentage points and ten quanta, and ticket transfers (inversion), with which a wait must be at most half as
# long. One line an experiment; 112 s in the lab. experiments/lab-all runs all of them, long enough for figures.
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
