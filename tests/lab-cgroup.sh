#!/usr/bin/env bash
# The cgroup enforcer on a real kernel, in the lab, as root: crates/enforce/tests/cgroup.rs where nobody else owns the
# cgroup tree, and cgroup_systemd.rs where systemd does. One line a test. 223 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
failed=0

# tests NAME PROGRAM...: runs the tests of one file in the lab, by a program if one is given.
tests() {
  local name=$1 binary status results
  shift
  binary=$(cargo test --quiet --locked -p allot-enforce --test "$name" --no-run --message-format=json 2>"$log" </dev/null |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and "test" in message["target"]["kind"]: print(message["executable"])')
  if [ -z "$binary" ]; then
    echo "FAIL lab-$name: the tests could not be built"
    tail -n 20 "$log" | sed 's/^/    /'
    failed=1
    return
  fi
  lab/run --cpus 2 --timeout 600 -- "$@" "$binary" --test-threads=1 --nocapture >"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    echo "SKIP lab-$name: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
    return
  fi
  # A test's own words may stand between its name and its result.
  results=$(awk -v file="lab-$name" '
    /^test [^ ]+ \.\.\. / { name = $2; skipped = 0 }
    match($0, /SKIP [^ ]+: .*/) { print substr($0, RSTART, RLENGTH); skipped = 1 }
    /(^|\.\.\. )ok$/ && name != "" { if (!skipped) print "ok " file ":" name; name = "" }
    /(^|\.\.\. )FAILED$/ && name != "" { print "FAIL " file ":" name ": see below"; name = "" }
    END { if (name != "") print "FAIL " file ":" name ": it did not end" }' "$log")
  if [ -n "$results" ]; then echo "$results"; fi
  if [ "$status" -ne 0 ] || [ -z "$results" ]; then
    grep -q '^FAIL ' <<<"$results" || echo "FAIL lab-$name: exit status $status"
    tail -n 80 "$log" | sed 's/^/    /'
    failed=1
  fi
}

tests cgroup
tests cgroup_systemd crates/enforce/tests/support/under-systemd.sh
exit "$failed"
