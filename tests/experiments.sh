#!/usr/bin/env bash
# The experiments on real processes, short: they must report all that they promise to, with a verdict that follows from it. On a
# machine that others use nothing is said of times and shares. One line a run; nothing may be left behind.
#
# Shares are judged in the lab, on a clock that counts instructions: each row must be within the bound that the report
# states and so many quanta more, as a part of what the clients got in that phase, since a share of few quanta is coarse. Chance may
# take a lottery beyond the three standard deviations of its bound (3 rows in 1000): it is given five (6 in 10^7). `allot exp run`
# itself is held to the stated bound alone.
#
# tests/experiments.sh [ENFORCER...]         all, at user level; or those that compare times, with these enforcers
# tests/experiments.sh --shares [LABEL...]   those that share the CPU, or these of them, judged
# tests/experiments.sh --quick [ENFORCER...] shares and inversion alone, which must hold what it promises
# tests/experiments.sh --memory              memory-shares alone, on the disk of ALLOT_DISK_DIR; likewise
set -u
quick='' memory='' shares=''
case ${1:-} in
  --shares) shares=yes; shift ;;
  --quick) quick=yes; shift ;;
  --memory) memory=yes; shift ;;
esac
cd "$(dirname "$0")/.." || exit 1
bin=${ALLOT_BIN_DIR:-$PWD/target/debug}
allot=$bin/allot
for program in allot allot-exp allotd; do
  [ -x "$bin/$program" ] || { echo "FAIL experiments: $bin/$program is not built"; exit 1; }
done
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

# has_form DIRECTORY: the report has the form of every experiment's: its files, its keys, its headings.
has_form() {
  python3 - "$@" <<'PY'
import json, os, re, sys
files = set(os.listdir(sys.argv[1]))
assert {"report.json", "table.txt"} <= files, files
assert all(re.search(r"\.(svg|log)$", name) for name in files - {"report.json", "table.txt"}), files
report = json.load(open(sys.argv[1] + "/report.json"))
assert list(report) == """name paper machine enforcer policy seed seconds rows max_error bound ok bound_formula units
    quantum_ns checks kernel_default compared contests wobble allotd_cpu notes""".split(), list(report)
table = open(sys.argv[1] + "/table.txt").read().splitlines()
headings = ["Shares", "Comparisons", "Not judged", "Wobble", "Checks", "Notes"]
found = [line.removesuffix(": none") for line in table if line.removesuffix(": none") in headings]
assert found == headings, found
ends = [line.partition(":")[0] for line in table[-4:]]
assert ends[:3] == ["default", "units", "bound"] and ends[3] in ("ok", "NOT OK"), ends
PY
}

# fail LABEL WHAT LOG
fail() {
  # In one write, as another may say something too.
  printf 'FAIL %s: %s\n%s\n' "$1" "$2" "$(tail -n 40 "$3" | sed 's/^/    /')"
  return 1
}

# beside COMMAND...: in the background, beside at most one other; a failure leaves $dir/failed. For runs of which no time is judged.
beside() {
  while [ "$(jobs -pr | wc -l)" -ge 2 ]; do wait -n; done
  { "$@" || touch "$dir/failed"; } &
}

# experiment LABEL NAME SECONDS POLICY TIMES QUANTA [ENFORCER]
experiment() {
  local label="experiment:$1" report=$dir/$1 status
  "$allot" exp run "$2" --seconds "$3" --policy "$4" --seed 1 --out "$report" ${7:+--enforcer "$7"} >"$report.log" 2>&1 </dev/null
  status=$?
  # 1 is "out of the stated bound", which is judged here.
  if [ "$status" -le 1 ] && has_form "$report" >>"$report.log" 2>&1 &&
    within "$report/report.json" "$5" "$6" >>"$report.log" 2>&1; then
    echo "ok $label"
    return
  fi
  fail "$label" "exit status $status" "$report.log"
}

# is_too_busy STATUS LOG: an experiment refused to share out such short slices on a machine that is so busy, and said so.
is_too_busy() { [ "$1" -eq 2 ] && grep -q 'give more with --seconds' "$2"; }

