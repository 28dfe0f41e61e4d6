#!/usr/bin/env bash
# The cgroup enforcer on a real kernel, in the lab, as root: crates/enforce/tests/cgroup.rs where nobody else owns the
# cgroup tree, and cgroup_systemd.rs where systemd does. One line a test. 288 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
failed=0 skipped=()

lab_tests 600 cgroup
lab_tests 600 cgroup_systemd crates/enforce/tests/support/under-systemd.sh
exit "$failed"
