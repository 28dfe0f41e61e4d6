# Sourced by lab/run and lab/repeat: gets the kernel, QEMU and the runner ready, under the cache directory.
# Everything is built in a temporary directory and renamed when whole, so an interrupted run leaves nothing half done.
# shellcheck shell=bash

VIRTME_VERSION=1.42
VIRTIOFSD_VERSION=1.14.0

say() { echo "lab: $*" >&2; }
# The exit status of a lab that failed itself, as distinct from its command; 77 says that this machine cannot run it.
fail() { say "$*"; exit 125; }
unavailable() { say "$*"; exit 77; }

# What options take.
number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || fail "$1 takes a number of at least 1, not '$2'"; }
memory_size() { [[ $2 =~ ^[1-9][0-9]*[MG]$ ]] || fail "$1 takes a size like 512M or 2G, not '$2'"; }

# step TEXT COMMAND...: says what is done and how long it took; on failure shows the end of what it printed.
step() {
  local text=$1 log=$scratch/step.log started=$SECONDS
  shift
  say "$text ..."
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    return 1
  fi
  say "$text: done in $((SECONDS - started)) s"
}

# QEMU and what else comes from the distribution.
prepare_packages() {
  [ "$(uname -m)" = x86_64 ] || unavailable "the lab's kernel is for x86_64, this machine is $(uname -m)"
  "$top/scripts/setup" lab || unavailable "the packages that the lab needs are missing (see above)"
  # A container may lack this directory; the guest shows the modules there, and nothing is put in it here.
  if [ ! -d /lib/modules ]; then
    mkdir -p /lib/modules 2>/dev/null ||
      unavailable "/lib/modules does not exist and cannot be made: run 'mkdir /lib/modules' as root"
    say "made the empty directory /lib/modules"
  fi
}

