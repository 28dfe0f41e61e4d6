#!/usr/bin/env bash
# Every test is run somewhere: each program of tests has some; each that is marked for the lab is in a profile of
# .config/nextest.toml, and a script runs that profile.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

list() { cargo nextest list --workspace --locked "$@" 2>"$work/log"; }
# marked PROFILE: the names of the lab's tests in that profile.
marked() { list --profile "$1" --run-ignored only --message-format oneline | sort; }
# report NAME LINES: ok if there are no lines.
report() {
  if [ -z "$2" ]; then echo "ok $1"; else echo "FAIL $1: $(tr '\n' ' ' <<<"$2")"; failed=1; fi
}

if ! list --message-format json >"$work/all.json"; then
  echo "FAIL every-program-has-tests: $(tail -n 3 "$work/log" | tr '\n' ' ')"
  exit 1
fi
report every-program-has-tests "$(python3 - "$work/all.json" <<'PY'
import json, sys
suites = json.load(open(sys.argv[1]))["rust-suites"].values()
print(*(suite["binary-id"] for suite in suites if suite["kind"] == "test" and not suite["testcases"]))
PY
)"
profiles=$(sed -nE 's/^\[profile\.((lab|soak)-[a-z-]+)\]$/\1/p' .config/nextest.toml)
marked lab >"$work/marked"
for profile in $profiles; do marked "$profile"; done | sort -u >"$work/run"
report every-lab-test-has-a-profile "$(comm -23 "$work/marked" "$work/run")"
report every-lab-profile-is-run "$(for profile in $profiles; do
  grep -qE "(lab_tests |profile=)$profile\b" tests/*.sh || echo "$profile"
done)"
exit "$failed"
