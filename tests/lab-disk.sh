#!/usr/bin/env bash
# Disks on a real kernel, in the lab, as root: crates/enforce/tests/disk.rs (devices) and cgroup_disks.rs (shares by
# tickets), in one machine. One line a test. 184 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

commands=''
for name in disk cgroup_disks; do
  binary=$(test_binary "$name" 2>"$log") || {
    echo "FAIL lab-$name: the tests could not be built"
    tail -n 20 "$log" | sed 's/^/    /'
    exit 1
  }
  commands+="echo file lab-$name; $(printf %q "$binary") --test-threads=1 --nocapture 2>&1 || status=1; "
done
# The second runs whatever became of the first. On a clock that counts instructions: a disk that is slower at times is another
# disk, and its shares are not what was measured.
lab/run --icount --cpus 2 --timeout 1400 -- "status=0; $commands exit \$status" >"$log" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  echo "SKIP lab-disk: $(grep '^lab: ' "$log" | tail -n 1 | cut -c 6-)"
  exit 0
fi
if ! awk -v files=2 -f tests/support/libtest.awk "$log" || [ "$status" -ne 0 ]; then
  tail -n 80 "$log" | sed 's/^/    /'
  exit 1
fi
