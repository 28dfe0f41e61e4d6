#!/usr/bin/env bash
# Experiments, short, in the lab. Shares of the CPU at user level (rre), on a clock that counts instructions. With ALLOT_LONG set
# (`make soak`) all such shares, and five more. With the scheduler in the kernel: shares (cpu-hierarchy), each within its stated
# bound of 2 percentage points and ten quanta, and ticket transfers (inversion), with which a wait must be
# at most half as long. On a disk of a known speed: guarantees of memory (memory-shares), of which no look may find less than a
# page below, and shares of the disk (disk-shares), 4:1 within 5 % and a turn of BFQ's, on a clock that counts instructions, since
# a disk that is slower at times is another disk; and exchanges of CPU for disk (exchange-cpu-disk), by which both gain and nobody
# else has less than a seventh. One line an experiment; 40 s in the lab where ALLOT_LONG is not set. experiments/lab-all and
# lab-disk run all of them, long enough for figures.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
bin=$(realpath "${ALLOT_BIN_DIR:-target/debug}")
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
failed=0
# experiments OPTIONS... -- COMMAND...: runs them in the lab; their lines with `lab-` before the names.
experiments() {
  local status results
  lab/run --cpus 2 "$@" >"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    echo "SKIP lab-experiments: $(grep -E '^(lab|with-disk): ' "$log" | tail -n 1 | sed 's/^[a-z-]*: //')"
    return
  fi
  results=$(grep -E '^(ok|FAIL|SKIP) ' "$log" | sed 's/^\([A-Z]*[a-z]*\) /\1 lab-/')
  echo "$results"
  if [ "$status" -ne 0 ] || [ -z "$results" ]; then
    echo "FAIL lab-experiments: exit status $status"
    tail -n 60 "$log" | sed 's/^/    /'
    failed=1
  fi
}

if [ -z "${ALLOT_LONG:-}" ]; then
  experiments --icount --wait-idle --timeout 1200 -- env ALLOT_BIN_DIR="$bin" tests/experiments.sh --shares rre
  exit "$failed"
fi

# Switching between allot and the kernel's default takes seconds on an emulated CPU.
experiments --icount --wait-idle --timeout 3000 -- env ALLOT_BIN_DIR="$bin" ALLOT_EXPERIMENT_TIMES=4 tests/experiments.sh --shares

experiments --icount --wait-idle --timeout 1200 -- env ALLOT_BIN_DIR="$bin" tests/experiments.sh --quick sched-ext
# The directory that lab/with-disk adds is found in the environment.
# shellcheck disable=SC2016  # the shell in the lab expands it
experiments --timeout 600 -- env ALLOT_BIN_DIR="$bin" lab/with-disk --latency-us 4000 --swap 256M -- \
  bash -c '"${@:1:$#-1}"' with-disk tests/experiments.sh --memory

# on_disk CPUS NAME SECONDS: on a disk that takes one request at a time, shared by BFQ.
on_disk() {
  # shellcheck disable=SC2016
  experiments --cpus "$1" --icount --timeout 600 -- lab/with-disk --latency-us 4000 --depth 1 -- bash -c 'modprobe bfq
    if "$1/allot" exp run "$2" --seconds "$3" --out "${TMPDIR:-/tmp}/report"; then
      echo "ok experiment:$2"
    else
      echo "FAIL experiment:$2: exit status $?"
    fi' - "$bin" "$2" "$3"
}
on_disk 2 disk-shares 100
on_disk 1 exchange-cpu-disk 60
exit "$failed"
