#!/usr/bin/env bash
# A system's allotd with its scheduler in the kernel, in the lab: two users with hogs, policies changed while they
# run, members, transfers, guests, the trace, a hostile user; allotd stopped and killed, the scheduler thrown out, brought
# back, given up. One boot, two to four minutes without KVM. One line a test.
set -uo pipefail
top=$(cd "$(dirname "$(realpath "$0")")/.." && pwd -P)
bin=${ALLOT_BIN_DIR:-$top/target/debug}
tests=(kernel-choice kernel-shares-stride kernel-everybody kernel-shares-lottery kernel-shares-mtr-ls
  kernel-policy-is-roots kernel-join kernel-cgroup kernel-transfer kernel-guest kernel-trace kernel-hostile
  kernel-stopped kernel-thrown-out kernel-killed kernel-return kernel-gives-up)
every() { for name in "${tests[@]}"; do echo "$1 $name: $2"; done; }

for program in allot allotd; do
  [ -x "$bin/$program" ] || { every FAIL "$bin/$program is not built"; exit 1; }
done
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
"$top/lab/run" --cpus 2 --timeout 600 -- env PATH="$bin:$PATH" python3 "$top/tests/kernel.py" >"$output" 2>&1 </dev/null
status=$?
if [ "$status" -eq 77 ]; then
  every SKIP "$(grep '^lab: ' "$output" | tail -n 1 | cut -c 6-)"
  exit 0
fi
missing=0
for name in "${tests[@]}"; do
  line=$(tr -d '\r' <"$output" | grep -aE "^(ok|FAIL|SKIP) $name(:|$)" | head -n 1)
  echo "${line:-FAIL $name: it was not reached}"
  case $line in ok* | SKIP*) ;; *) missing=1 ;; esac
done
if [ "$missing" -ne 0 ]; then tail -n 60 "$output" | sed 's/^/    /'; fi
[ "$missing" -eq 0 ] && [ "$status" -eq 0 ]