# QEMU from Debian's backports where the distribution's is before 8.1, unpacked and not installed. Sets $qemu_path, to be put
# before PATH. With --icount an older one lets the first virtual CPU run until the next timer of any, and the others have
# what is left of that: often nothing for up to a second, by a clock that goes on.
QEMU_NEEDED=8.1
prepare_qemu() {
  local found home=$cache/qemu-backports
  qemu_path=''
  found=$(qemu_version qemu-system-x86_64)
  if at_least "$found" "$QEMU_NEEDED"; then return; fi
  if [ ! -e "$home/ready" ]; then
    if ! qemu_from_backports "$home"; then
      say "QEMU $found serves the first virtual CPU best, and no newer one was found: shares of time will err"
      return
    fi
    touch "$home/ready"
  fi
  qemu_path=$home/bin:
}
qemu_from_backports() {
  local codename packages=(qemu-system-x86 qemu-system-common qemu-system-data seabios) package tree=$scratch/qemu
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  read_archive "$codename-backports" || return 1
  step "downloading QEMU from $codename-backports" download "${packages[@]/%//$codename-backports}" || return 1
  rm -rf "$tree" "$1"
  for package in "$scratch"/debs/*.deb; do dpkg -x "$package" "$tree"; done
  mkdir "$tree/bin"
  # Its own firmware first; the network's boot programs are the distribution's.
  cat >"$tree/bin/qemu-system-x86_64" <<'QEMU'
#!/bin/sh
home=$(dirname "$(dirname "$(realpath "$0")")")
export QEMU_MODULE_DIR="$home/usr/lib/x86_64-linux-gnu/qemu"
exec "$home/usr/bin/qemu-system-x86_64" -L "$home/usr/share/qemu" -L "$home/usr/share/seabios" -L /usr/share/qemu \
  -L /usr/lib/ipxe/qemu "$@"
QEMU
  chmod +x "$tree/bin/qemu-system-x86_64"
  at_least "$(qemu_version "$tree/bin/qemu-system-x86_64")" "$QEMU_NEEDED" || return 1
  mv "$tree" "$1"
}
qemu_version() { "$1" --version 2>/dev/null | sed -nE '1s/.*version ([0-9.]+).*/\1/p'; }
# at_least A B: is version A at least B?
at_least() { [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

# The runner, in a Python environment of its own. Sets $runner.
prepare_runner() {
  local home=$cache/virtme-ng-$VIRTME_VERSION
  runner=$home/bin/virtme-run
  if [ ! -e "$home/ready" ]; then
    rm -rf "$home"
    step "installing virtme-ng $VIRTME_VERSION (about 10 s)" \
      sh -c 'python3 -m venv "$1" && "$1/bin/pip" install --quiet "virtme-ng==$2"' sh "$home" "$VIRTME_VERSION" ||
      unavailable "virtme-ng could not be installed"
    touch "$home/ready"
  fi
}

# The file server between host and guest. Sets $virtiofsd_dir.
# QEMU 7 ships an older program of the same name under /usr/lib/qemu, which the runner cannot use.
prepare_virtiofsd() {
  if [ -x /usr/libexec/virtiofsd ]; then
    virtiofsd_dir=/usr/libexec
    return
  fi
  local home=$cache/virtiofsd-$VIRTIOFSD_VERSION
  virtiofsd_dir=$home/bin
  if [ ! -x "$virtiofsd_dir/virtiofsd" ]; then
    command -v cargo >/dev/null || unavailable "virtiofsd must be built here, and cargo was not found"
    step "building virtiofsd $VIRTIOFSD_VERSION (1 to 2 minutes on two cores)" \
      env CARGO_TARGET_DIR="$scratch/virtiofsd-target" cargo install virtiofsd --locked \
      --version "$VIRTIOFSD_VERSION" --root "$scratch/virtiofsd" --target-dir "$scratch/virtiofsd-target" ||
      unavailable "virtiofsd could not be built"
    rm -rf "$scratch/virtiofsd-target" "$home"
    mv "$scratch/virtiofsd" "$home"
  fi
}

# qualifies CONFIG: does a kernel with this configuration have what the lab is for?
qualifies() {
  grep -qx 'CONFIG_SCHED_CLASS_EXT=y' "$1" && grep -qx 'CONFIG_DEBUG_INFO_BTF=y' "$1" &&
    grep -qxE 'CONFIG_VIRTIO_FS=[ym]' "$1"
}

# unpack DIRECTORY PACKAGE...: unpacks a kernel's packages, installs nothing, and brings old and new
# package layouts to one: usr/lib/modules/VERSION/{vmlinuz,config,kernel}.
unpack() {
  local into=$1 package version modules
  shift
  for package in "$@"; do dpkg -x "$package" "$into"; done
  if [ -d "$into/lib/modules" ]; then
    mkdir -p "$into/usr/lib"
    mv "$into/lib/modules" "$into/usr/lib/modules"
  fi
  version=$(ls "$into/usr/lib/modules")
  modules=$into/usr/lib/modules/$version
  if [ ! -e "$modules/vmlinuz" ]; then cp "$into/boot/vmlinuz-$version" "$modules/vmlinuz"; fi
  if [ ! -e "$modules/config" ]; then cp "$into/boot/config-$version" "$modules/config"; fi
  PATH=$PATH:/usr/sbin:/sbin depmod --all --basedir "$into/usr" "$version" 2>/dev/null ||
    PATH=$PATH:/usr/sbin:/sbin depmod --all --basedir "$into" "$version"
  [ -s "$modules/modules.dep" ]
}

# The image of an unpacked kernel.
image_in() { echo "$1"/usr/lib/modules/*/vmlinuz; }

# Kernel packages in a directory that the user names.
kernel_from_directory() {
  local directory=$1 key home
  local packages=("$directory"/linux-*.deb)
  [ -e "${packages[0]}" ] || fail "$directory has no linux-*.deb"
  key=$(sha256sum "${packages[@]}" | awk '{ print $1 }' | sha256sum | cut -c 1-16)
  home=$cache/kernel/$key
  if [ ! -d "$home" ]; then
    if [ -e "$directory/SHA256SUMS" ]; then
      (cd "$directory" && sha256sum --check --quiet --strict SHA256SUMS) ||
        fail "the kernel packages in $directory are not what its SHA256SUMS says"
      local package
      for package in "${packages[@]}"; do
        grep -qF "  ${package##*/}" "$directory/SHA256SUMS" || fail "$directory/SHA256SUMS does not name ${package##*/}"
      done
    fi
    step "unpacking the kernel of $directory" unpack "$scratch/kernel" "${packages[@]}" ||
      fail "the kernel packages in $directory could not be unpacked"
    keep_kernel "$home" || fail "the kernel in $directory does not qualify: it lacks sched_ext, BTF or virtiofs"
  fi
  kernel_image=$(image_in "$home")
}

# keep_kernel HOME: moves the unpacked kernel into the cache if it qualifies.
keep_kernel() {
  qualifies "$(dirname "$(image_in "$scratch/kernel")")/config" || return 1
  mkdir -p "$(dirname "$1")"
  mv "$scratch/kernel" "$1"
}

# apt with lists of its own, so that the machine's configuration stays as it is.
private_apt() {
  local program=$1
  shift
  "$program" -qq -o Dir::Etc::SourceList="$scratch/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State="$scratch/apt/state" -o Dir::State::status=/var/lib/dpkg/status \
    -o Dir::Cache="$scratch/apt/cache" -o APT::Sandbox::User=root "$@"
}

# read_archive SUITE: the list of packages of a suite of Debian, from the mirror that this machine uses anyway.
read_archive() {
  local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  # shellcheck disable=SC2016  # $(SITE) is apt's own syntax
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 2>/dev/null |
    awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }')
  if [ -z "$mirror" ] || [ ! -e "$keyring" ]; then
    say "this machine's apt knows no Debian archive"
    return 1
  fi
  rm -rf "$scratch/apt" "$scratch/debs"
  mkdir -p "$scratch"/apt/{state/lists/partial,cache/archives/partial} "$scratch/debs"
  echo "deb [signed-by=$keyring arch=amd64] $mirror $1 main" >"$scratch/apt/sources.list"
  step "reading the archive's list of $1 (about 10 s)" private_apt apt-get update
}
download() { (cd "$scratch/debs" && private_apt apt-get download "$@"); }

# The newest cloud kernel of Debian unstable that qualifies.
kernel_from_archive() {
  local home=$cache/kernel/archive version
  if [ -d "$home" ]; then
    kernel_image=$(image_in "$home")
    return
  fi
  read_archive sid || return 1
  local versions
  versions=$(private_apt apt-cache search --names-only '^linux-(binary|image)-[0-9].*-cloud-amd64$' |
    awk '{ print $1 }' | sed -E 's/^linux-(binary|image)-//' | sort -ruV)
  for version in $(head -n 3 <<<"$versions"); do
    local names=("linux-image-$version")
    if private_apt apt-cache show "linux-binary-$version" >/dev/null 2>&1; then
      names=("linux-base-$version" "linux-binary-$version" "linux-modules-$version")
    fi
    rm -rf "$scratch/kernel" "$scratch"/debs/*
    step "downloading Linux $version" download "${names[@]}" || continue
    step "unpacking it" unpack "$scratch/kernel" "$scratch"/debs/*.deb || continue
    if keep_kernel "$home"; then
      kernel_image=$(image_in "$home")
      return
    fi
    say "Linux $version does not qualify: it lacks sched_ext, BTF or virtiofs"
  done
  return 1
}

# The kernel that this machine runs, if it qualifies.
running_kernel() {
  local version image
  version=$(uname -r)
  [ -r "/boot/config-$version" ] && qualifies "/boot/config-$version" || return 1
  for image in "/lib/modules/$version/vmlinuz" "/boot/vmlinuz-$version"; do
    if [ -r "$image" ]; then
      kernel_image=$image
      say "using the running kernel, $version"
      return
    fi
  done
  return 1
}

# Sets $kernel_image.
prepare_kernel() {
  if [ -n "$kernel_dir" ]; then
    kernel_from_directory "$kernel_dir"
  else
    kernel_from_archive || running_kernel ||
      unavailable "no kernel with sched_ext was found; put Debian's linux-{base,binary,modules}-*-cloud-amd64 packages into a directory and name it with --kernel-dir"
  fi
}

# Does KVM boot this kernel? A /dev/kvm that opens can still fail at the first instruction it does not know, so try:
# a kernel without a root file system gets as far as saying so within 2 s. The answer holds until the next boot.
prepare_accelerator() {
  local known
  known=$cache/kvm-$(id -u)-$(cat /proc/sys/kernel/random/boot_id)
  if [ ! -e "$known" ]; then
    rm -f "$cache/kvm-$(id -u)-"*
    local answer=no
    if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
      say "trying KVM (at most 8 s) ..."
      # Read whole before it is searched: what ends QEMU early must not look like an answer.
      local console
      console=$(PATH=$qemu_path$PATH timeout --signal=KILL 8 qemu-system-x86_64 -machine q35,accel=kvm -cpu host -m 512M -nodefaults \
        -display none -no-reboot -serial stdio -kernel "$kernel_image" -append 'console=ttyS0 panic=-1' \
        </dev/null 2>&1 | tr -d '\0') || true
      if [[ $console == *'Unable to mount root fs'* ]]; then answer=yes; fi
    fi
    echo "$answer" >"$known"
    if [ "$answer" = yes ]; then say "KVM works here"; else say "KVM does not work here: the guest is emulated, and slower"; fi
  fi
  accelerator=() emulation=()
  if [ -n "$icount" ]; then
    accelerator=(--disable-kvm)
    emulation=(-accel tcg,thread=single -icount "shift=2,sleep=$idle")
  elif [ "$(cat "$known")" = no ]; then
    accelerator=(--disable-kvm)
    # The virtual CPUs take turns on one thread: what else this machine does then holds all of them, and not one beside the
    # others. (And before 8.1 QEMU could run a stale breakpoint where one patches code under another.)
    emulation=(-accel tcg,thread=single)
  fi
}

# prepare FUNCTION...: calls these of the functions above, in order, one lab at a time.
prepare() {
  local part
  mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] ||
    fail "$cache cannot be written: name a directory of yours in ALLOT_LAB_CACHE"
  exec 9>"$cache/lock"
  if ! flock --nonblock 9; then
    say "waiting for another lab that prepares"
    flock 9
  fi
  # What an earlier run that was killed left behind.
  rm -rf "$cache"/preparing.*
  scratch=$(mktemp -d "$cache/preparing.XXXXXX")
  for part in "$@"; do "$part"; done
  rm -rf "$scratch"
  exec 9>&-
}
