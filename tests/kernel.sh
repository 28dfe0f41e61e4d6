#!/usr/bin/env bash
# A system's allotd with its scheduler in the kernel, in the lab: two users with hogs, policies changed while they
# run, members, transfers, guests, the trace, a hostile user; allotd stopped and killed, the scheduler thrown out, brought
# back, given up, its loader killed. One boot, 240 s in the lab without KVM. One line a test.
set -uo pipefail
top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
bin=${ALLOT_BIN_DIR:-$top/target/debug}
tests=(kernel-choice kernel-loader kernel-shares-stride kernel-everybody kernel-shares-lottery kernel-shares-mtr-ls
  kernel-policy-is-roots kernel-join kernel-cgroup kernel-transfer kernel-guest kernel-trace kernel-hostile
  kernel-stopped kernel-thrown-out kernel-killed kernel-return kernel-gives-up kernel-loader-killed)
# shellcheck source=tests/support/in-lab.bash
. "$top/tests/support/in-lab.bash"

need_binaries
run_in_lab 1400 60 'ok|SKIP' --icount --wait-idle -- env PATH="$bin:$PATH" python3 "$top/tests/kernel.py"
