#!/usr/bin/env bash
# Memory on a real kernel, in the lab, as root: the reclaimer on a disk of a known speed (crates/enforce/tests/memory.rs), and
# the cgroups' shares (cgroup_memory.rs). One line a test. Those that look for long run with ALLOT_LONG set (`make soak`).
# 130 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash

failed=0
skipped=()
if [ -z "${ALLOT_LONG:-}" ]; then
  skipped=(--skip without_minima --skip tickets_decide --skip the_machine_counts)
fi

# The directory that lab/with-disk adds is no argument of the tests: they find it in the environment.
# shellcheck disable=SC2016  # the shell in the lab expands it
lab_tests 900 memory lab/with-disk --latency-us 4000 --swap 256M -- bash -c '"${@:1:$#-1}"' with-disk
lab_tests 900 cgroup_memory
exit "$failed"
