#!/usr/bin/env bash
# The experiments on real processes, short: each must stay within the bound that it states. Chance may
# take a lottery beyond three standard deviations (3 rows in 1000): it is given five here (6 in 10⁷).
# One line a run; nothing may be left behind.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=${ALLOT_BIN_DIR:-$PWD/target/debug}
allot=$bin/allot
[ -x "$allot" ] || { echo "FAIL experiments: $allot is not built"; exit 1; }
dir=$(mktemp -d) || exit 1
export TMPDIR=$dir
trap 'rm -rf "$dir"' EXIT
failed=0

# within REPORT TIMES: every row's error is at most so many times its bound.
within() {
  python3 - "$1" "$2" <<'PY'
import json, sys
report, times = json.load(open(sys.argv[1])), float(sys.argv[2])
rows = report["rows"]
wrong = [row for row in rows if row["error"] > times * row.get("bound", report["bound"])]
for row in wrong:
    print(row)
sys.exit(1 if wrong or not rows else 0)
PY
}

# experiment LABEL NAME SECONDS POLICY TIMES
experiment() {
  local label="experiment:$1" report=$dir/$1 status
  "$allot" exp run "$2" --seconds "$3" --policy "$4" --seed 1 --out "$report" \
    >"$dir/log" 2>&1 </dev/null
  status=$?
  # 1 is "out of the stated bound", which is judged below.
  if [ "$status" -le 1 ] && within "$report/report.json" "$5" >>"$dir/log" 2>&1; then
    echo "ok $label"
  else
    echo "FAIL $label: exit status $status"
    tail -n 40 "$dir/log" | sed 's/^/    /'
    failed=1
  fi
}

experiment cpu-hierarchy-stride cpu-hierarchy 12 stride 1
experiment cpu-hierarchy-lottery cpu-hierarchy 12 lottery 1.67
experiment rre rre 15 stride 1
experiment insulation insulation 15 stride 1
experiment nice nice 12 stride 1

left=$(pgrep -f "allotd .*$dir" | wc -l)
if [ "$left" -eq 0 ]; then
  echo "ok experiments-leave-nothing-behind"
else
  echo "FAIL experiments-leave-nothing-behind: $left processes"
  failed=1
fi
exit "$failed"
