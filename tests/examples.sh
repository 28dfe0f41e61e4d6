#!/usr/bin/env bash
# Runs the examples of the pages in docs/ and of the README: every block marked ```sh example, each
# block in a fresh directory with a private allotd of its own. One line a block.
set -u
cd "$(dirname "$0")/.." || exit 1
bin=${ALLOT_BIN_DIR:-$PWD/target/debug}
export PATH=$bin:$PATH
for program in allot allot-exp allot-negotiate allotd; do
  [ -x "$bin/$program" ] || { echo "FAIL examples: $bin/$program is not built"; exit 1; }
done
root=$PWD
failed=0

# example FILE NUMBER SCRIPT
example() {
  local name="example:$1:$2" dir output status daemon
  dir=$(mktemp -d) || exit 1
  output=$dir/output
  printf '%s\n' "$3" >"$dir/script"
  export ALLOT_SOCKET=$dir/allotd.sock
  allotd --user --with-parent --state-dir "$dir/state" --socket "$ALLOT_SOCKET" 2>"$dir/log" &
  daemon=$!
  for _ in $(seq 300); do
    allot status >/dev/null 2>&1 && break
    sleep 0.1
  done
  (cd "$dir" && ALLOT_ROOT=$root timeout 120 bash -eu script) >"$output" 2>&1 </dev/null
  status=$?
  kill "$daemon" 2>/dev/null
  wait "$daemon" 2>/dev/null
  if [ "$status" -eq 0 ]; then
    echo "ok $name"
  else
    echo "FAIL $name: exit status $status"
    sed 's/^/    /' "$output" "$dir/log" | tail -n 30
    failed=1
  fi
  rm -rf "$dir"
}

for page in README.md docs/*.md; do
  number=0 block='' inside=0
  while IFS= read -r line || [ -n "$line" ]; do
    case $inside$line in
      '0```sh example') inside=1 block='' ;;
      '1```')
        inside=0 number=$((number + 1))
        example "$page" "$number" "$block"
        ;;
      1*) block+=$line$'\n' ;;
    esac
  done <"$page"
done
exit "$failed"
