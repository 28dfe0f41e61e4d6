#!/usr/bin/env bash
# The cgroup enforcer on a real kernel: the tests of crates/enforce/tests/cgroup.rs in the lab, as root, where nobody
# else owns the cgroup tree. One line a test.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

binary=$(cargo test --quiet --locked -p allot-enforce --test cgroup --no-run --message-format=json 2>"$log" </dev/null |
  python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and "test" in message["target"]["kind"]: print(message["executable"])')
if [ -z "$binary" ]; then
  echo "FAIL lab-cgroup: the tests could not be built"
  tail -n 20 "$log"
  exit 1
fi

lab/run --cpus 2 --timeout 900 -- "$binary" --test-threads=1 --nocapture >"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  echo "SKIP lab-cgroup: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
  exit 0
fi
# A test's own words may stand between its name and its result.
results=$(awk '
  /^test [^ ]+ \.\.\. / { name = $2; skipped = 0 }
  match($0, /SKIP [^ ]+: .*/) { print substr($0, RSTART, RLENGTH); skipped = 1 }
  /(^|\.\.\. )ok$/ && name != "" { if (!skipped) print "ok lab-cgroup:" name; name = "" }
  /(^|\.\.\. )FAILED$/ && name != "" { print "FAIL lab-cgroup:" name ": see below"; name = "" }
  END { if (name != "") print "FAIL lab-cgroup:" name ": it did not end" }' "$log")
echo "$results"
if [ "$status" -ne 0 ] || [ -z "$results" ]; then
  echo "exit status $status"
  grep -v '^\[ *[0-9.]*\]' "$log" | tail -n 80 | sed 's/^/    /'
  exit 1
fi
