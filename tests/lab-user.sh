#!/usr/bin/env bash
# In the lab, on a clock that counts instructions: shares by the user-level enforcer and by weights, among real processes; and what
# would disturb a machine that others use. 270 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
# Weights of cgroup v1 want its CPU controller.
mount='mkdir -p /run/cpu && mount -t cgroup -o cpu none /run/cpu && exec "$@"'
lab_tests lab-user --icount --wait-idle -- sh -c "$mount" sh
