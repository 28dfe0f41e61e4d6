#!/usr/bin/env bash
# Runs the tests of the scheduler in the kernel (crates/enforce/tests/scx.rs) in the lab, all in one machine.
# Prints one line a test: 'ok name', 'FAIL name: what' or 'SKIP name: reason'.
set -uo pipefail

top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
cd "$top" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/allot-scx-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

# The newest build of the test binary, which cargo names.
program=$(cargo test --locked -p allot-enforce --test scx --no-run --message-format=json 2>"$work/build" |
  sed -n 's/.*"executable":"\([^"]*\/scx-[0-9a-f]*\)".*/\1/p' | tail -n 1)
if [ ! -x "$program" ]; then
  echo "FAIL scx: the tests could not be built: $(tail -n 3 "$work/build" | tr '\n' ' ')"
  exit 1
fi

# One at a time, with all that they say: a test's own lines stand between its name and its result.
lab/run --cpus 2 --timeout 1200 -- env RUST_BACKTRACE=0 "$program" --test-threads=1 --nocapture "$@" \
  >"$work/out" 2>&1 </dev/null
status=$?
cat "$work/out" >&2
if [ "$status" -eq 77 ]; then
  echo "SKIP scx: $(grep '^lab: ' "$work/out" | tail -n 1 | cut -c 6-)"
  exit 0
fi

awk '
  function finish(result) {
    if (name == "") return
    if (result == "ok" && skipped != "") print "SKIP scx:" name ": " skipped
    else if (result == "ok") print "ok scx:" name
    else { print "FAIL scx:" name ": " (why == "" ? "no result" : why); failed = 1 }
    name = ""; skipped = ""; why = ""; told = 0
  }
  /^test result: / { ended = 1; next }
  match($0, /^test [a-z_0-9:]+ \.\.\. /) {
    finish("none")
    name = $2; ran++
    $0 = substr($0, RSTART + RLENGTH)
  }
  name != "" && match($0, /SKIP [a-z_0-9]+: /) { skipped = substr($0, RSTART + RLENGTH) }
  name != "" && told { why = $0; told = 0 }
  name != "" && /panicked at/ { told = 1 }
  name != "" && /^ok$/ { finish("ok") }
  name != "" && /^FAILED$/ { finish("failed") }
  END {
    finish("none")
    if (!ended) { print "FAIL scx: the tests did not end"; failed = 1 }
    exit failed
  }' "$work/out"
