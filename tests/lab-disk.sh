#!/usr/bin/env bash
# Disks on a real kernel, in the lab, as root: crates/enforce/tests/disk.rs. One line a test. 75 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

binary=$(test_binary disk 2>"$log") || {
  echo "FAIL lab-disk: the tests could not be built"
  tail -n 20 "$log" | sed 's/^/    /'
  exit 1
}
echo "file lab-disk" >"$log"
lab/run --cpus 2 --timeout 300 -- "$binary" --test-threads=1 --nocapture >>"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  echo "SKIP lab-disk: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
  exit 0
fi
if ! awk -v files=1 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
  tail -n 80 "$log" | sed 's/^/    /'
  exit 1
fi
