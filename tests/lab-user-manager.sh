#!/usr/bin/env bash
# A private allotd on a machine with systemd, in the lab: the user's manager delegates cgroups, so nothing is held. Three
# shells' foreground jobs have their shares; a job of the session and one of the manager's own are taken in; allotd is
# stopped and killed. One boot. One line a test.
set -uo pipefail
top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
bin=${ALLOT_BIN_DIR:-$top/target/debug}
tests=(user-manager-choice user-manager-shares user-manager-places user-manager-adopts user-manager-keeps-limits
  user-manager-stopped user-manager-killed user-manager-scope-ends user-manager-not-delegated)
# shellcheck source=tests/support/in-lab.bash
. "$top/tests/support/in-lab.bash"

need_binaries
run_in_lab 1400 60 'ok|SKIP' --icount --wait-idle -- env PATH="$bin:$PATH" \
  "$top/crates/enforce-tests/tests/support/under-systemd.sh" /usr/bin/python3 "$top/tests/user_manager.py"
