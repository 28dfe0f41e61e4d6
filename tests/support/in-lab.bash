# For shell tests that run in the lab. To be sourced; the first three functions want `tests` set to the names of the lines
# that the test prints, and `bin` to where the binaries are.

# every RESULT WHY: the same for all.
every() { for name in "${tests[@]}"; do echo "$1 $name: $2"; done; }

need_binaries() {
  local program
  for program in allot allotd; do
    [ -x "$bin/$program" ] || { every FAIL "$bin/$program is not built"; exit 1; }
  done
}

# run_in_lab TIMEOUT_S LINES RESULTS COMMAND...: runs it in a machine of two CPUs and passes its tests' lines on. Status 0 if
# it ended so and each said one of RESULTS ('ok', or 'ok|SKIP'); else with the last LINES that it printed.
run_in_lab() {
  local timeout_s=$1 lines=$2 results=$3 output status missing=0 name line
  shift 3
  output=$(mktemp) || exit 1
  # shellcheck disable=SC2064  # the name of now
  trap "rm -f '$output'" EXIT
  "$top/lab/run" --cpus 2 --timeout "$timeout_s" -- "$@" >"$output" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    every SKIP "$(grep '^lab: ' "$output" | tail -n 1 | cut -c 6-)"
    exit 0
  fi
  for name in "${tests[@]}"; do
    line=$(tr -d '\r' <"$output" | grep -aE "^(ok|FAIL|SKIP) $name(:|$)" | head -n 1)
    echo "${line:-FAIL $name: it was not reached}"
    [[ ${line%% *} =~ ^($results)$ ]] || missing=1
  done
  if [ "$missing" -ne 0 ]; then tail -n "$lines" "$output" | sed 's/^/    /'; fi
  [ "$missing" -eq 0 ] && [ "$status" -eq 0 ]
}

# test_binary NAME: where cargo put that test of the enforcers, built now if it was not. Of the whole workspace: for one crate
# alone cargo builds many of its dependencies again, with fewer features.
test_binary() {
  cargo test --locked --workspace --test "$1" --no-run --message-format=json </dev/null |
    grep "/crates/enforce/tests/$1\.rs\"" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1 | grep .
}

# lab_tests TIMEOUT_S NAME PROGRAM...: runs the tests of one file in the lab, by a program if one is given, without what
# `skipped` names. Wants `log` to be a file; sets `failed` to 1 where something failed.
lab_tests() {
  local timeout_s=$1 name=$2 binary status
  shift 2
  binary=$(test_binary "$name" 2>"$log") || {
    echo "FAIL lab-$name: the tests could not be built"
    tail -n 20 "$log" | sed 's/^/    /'
    failed=1
    return
  }
  echo "file lab-$name" >"$log"
  lab/run --cpus 2 --timeout "$timeout_s" -- "$@" "$binary" --test-threads=1 --nocapture "${skipped[@]}" \
    >>"$log" 2>&1 </dev/null
  status=$?
  if [ "$status" -eq 77 ]; then
    echo "SKIP lab-$name: $(grep -E '^(lab|with-disk): ' "$log" | tail -n 1 | sed 's/^[a-z-]*: //')"
    return
  fi
  if ! awk -v files=1 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
    tail -n 80 "$log" | sed 's/^/    /'
    failed=1
  fi
}
