#!/usr/bin/env bash
# Memory on a real kernel, in the lab, as root: the reclaimer on a disk of a known speed, and the cgroups' shares. Those that look
# for long run with ALLOT_LONG set (`make soak`). 130 s in the lab.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/in-lab.bash
. tests/support/in-lab.bash
profile=lab-memory
if [ -n "${ALLOT_LONG:-}" ]; then profile=soak-memory; fi
# The directory that lab/with-disk adds is no argument of the tests: they find it in the environment.
# shellcheck disable=SC2016  # the shell in the lab expands it
lab_tests "$profile" -- lab/with-disk --latency-us 4000 --swap 256M -- bash -c '"${@:1:$#-1}"' with-disk
