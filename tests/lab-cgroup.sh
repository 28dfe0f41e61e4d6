#!/usr/bin/env bash
# The cgroup enforcer on a real kernel, in the lab, as root: where nobody else owns the cgroup tree, and where systemd does.
# 288 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
lab_tests lab-cgroup --icount --wait-idle --
status=$?
lab_tests lab-systemd --icount --wait-idle -- crates/enforce-tests/tests/support/under-systemd.sh && exit "$status"