# run_for SECONDS REPORT ARGUMENT...: what it says is in REPORT.log. Where slices are too short for this machine, four times as long.
run_for() {
  local seconds=$1 report=$2 status
  shift 2
  "$allot" exp run "$@" --seconds "$seconds" --out "$report" >"$report.log" 2>&1 </dev/null
  status=$?
  if is_too_busy "$status" "$report.log"; then
    "$allot" exp run "$@" --seconds $((4 * seconds)) --out "$report" >"$report.log" 2>&1 </dev/null
    status=$?
  fi
  return "$status"
}

# skip_if_busy LABEL STATUS LOG
skip_if_busy() {
  is_too_busy "$2" "$3" || return
  echo "SKIP $1: $(grep 'give more with --seconds' "$3" | tail -n 1 | sed 's/^allot[a-z-]*: //')"
}

# reported LABEL NAME SECONDS POLICY: what is in the report, and that its verdict follows from its rows.
reported() {
  local label="experiment:$1" report=$dir/$1 status
  run_for "$3" "$report" "$2" --policy "$4" --seed 1
  status=$?
  if [ "$status" -le 1 ] && has_form "$report" >>"$report.log" 2>&1 && python3 -c 'import json, sys
report, status = json.load(open(sys.argv[1])), int(sys.argv[2])
assert report["rows"] and all(row["used_seconds"] >= 0 for row in report["rows"])
assert report["ok"] == (status == 0), status' "$report/report.json" "$status" >>"$report.log" 2>&1; then
    echo "ok $label"
    return
  fi
  skip_if_busy "$label" "$status" "$report.log" || fail "$label" "exit status $status" "$report.log"
}

# each_share: LABEL NAME SECONDS POLICY TIMES QUANTA of the shares, and what their rows may be off by.
each_share() {
  cat <<'TEXT'
cpu-hierarchy-stride cpu-hierarchy 12 stride 1 10
cpu-hierarchy-lottery cpu-hierarchy 12 lottery 1.67 10
rre rre 12 stride 1 10
insulation insulation 20 stride 1 40
nice nice 12 stride 1 10
TEXT
}

