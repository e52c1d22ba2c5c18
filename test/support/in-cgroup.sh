#!/bin/sh
# Runs a command in a new cgroup until standard input ends: at the latest with the process that has started this script, however that one
# ends. Then it kills the command and removes the cgroup. The command must not leave processes behind.
# Usage: in-cgroup.sh CGROUP COMMAND...
set -eu
cgroup=$1
shift
mkdir "$cgroup"
sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$cgroup" "$@" &
cat >/dev/null
kill -KILL $! || true
# cgroup.events says when the last process has ended.
until grep -q 'populated 0' "$cgroup/cgroup.events"; do :; done
find "$cgroup" -depth -type d -exec rmdir {} \;
