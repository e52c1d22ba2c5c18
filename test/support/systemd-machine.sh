#!/bin/sh
# For `unshare --cgroup --pid --fork --mount --net --uts --ipc`: runs systemd as process 1, on this machine's files with a writable layer
# in memory. FOLDER is visible as /shared. systemd writes a line into the pipe /shared/ready when it has started.
# Usage: systemd-machine.sh FOLDER NODE
set -eu
mount --make-rprivate /
layer=$1/layer root=$1/layer/root
mkdir "$layer"
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/changes" "$layer/work" "$root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/changes,workdir=$layer/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/shared"
mount --bind "$1" "$root/shared"
ip link set lo up
# Packages may start and stop units here; in a container they may not.
rm -f "$root/usr/sbin/policy-rc.d"
[ -x "$root/usr/bin/node" ] || ln -s "$2" "$root/usr/bin/node"

# Units of this machine do not run.
units=$root/etc/systemd/system
rm -rf "$units"
mkdir "$units"
for name in udevd udev-trigger tmpfiles-setup tmpfiles-setup-dev sysctl modules-load timesyncd networkd resolved random-seed; do
    ln -s /dev/null "$units/systemd-$name.service"
done
cat >"$units/ready.service" <<'UNIT'
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo ready > /shared/ready'
UNIT
mkdir "$units/basic.target.wants"
ln -s ../ready.service "$units/basic.target.wants/ready.service"
cd "$root"
exec env -i container=viaduct PATH="$PATH" chroot "$root" /lib/systemd/systemd --system --unit=basic.target
