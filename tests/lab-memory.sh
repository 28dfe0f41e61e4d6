#!/usr/bin/env bash
# The reclaimer on a real kernel, in the lab, as root, on a disk of a known speed: crates/enforce/tests/memory.rs. One line
# a test. 200 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

binary=$(test_binary memory 2>"$log") || {
  echo "FAIL lab-memory: the tests could not be built"
  tail -n 20 "$log" | sed 's/^/    /'
  exit 1
}
echo "file lab-memory" >"$log"
# The directory that lab/with-disk adds is no argument of the tests: they find it in the environment.
# shellcheck disable=SC2016  # the shell in the lab expands it
lab/run --cpus 2 --timeout 900 -- lab/with-disk --latency-us 4000 --swap 256M -- \
  bash -c 'exec "$0" --test-threads=1 --nocapture' "$binary" >>"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  echo "SKIP lab-memory: $(grep -E '^(lab|with-disk): ' "$log" | tail -n 1 | sed 's/^[a-z-]*: //')"
  exit 0
fi
if ! awk -v files=1 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
  tail -n 80 "$log" | sed 's/^/    /'
  exit 1
fi
