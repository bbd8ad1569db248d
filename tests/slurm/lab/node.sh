#!/bin/bash
# node.sh NODE: the init of a node, started by cluster.sh inside the new namespaces.
#
# Private to the node: /run (munged on its usual socket), /dev/shm, /etc/{hosts,passwd,group}, /etc/slurm, and LAB_DIR/local,
# a stand-in for a node's own disk. All else is shared by all nodes, as on a cluster with a shared file system.
set -u
node=$1
folder=$LAB_DIR/node/$node
hierarchies="freezer devices memory cpuset cpuacct"

# enter_cgroups: an own subtree of each hierarchy, which the node then sees as the root.
enter_cgroups() {
  local hierarchy path
  for hierarchy in $hierarchies; do
    path=/sys/fs/cgroup/$hierarchy/$CGROUP/$node; mkdir -p "$path"
    if [ $hierarchy = cpuset ]; then
      for path in "${path%/*}" "$path"; do
        cat /sys/fs/cgroup/cpuset/cpuset.cpus >"$path/cpuset.cpus"
        cat /sys/fs/cgroup/cpuset/cpuset.mems >"$path/cpuset.mems"
        echo 1 >"$path/cgroup.clone_children"
      done
    fi
    echo 0 >"$path/cgroup.procs"
  done
}
mount_cgroups() {
  local hierarchy
  if [ "$LAB_CGROUP" != 1 ] || [ "$node" = login ]; then mount -t tmpfs -o ro,size=4k tmpfs /sys/fs/cgroup; return; fi
  for hierarchy in $hierarchies; do mount --bind "/sys/fs/cgroup/$hierarchy/$CGROUP/$node" "/sys/fs/cgroup/$hierarchy"; done
}
# open_paths: ordinary users can reach LAB_OPEN (paths with ':' between them), also below a folder that is closed to them,
# such as /root. In this node such a folder holds nothing but the way there.
open_paths() {
  local path part number=0 IFS=:
  for path in $LAB_OPEN; do
    number=$((number + 1)); mkdir -p "/run/open/$number"; mount --rbind "$path" "/run/open/$number" || return 1
  done
  number=0
  for path in $LAB_OPEN; do
    number=$((number + 1)); part=
    IFS=/
    for word in ${path#/}; do
      part=$part/$word
      [ "$part" != "$path" ] && [ -d "$part" ] && [ $((0$(stat -c %a "$part") & 1)) = 0 ] && mount -t tmpfs -o mode=755 tmpfs "$part"
    done
    IFS=:
    mountpoint -q "$path" && continue
    mkdir -p "$path"; mount --rbind "/run/open/$number" "$path" || return 1
  done
}
mount_all() {
  local file
  mount --make-rprivate /
  mount -t tmpfs -o mode=755 tmpfs /run
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  open_paths || return 1
  mkdir -p /run/munge /run/lock /run/mysqld /run/user
  mount --bind "$LAB_DIR/etc/slurm" /etc/slurm
  for file in hosts passwd group; do mount --bind "$LAB_DIR/etc/$file" "/etc/$file"; done
  mount -t tmpfs -o mode=1777 tmpfs "$LAB_DIR/local"
  mount_cgroups
}

if [ "$LAB_CGROUP" = 1 ] && [ "$node" != login ] && [ -z "${IN_CGROUP:-}" ]; then
  enter_cgroups || exit 1
  IN_CGROUP=1 exec unshare --cgroup bash "$0" "$@"
fi
trap : TERM INT HUP                     # not '': slurmd's tasks would inherit an ignored signal
mount_all || exit 1
hostname "$(cat "$folder/hostname")"
ip link set lo up
: >"$folder/mounted"
while [ ! -e "$folder/plugged" ]; do sleep 0.02; done
# munged needs an address: resolving with AI_ADDRCONFIG fails where there is nothing but lo.
munged --key-file="$LAB_DIR/munge.key" --log-file="$LAB_DIR/log/munged-$node.log" --seed-file=/run/munge/munge.seed \
  --pid-file=/run/munge/munged.pid --socket=/run/munge/munge.socket.2 --num-threads=2 --force || exit 1
: >"$folder/munged"
if [ "$node" != login ]; then
  while [ ! -e "$folder/go" ]; do sleep 0.02; done
  cd / && slurmd -N "$node"
fi
while :; do sleep 100000 & wait $!; done # as process 1 this also reaps orphans
