#!/usr/bin/env bash
# under-systemd.sh COMMAND...: in the lab, runs a command on a machine whose init is systemd, which owns the cgroup
# tree: in a process-id, mount and cgroup namespace of its own. Answers as the command does; 77 if there is no systemd.
set -u
for need in /lib/systemd/systemd dbus-daemon busctl unshare nsenter; do
  command -v "$need" >/dev/null || { echo "lab: $need is not installed" >&2; exit 77; }
done
work=$(mktemp -d) || exit 1
cat >"$work/init" <<'INIT'
mount -t tmpfs tmpfs /run || exit
mkdir -p /run/systemd/system /run/dbus
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit
for unit in dbus.service dbus.socket; do
  sed -e '/^Requires=/d; /^After=/d; /^\[Unit\]/a DefaultDependencies=no' "/lib/systemd/system/$unit" \
    >"/run/systemd/system/$unit"
done
# /tmp may hold what is to be run.
ln -s /dev/null /run/systemd/system/tmp.mount
printf '[Unit]\nDefaultDependencies=no\nWants=dbus.socket\n' >/run/systemd/system/lab.target
export container=lab
exec /lib/systemd/systemd --system --unit=lab.target --log-target=console --show-status=no
INIT
# A cgroup that looks like the whole tree to who is in it, where only systemd's processes may be.
echo "+cpu +io +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/machine || exit 1
(
  echo "$BASHPID" >/sys/fs/cgroup/machine/cgroup.procs
  exec unshare --pid --fork --kill-child --mount-proc --cgroup --mount bash "$work/init"
) >"$work/log" 2>&1 &
inside=()
for _ in $(seq 200); do
  init=$(pgrep -x systemd | head -n 1)
  # Where children have controllers there may be no processes: all but systemd, which makes way by itself.
  while read -r pid; do
    if [ -n "$init" ] && [ "$pid" != "$init" ]; then echo "$pid" >/sys/fs/cgroup/cgroup.procs; fi
  done </sys/fs/cgroup/machine/cgroup.procs
  inside=(nsenter -t "$init" -p -m -C)
  if [ -n "$init" ] && "${inside[@]}" busctl --quiet status org.freedesktop.systemd1 >/dev/null 2>&1; then break; fi
  sleep 0.2
done
"${inside[@]}" busctl --quiet status org.freedesktop.systemd1 >/dev/null || { tail -n 40 "$work/log"; exit 1; }
"${inside[@]}" "$@"