if [ $# -eq 0 ] && [ -z "$quick$memory$shares" ]; then
  while read -r label name seconds policy _; do beside reported "$label" "$name" "$seconds" "$policy"; done < <(each_share)
fi
if [ -n "$shares" ]; then
  # In the lab the clock goes on while a page is read from the host: allotd is run from memory.
  mkdir "$dir/bin" && cp "$bin/allot" "$bin/allot-exp" "$bin/allotd" "$dir/bin/" || exit 1
  allot=$dir/bin/allot
  # Sixty-one clients of insulation: half a quantum each, as several equal ones may be early or late together.
  while read -r label name seconds rest; do
    # shellcheck disable=SC2086  # the policy and two numbers
    if [ $# -eq 0 ] || [[ " $* " == *" $label "* ]]; then
      experiment "$label" "$name" $((seconds * ${ALLOT_EXPERIMENT_TIMES:-1})) $rest || failed=1
    fi
  done < <(each_share)
  set --
fi

# complete REPORT STATUS ENFORCER: all that the report promises is there, and its verdict follows from its parts.
complete() {
  python3 - "$@" <<'PY'
import json, sys
report, status, enforcer = json.load(open(sys.argv[1] + "/report.json")), int(sys.argv[2]), sys.argv[3]
assert report["enforcer"] == enforcer, report["enforcer"]
assert report["kernel_default"] and report["contests"] and report["checks"], "something is missing"
ok = all(check["ok"] for check in report["checks"]) and all(row["error"] <= row["bound"] for row in report["rows"])
assert report["ok"] == ok, "the verdict is not what its parts say"
assert status == (0 if ok else 1), status
for contest in report["contests"]:
    assert contest["what"] and contest["quantity"], contest
measured = [contest for contest in report["contests"] if contest["allot"] is not None and contest["default"] is not None]
# Somebody who never woke in so short a time has no latency.
assert measured, "nothing was measured"
table = open(sys.argv[1] + "/table.txt").read()
assert all(contest["what"] in table for contest in report["contests"]) and "default" in table, table
PY
}

# contest NAME SECONDS ENFORCER [OPTION...]: with --quick, what it promises must hold as well.
contest() {
  local label="experiment:$1-$3" report=$dir/$1-$3 status
  if [ "$1" = mtr-ls ] && ! "$bin/allotd" --policy mtr-ls --help >/dev/null 2>&1; then
    echo "SKIP $label: this allotd has no mtr-ls"
    return
  fi
  run_for "$2" "$report" "$1" --enforcer "$3" --policy stride "${@:4}"
  status=$?
  if { [ -z "$quick" ] || [ "$status" -eq 0 ]; } && has_form "$report" >>"$report.log" 2>&1 &&
    complete "$report" "$status" "$3" >>"$report.log" 2>&1 && compgen -G "$report/*.svg" >/dev/null; then
    echo "ok $label"
  elif [ -n "$quick" ] || ! skip_if_busy "$label" "$status" "$report.log"; then
    fail "$label" "exit status $status" "$report.log"
  fi
}

# Why an enforcer cannot be had here; nothing where it can.
missing() {
  if [ "$1" != user-level ] && [ "$(id -u)" -ne 0 ]; then
    echo "needs root"
  elif [ "$1" = sched-ext ] && [ ! -e /sys/kernel/sched_ext/state ]; then
    echo "this kernel has no sched_ext"
  elif [ "$1" = cgroup ] && ! grep -qw cpu /sys/fs/cgroup/cgroup.controllers 2>/dev/null; then
    echo "there is no cgroup v2 with the cpu controller here"
  elif [ "$1" != user-level ] && pgrep -x allotd >/dev/null; then
    echo "another allotd may share this machine"
  fi
}

if [ -n "$memory" ]; then
  reason=$(missing cgroup)
  [ -n "${ALLOT_DISK_DIR:-}" ] || reason="there is no disk of a known speed (lab/with-disk makes one)"
  if [ -n "$reason" ]; then
    echo "SKIP experiment:memory-shares: $reason"
  elif "$allot" exp run memory-shares --seconds 40 --seed 1 --out "$dir/memory" >"$dir/log" 2>&1 </dev/null &&
    has_form "$dir/memory" >>"$dir/log" 2>&1 &&
    python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
assert report["ok"] and len(report["checks"]) >= 4 and all(check["ok"] for check in report["checks"])
kept = [it for it in report["contests"] if it["quantity"] == "the least of any look" and it["promised"]]
assert len(kept) == 2 and all(it["allot"] >= it["promised"] - 4 for it in kept), kept' \
      "$dir/memory/report.json" >>"$dir/log" 2>&1; then
    echo "ok experiment:memory-shares"
  else
    echo "FAIL experiment:memory-shares"
    tail -n 40 "$dir/log" | sed 's/^/    /'
    failed=1
  fi
fi

for enforcer in "${@:-user-level}"; do
  [ -z "$memory$shares" ] || break
  reason=$(missing "$enforcer")
  if [ -n "$quick" ]; then
    if [ -n "$reason" ]; then
      echo "SKIP experiment:cpu-hierarchy-$enforcer: $reason"
      echo "SKIP experiment:inversion-$enforcer: $reason"
    else
      experiment "cpu-hierarchy-$enforcer" cpu-hierarchy 12 stride 1 10 "$enforcer" || failed=1
      # On all CPUs: a wait is at most half of what it is without transfers, where a tenth is to be expected.
      contest inversion 14 "$enforcer" --cpus "0-$(($(nproc) - 1))" || failed=1
    fi
    continue
  fi
  for what in "latency 24" "compile 10" "spawn 6" "inversion 9" "mtr-ls 4"; do
    read -r name seconds <<<"$what"
    if [ -n "$reason" ]; then
      echo "SKIP experiment:$name-$enforcer: $reason"
    else
      run=(contest "$name" $((seconds * ${ALLOT_EXPERIMENT_TIMES:-1})) "$enforcer")
      # Only at user level can two enforce at once.
      if [ "$enforcer" = user-level ]; then beside "${run[@]}"; else "${run[@]}" || failed=1; fi
    fi
  done
done

wait
[ ! -e "$dir/failed" ] || failed=1
left=$(pgrep -f "allotd .*$dir" | wc -l)
if [ "$left" -eq 0 ]; then
  echo "ok experiments-leave-nothing-behind${memory:+-of-memory}${shares:+-of-shares}"
else
  echo "FAIL experiments-leave-nothing-behind${memory:+-of-memory}${shares:+-of-shares}: $left processes"
  failed=1
fi
exit "$failed"
