#!/usr/bin/env bash
# The scheduler in the kernel, in the lab; all of its tests with ALLOT_LONG set (`make soak`). 430 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
if [ -z "${ALLOT_LONG:-}" ]; then
  lab_tests lab-scx --icount --wait-idle --
else
  lab_tests soak-scx --icount --wait-idle -- && lab_tests soak-caches --icount --wait-idle --cpus 4 --caches 2 --
fi
