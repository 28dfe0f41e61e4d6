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

# run_in_lab TIMEOUT_S LINES RESULTS [OPTION OF lab/run...] -- COMMAND...: runs it in a machine of two CPUs, and passes its tests'
# lines on. Status 0 if it ended so and each said one of RESULTS ('ok', or 'ok|SKIP'); else with the last LINES that it printed.
run_in_lab() {
  local timeout_s=$1 lines=$2 results=$3 output status missing=0 name line
  shift 3
  output=$(mktemp) || exit 1
  # shellcheck disable=SC2064  # the name of now
  trap "rm -f '$output'" EXIT
  "$top/lab/run" --cpus 2 --timeout "$timeout_s" "$@" >"$output" 2>&1 </dev/null
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

# lab_tests PROFILE [OPTION OF lab/run...] -- [PROGRAM...]: runs the tests of that profile of .config/nextest.toml in the lab,
# by a program if one is given. One line a test; status 1 if one failed.
lab_tests() {
  local profile=$1 log options=() status
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  # The guest writes its report there, and reads what was built.
  local folder=$PWD/target/nextest/$profile
  log=$(mktemp) || return
  rm -rf "$folder" && mkdir -p "$folder" || return
  if ! cargo nextest list --workspace --locked --list-type binaries-only --message-format json >"$folder/binaries" 2>"$log" ||
    ! cargo metadata --locked --format-version 1 >"$folder/metadata" 2>>"$log"; then
    echo "FAIL $profile: the tests could not be built"
    tail -n 20 "$log" | sed 's/^/    /'
    rm "$log"
    return 1
  fi
  # Naming the functions of a backtrace takes minutes beside hogs.
  RUST_BACKTRACE=0 lab/run --timeout 1400 --rw "$folder" "${options[@]}" -- "$@" "$(command -v cargo-nextest)" nextest run --profile "$profile" \
    --run-ignored only --binaries-metadata "$folder/binaries" --cargo-metadata "$folder/metadata" >"$log" 2>&1 </dev/null
  status=$?
  cat "$log" >&2
  if [ "$status" -eq 77 ]; then
    echo "SKIP $profile: $(grep -E '^(lab|with-disk): ' "$log" | tail -n 1 | sed 's/^[a-z-]*: //')"
    status=0
  else
    tests/support/junit.py "$folder/junit.xml" || status=1
  fi
  rm "$log"
  return "$status"
}
