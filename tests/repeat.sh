#!/usr/bin/env bash
# On a machine whose clock counts instructions the scheduler in the kernel does the same twice, to the nanosecond; with
# another seed it does something else. Prints one line a test: 'ok name', 'FAIL name: what' or 'SKIP name: reason'.
# 64 s in the lab.
set -uo pipefail

top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
cd "$top" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/allot-repeat-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0
# report NAME WHAT CHECK...: ok if the check holds.
report() {
  local name=$1 what=$2
  shift 2
  if "$@"; then echo "ok $name"; else echo "FAIL $name: $what"; failed=1; fi
}

program=$(cargo build --locked --workspace --example repeat --message-format=json 2>"$work/build" |
  sed -n 's/.*"executable":"\([^"]*\/repeat\)".*/\1/p' | tail -n 1)
if [ ! -x "$program" ]; then
  echo "FAIL repeat: the program could not be built: $(tail -n 3 "$work/build" | tr '\n' ' ')"
  exit 1
fi

# run NAME SEED
run() {
  lab/repeat --timeout 300 -- "$program" "$2" 1000 >"$work/$1" 2>"$work/$1.err" </dev/null
  local status=$?
  cat "$work/$1.err" >&2
  if [ "$status" -eq 77 ]; then
    for test in ran same-seed other-seed; do
      echo "SKIP repeat-$test: $(grep '^lab: ' "$work/$1.err" | tail -n 1 | cut -c 6-)"
    done
    exit 0
  fi
  if [ "$status" -ne 0 ]; then
    echo "FAIL repeat-$1: exit status $status: $(tail -n 1 "$work/$1.err")"
    exit 1
  fi
}
run first 1
run second 1
run other 2

# wins NAME: who was chosen, in order, and when.
wins() { awk '$1 ~ /^[0-9]+$/ { print $1, $2 }' "$work/$1"; }
chosen() { wins first | awk '{ n[$2]++ } END { for (name in n) if (n[name] >= 10) kinds++; exit kinds < 5 }'; }
# Every one of the five was chosen some times, or there is nothing to compare.
report repeat-ran "it has $(wins first | wc -l) choices: $(tail -n 7 "$work/first" | tr '\n' ';')" chosen
report repeat-same-seed "$(cmp "$work/first" "$work/second" 2>&1)" cmp -s "$work/first" "$work/second"
differs() { [ "$(wins first | cut -d ' ' -f 2 | sha256sum)" != "$(wins other | cut -d ' ' -f 2 | sha256sum)" ]; }
report repeat-other-seed "another seed gave the same winners" differs
echo "# $(wins first | wc -l) choices, sha256 $(sha256sum <"$work/first" | cut -c 1-16); with another seed $(wins other |
  wc -l), $(sha256sum <"$work/other" | cut -c 1-16)"
exit "$failed"
