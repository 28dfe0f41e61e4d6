#!/usr/bin/env bash
# Runs the tests of the scheduler in the kernel (crates/enforce/tests/scx.rs and scx_differential.rs) in the lab, all in
# one machine but one. Arguments go to both programs: parts of the names of the tests that are wanted.
# Prints one line a test: 'ok name', 'FAIL name: what' or 'SKIP name: reason'. The longest run with ALLOT_LONG set
# (`make soak`), or when they are named.
# 200 s in the lab.
set -uo pipefail

top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
cd "$top" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/allot-scx-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

files=(scx scx_differential)
programs=()
for file in "${files[@]}"; do
  program=$(test_binary "$file" 2>"$work/build") || {
    echo "FAIL $file: the tests could not be built: $(tail -n 3 "$work/build" | tr '\n' ' ')"
    exit 1
  }
  programs+=("$file" "$program")
done

# One at a time, with all that they say: a test's own lines stand between its name and its result.
# in_lab OPTIONS... -- ARGUMENTS OF THE PROGRAMS...
in_lab() {
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  # shellcheck disable=SC2016  # the guest's shell expands these
  lab/run "${options[@]}" --timeout 1400 -- env RUST_BACKTRACE=0 ${ALLOT_FORKS+"ALLOT_FORKS=$ALLOT_FORKS"} bash -c '
    status=0
    while [ "$1" != -- ]; do
      file=$1 program=$2
      shift 2
      programs+=("$file" "$program")
    done
    shift
    set -- --test-threads=1 --nocapture "$@"
    for ((i = 0; i < ${#programs[@]}; i += 2)); do
      echo "file ${programs[i]}"
      "${programs[i + 1]}" "$@" 2>&1 || status=1
    done
    exit $status' lab "${programs[@]}" "$@" >>"$work/out" 2>&1 </dev/null
}

# One test wants a machine whose CPUs do not share one cache.
apart=several_caches_are_shared_as_one
# The first for its hundreds of processes; the others' subjects are met in tests/kernel.sh and on one CPU as well.
long=(two_thousand_hogs_let_nobody_wait_beyond_the_bound cpus_may_come_and_go
  it_attaches_with_the_first_plan_and_goes_when_told
  a_lottery_on_all_cpus_draws_and_charges_as_the_pure_policy_says)
skipped=(--skip "$apart")
if [ -z "${ALLOT_LONG:-}" ] && [ $# -eq 0 ]; then
  for name in "${long[@]}"; do skipped+=(--skip "$name"); done
fi
in_lab --cpus 2 -- "${skipped[@]}" "$@"
status=$?
runs=1
if [ "$status" -ne 77 ] && { { [ -n "${ALLOT_LONG:-}" ] && [ $# -eq 0 ]; } || [[ " $* " == *several* ]]; }; then
  programs=("${programs[@]:0:2}")
  in_lab --cpus 4 --caches 2 -- "$apart"
  runs=2
fi
cat "$work/out" >&2
if [ "$status" -eq 77 ]; then
  for file in "${files[@]}"; do echo "SKIP $file: $(grep '^lab: ' "$work/out" | tail -n 1 | cut -c 6-)"; done
  exit 0
fi

awk -v files="$((${#files[@]} + runs - 1))" -f tests/support/libtest.awk "$work/out"
