#!/usr/bin/env bash
# Tests scripts/run-tests: what it counts, and that nothing which died or did not run passes.
set -uo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# A tree of its own, with a cargo that leaves the test's report and prints what it was given, and exits with its status.
mkdir -p "$work"/{tree/scripts,tree/lab,tree/tests/support,bin}
cp "$top/scripts/run-tests" "$work/tree/scripts/"
cp "$top"/tests/support/{host-tests,doc-tests,junit.py} "$work/tree/tests/support/"
cat >"$work/bin/cargo" <<'CARGO'
#!/bin/sh
case $1 in
  nextest)
    mkdir -p target/nextest/host
    if [ -s "$FAKE/report" ]; then cp "$FAKE/report" target/nextest/host/junit.xml; fi
    exit "$(cat "$FAKE/nextest-status")" ;;
  test) cat "$FAKE/doc-tests" ;;
  build) mkdir -p "$CARGO_TARGET_DIR/debug" ;;
  clippy) exit "$(cat "$FAKE/clippy-status")" ;;
esac
CARGO
# shellcheck disable=SC2016  # the script expands these
printf '#!/bin/sh\ncat "$FAKE/lab-output"; exit "$(cat "$FAKE/lab-status")"\n' >"$work/tree/lab/test"
chmod +x "$work/bin/cargo" "$work/tree/lab/test"
git -C "$work/tree" init -q

# expect NAME LAST_LINE STATUS: runs the tree's tests and compares; what they printed is in $work/output.
expect() {
  local status last
  (cd / && unset CARGO_TARGET_DIR && FAKE=$work PATH=$work/bin:$PATH "$work/tree/scripts/run-tests") >"$work/output" 2>&1
  status=$?
  last=$(tail -n 1 "$work/output")
  if [ "$last" = "$2" ] && [ "$status" -eq "$3" ]; then
    echo "ok test-runner-$1"
  else
    echo "FAIL test-runner-$1: '$last' with status $status, expected '$2' with $3"
    failures=$((failures + 1))
  fi
}
# shows NAME TEXT: the run before printed this.
shows() {
  if grep -qF -- "$2" "$work/output"; then
    echo "ok test-runner-$1"
  else
    echo "FAIL test-runner-$1: '$2' was not printed: $(grep -aE 'FAIL|SKIP' "$work/output" | tr '\n' ' ')"
    failures=$((failures + 1))
  fi
}
# given NEXTEST_STATUS LAB_STATUS LAB_OUTPUT, the report's tests on standard input.
given() {
  { echo '<testsuites><testsuite name="allot-a">' && cat && echo '</testsuite></testsuites>'; } >"$work/report"
  echo "$1" >"$work/nextest-status"
  echo "$2" >"$work/lab-status"
  printf '%b' "$3" >"$work/lab-output"
}
# passes N, fails N: so many tests of the report.
passes() { for ((i = 0; i < $1; i++)); do echo "<testcase name=\"passes_$i\" time=\"0.1\"/>"; done; }
fails() {
  for ((i = 0; i < $1; i++)); do
    echo "<testcase name=\"fails_$i\" time=\"0.1\"><failure message=\"test abort with signal 6\"/>" \
      "<system-err>thread 'x' panicked at a.rs:$i</system-err></testcase>"
  done
}
echo 0 >"$work/clippy-status"
printf 'running 1 test\ntest src/lib.rs - a (line 3) ... ok\n' >"$work/doc-tests"

# fmt, clippy and the example in the documentation are one test each, lab's line a fourth.
given 0 0 'ok lab-boots\n' < <(passes 5)
expect all-pass "9 passed, 0 failed, 0 skipped" 0

given 0 0 'SKIP lab-boots: no QEMU\n' < <(passes 5
  echo '<testcase name="x" time="0"><system-out>test x ... SKIP x: no root' '</system-out></testcase>'
  echo '<testcase name="y" time="0"><system-err>SKIP y: no disk' '</system-err></testcase>')
expect skips-are-not-passes "8 passed, 0 failed, 3 skipped" 0
shows skips-have-reasons "SKIP allot-a::y: no disk"

given 100 0 'ok lab-boots\n' < <(passes 7; fails 2)
expect failures-add-up "11 passed, 2 failed, 0 skipped" 1
shows failures-are-shown "thread 'x' panicked at a.rs:1"

given 104 0 'ok lab-boots\n' < <(passes 5)
expect a-binary-that-dies-fails "9 passed, 1 failed, 0 skipped" 1

given 101 0 'ok lab-boots\n' </dev/null
: >"$work/report"
expect a-compile-error-fails "4 passed, 1 failed, 0 skipped" 1

given 4 0 'ok lab-boots\n' </dev/null
expect no-tests-fail "4 passed, 1 failed, 0 skipped" 1

given 0 0 '' < <(passes 5)
expect a-silent-script-fails "8 passed, 1 failed, 0 skipped" 1

given 0 1 'ok lab-boots\n' < <(passes 5)
expect a-script-that-dies-fails "9 passed, 1 failed, 0 skipped" 1

given 0 1 'FAIL lab-boots: panic\n    why\nok lab-output\n' < <(passes 5)
expect a-failing-line-fails "9 passed, 1 failed, 0 skipped" 1

given 0 0 'ok lab-boots\n' < <(passes 5)
printf 'test src/lib.rs - a (line 3) ... FAILED\n' >"$work/doc-tests"
expect a-failing-example-fails "8 passed, 1 failed, 0 skipped" 1
printf 'error: could not compile\n' >"$work/doc-tests"
expect silent-examples-fail "8 passed, 1 failed, 0 skipped" 1
printf 'test src/lib.rs - a (line 3) ... ok\n' >"$work/doc-tests"

echo 1 >"$work/clippy-status"
expect clippy-fails "8 passed, 1 failed, 0 skipped" 1
echo 0 >"$work/clippy-status"

# A step that hangs is a failure.
printf '#!/bin/sh\necho "ok before"; sleep 100\n' >"$work/tree/tests/hangs.sh"
chmod +x "$work/tree/tests/hangs.sh"
STEP_SECONDS=2 expect a-hang-fails "10 passed, 1 failed, 0 skipped" 1
rm "$work/tree/tests/hangs.sh"

# Those that run in the lab go two at a time, and none is lost.
for name in one two three; do
  printf '#!/bin/sh\n# 5 s in the lab\nsleep 0.2; echo "ok %s"\n' "$name" >"$work/tree/tests/$name.sh"
done
printf '#!/bin/sh\n# 9 s in the lab\necho "ok four"; exit 1\n' >"$work/tree/tests/four.sh"
chmod +x "$work"/tree/tests/*.sh
expect pairs-are-counted "13 passed, 1 failed, 0 skipped" 1

[ "$failures" -eq 0 ]
