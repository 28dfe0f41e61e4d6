#!/usr/bin/env bash
# Disks on a real kernel, in the lab, as root: devices, and shares by tickets. On a clock that counts instructions: a disk that is
# slower at times is another disk, and its shares are not what was measured. 184 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
lab_tests lab-disk --icount --
