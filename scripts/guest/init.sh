#!/bin/busybox sh
# First process of the guest: loads what 9p needs, makes the host's file system the root, goes on with the work's script.
b=/bin/busybox
options=trans=virtio,version=9p2000.L,msize=524288
$b mount -t proc proc /proc
if $b grep -q viaduct.probe /proc/cmdline; then
  echo viaduct-probe-done
  echo 1 > /proc/sys/kernel/sysrq
  echo o > /proc/sysrq-trigger
  $b sleep 60
fi
for module in /m/*.ko; do $b insmod "$module"; done # file names numbered in the order of their needs
$b mount -t 9p -o $options,cache=loose,ro root /r
$b mount -t proc proc /r/proc
$b mount -t sysfs sys /r/sys
$b mount -t devtmpfs dev /r/dev
for folder in tmp run; do $b mount -t tmpfs -o mode=1777 $folder /r/$folder; done
$b mount -t 9p -o $options work /r/mnt # read and write, so without cache=loose
# The host may have no /usr/lib/modules to mount on: a wrapper passes the folder of the modules to modprobe.
$b mkdir -p /r/run/guest/kernel /r/run/guest/bin
$b mount -t 9p -o $options,cache=loose,ro kernel /r/run/guest/kernel
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/guest/kernel "$@"\n' > /r/run/guest/bin/modprobe
$b chmod 755 /r/run/guest/bin/modprobe
echo /run/guest/bin/modprobe > /proc/sys/kernel/modprobe
# exec matters: the kernel's modprobe runs under the root of process 1.
exec $b chroot /r /bin/sh /mnt/guest.sh
