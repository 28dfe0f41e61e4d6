#!/usr/bin/env bash
# Tests scripts/run-tests: what it counts, and that nothing which died or did not run passes.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# A tree of its own, with a cargo that prints what the test puts into $work/cargo-test and exits with its status.
mkdir -p "$work"/{tree/scripts,tree/lab,tree/tests,bin}
cp "$top/scripts/run-tests" "$work/tree/scripts/"
cat >"$work/bin/cargo" <<'CARGO'
#!/bin/sh
case $1 in
  test) cat "$FAKE/cargo-test"; exit "$(cat "$FAKE/cargo-status")" ;;
  build) mkdir -p "$CARGO_TARGET_DIR/debug" ;;
  clippy) exit "$(cat "$FAKE/clippy-status")" ;;
esac
CARGO
# shellcheck disable=SC2016  # the script expands these
printf '#!/bin/sh\ncat "$FAKE/lab-output"; exit "$(cat "$FAKE/lab-status")"\n' >"$work/tree/lab/test"
chmod +x "$work/bin/cargo" "$work/tree/lab/test"
git -C "$work/tree" init -q

# expect NAME LAST_LINE STATUS: runs the tree's tests and compares.
expect() {
  local output status last
  output=$(cd / && unset CARGO_TARGET_DIR && FAKE=$work PATH=$work/bin:$PATH "$work/tree/scripts/run-tests" 2>&1)
  status=$?
  last=$(tail -n 1 <<<"$output")
  if [ "$last" = "$2" ] && [ "$status" -eq "$3" ]; then
    echo "ok test-runner-$1"
  else
    echo "FAIL test-runner-$1: '$last' with status $status, expected '$2' with $3"
    failures=$((failures + 1))
  fi
}
# given CARGO_STATUS LAB_STATUS LAB_OUTPUT, cargo's output on standard input.
given() {
  cat >"$work/cargo-test"
  echo "$1" >"$work/cargo-status"
  echo "$2" >"$work/lab-status"
  printf '%b' "$3" >"$work/lab-output"
}
result() { echo "test result: $1. $2 passed; $3 failed; $4 ignored; 0 measured; 0 filtered out; finished in 0.00s"; }
running() { echo "     Running unittests src/lib.rs (target/debug/deps/$1-0123)"; }
echo 0 >"$work/clippy-status"

# fmt and clippy are one test each, lab's line a third.
given 0 0 'ok lab-boots\n' < <(running a; result ok 5 0 0)
expect all-pass "8 passed, 0 failed, 0 skipped" 0

given 0 0 'SKIP lab-boots: no QEMU\n' < <(running a; echo "test x ... SKIP x: no root"; echo "SKIP x: no root"; result ok 5 0 1)
expect skips-are-not-passes "6 passed, 0 failed, 3 skipped" 0

given 101 0 'ok lab-boots\n' < <(running a; result FAILED 4 2 0; running b; result ok 3 0 0)
expect failures-add-up "10 passed, 2 failed, 0 skipped" 1

given 101 0 'ok lab-boots\n' < <(running a; result ok 4 0 0; running b; echo "signal: 6, SIGABRT")
expect a-binary-that-dies-fails "7 passed, 1 failed, 0 skipped" 1

given 101 0 'ok lab-boots\n' < <(echo "error: could not compile")
expect a-compile-error-fails "3 passed, 1 failed, 0 skipped" 1

given 0 0 '' < <(running a; result ok 5 0 0)
expect a-silent-script-fails "7 passed, 1 failed, 0 skipped" 1

given 0 1 'ok lab-boots\n' < <(running a; result ok 5 0 0)
expect a-script-that-dies-fails "8 passed, 1 failed, 0 skipped" 1

given 0 1 'FAIL lab-boots: panic\nok lab-output\n' < <(running a; result ok 5 0 0)
expect a-failing-line-fails "8 passed, 1 failed, 0 skipped" 1

echo 1 >"$work/clippy-status"
given 0 0 'ok lab-boots\n' < <(running a; result ok 5 0 0)
expect clippy-fails "7 passed, 1 failed, 0 skipped" 1

# Those that run in the lab go two at a time, and none is lost.
echo 0 >"$work/clippy-status"
for name in one two three; do
  printf '#!/bin/sh\n# 5 s in the lab\nsleep 0.2; echo "ok %s"\n' "$name" >"$work/tree/tests/$name.sh"
done
printf '#!/bin/sh\n# 9 s in the lab\necho "ok four"; exit 1\n' >"$work/tree/tests/four.sh"
chmod +x "$work"/tree/tests/*.sh
given 0 0 'ok lab-boots\n' < <(running a; result ok 5 0 0)
expect pairs-are-counted "12 passed, 1 failed, 0 skipped" 1

[ "$failures" -eq 0 ]
