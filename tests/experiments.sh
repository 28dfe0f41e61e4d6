#!/usr/bin/env bash
# The experiments on real processes, short. Each row must be within the bound that the report states,
# and of so many quanta more, as a part of what the clients got in that phase: on a busy machine that
# may be little, and a share of few quanta is coarse. Chance may take a lottery beyond three standard
# deviations (3 rows in 1000): it is given five here (6 in 10^7). One line a run; nothing may be left
# behind. `allot exp run` itself is held to the stated bound alone.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=${ALLOT_BIN_DIR:-$PWD/target/debug}
allot=$bin/allot
[ -x "$allot" ] || { echo "FAIL experiments: $allot is not built"; exit 1; }
dir=$(mktemp -d) || exit 1
export TMPDIR=$dir
trap 'rm -rf "$dir"' EXIT
failed=0

# within REPORT TIMES QUANTA: every row's error is at most so many times its bound and so many quanta.
within() {
  python3 - "$@" <<'PY'
import collections, json, sys
report, times, quanta = json.load(open(sys.argv[1])), float(sys.argv[2]), float(sys.argv[3])
phase = lambda row: row["client"].partition("(")[2]
got = collections.Counter()
for row in report["rows"]:
    got[phase(row)] += row["used_seconds"]
wrong = 0
for row in report["rows"]:
    slack = quanta * report["quantum_ns"] / 1e9 / max(got[phase(row)], 1e-9)
    if row["error"] > times * row["bound"] + slack:
        print("beyond", times * row["bound"] + slack, row)
        wrong += 1
sys.exit(1 if wrong or not report["rows"] else 0)
PY
}

# experiment LABEL NAME SECONDS POLICY TIMES QUANTA
experiment() {
  local label="experiment:$1" report=$dir/$1 status
  "$allot" exp run "$2" --seconds "$3" --policy "$4" --seed 1 --out "$report" \
    >"$dir/log" 2>&1 </dev/null
  status=$?
  # 1 is "out of the stated bound", which is judged below.
  if [ "$status" -le 1 ] && within "$report/report.json" "$5" "$6" >>"$dir/log" 2>&1; then
    echo "ok $label"
  else
    echo "FAIL $label: exit status $status"
    tail -n 40 "$dir/log" | sed 's/^/    /'
    failed=1
  fi
}

experiment cpu-hierarchy-stride cpu-hierarchy 12 stride 1 10
experiment cpu-hierarchy-lottery cpu-hierarchy 12 lottery 1.67 10
experiment rre rre 15 stride 1 10
# Sixty-one clients: half a quantum each, as several equal ones may be early or late together.
experiment insulation insulation 15 stride 1 40
experiment nice nice 12 stride 1 10

left=$(pgrep -f "allotd .*$dir" | wc -l)
if [ "$left" -eq 0 ]; then
  echo "ok experiments-leave-nothing-behind"
else
  echo "FAIL experiments-leave-nothing-behind: $left processes"
  failed=1
fi
exit "$failed"
