#!/bin/bash
# A real Slurm of several nodes on one machine: every node in namespaces of its own.
#
#   cluster.sh start              start the login node and the compute nodes
#   cluster.sh stop               end every process of them, also after a start that failed
#   cluster.sh kill-node NODE     power failure: everything on NODE is gone at once, its network too
#   cluster.sh start-node NODE    boot NODE again after that
#   cluster.sh kill-slurmd NODE   SIGKILL for slurmd only; slurmstepd and tasks live on
#   cluster.sh start-slurmd NODE  start slurmd again after that
#   cluster.sh net NODE down|up   cut or restore the link of NODE
#
# Environment:
#   LAB_DIR         the folder of this cluster (absolute, exists, below a file system that allows devices)
#   LAB_NODES       words NAME:GPUS or NAME:GPUS:HOSTNAME, for example "c1:8 GPU-A2:4:GPU-A2.cluster.test"
#   LAB_ACCOUNTING  1 for slurmdbd and MariaDB, so that sacct works; 0 without
#   LAB_CGROUP      1 for proctrack/cgroup and task/cgroup (cgroup v1 only): devices and memory are enforced
#   LAB_CPUS, LAB_MEM_MIB   what every node claims to have
#   LAB_EXTRA       lines that are appended to slurm.conf
#   LAB_OPEN        folders, with ':' between them, that users must reach although they may lie below /root or the like
#
# Needs root. Nothing outside of LAB_DIR is changed: no link in the host's own network, no mount, no file.
set -u
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
unset SLURM_CONF
HERE=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
: "${LAB_DIR:?}" "${LAB_NODES:?}" "${LAB_ACCOUNTING:=1}" "${LAB_CGROUP:=0}" "${LAB_CPUS:=64}" "${LAB_MEM_MIB:=256000}" "${LAB_EXTRA:=}" "${LAB_OPEN:=}"
export LAB_DIR LAB_CGROUP LAB_OPEN
NET=10.66.0
LOGIN_IP=$NET.254
CGROUP=slurm-test-$(printf %s "$LAB_DIR" | cksum | cut -d' ' -f1)
export CGROUP

die() { echo "cluster.sh: $*" >&2; exit 1; }
# shellcheck source=conf.sh
. "$HERE/conf.sh"

# within SECONDS COMMAND...: tries COMMAND every 50 ms until it succeeds.
within() {
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -le $until ] || return 1; sleep 0.05; done
}
started_at() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
# init_of NODE: the process id of its init, unless that is gone (an id may be in use again by something else).
init_of() {
  local pid; pid=$(cat "$LAB_DIR/node/$1/pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ "$(started_at "$pid")" = "$(cat "$LAB_DIR/node/$1/started_at" 2>/dev/null)" ] && echo "$pid"
}
# enter NODE COMMAND...
enter() {
  local node=$1 pid in=(-n -u -i -m); shift
  pid=$(init_of "$node") || die "node $node is not running"
  [ "$node" = login ] || in+=(-p)
  nsenter -t "$pid" "${in[@]}" -- "$@"
}
first_child() { tr -d ' ' <"/proc/$1/task/$1/children" 2>/dev/null | grep .; }
names() { local entry; for entry in $LAB_NODES; do echo "${entry%%:*}"; done; }

# boot NODE: its init, up to its mounts. The login node has no process namespace of its own, so that commands which are
# run there are children of the caller and get its signals.
boot() {
  local node=$1 folder=$LAB_DIR/node/$1 pid outer
  rm -f "$folder"/{mounted,plugged,munged,go,pid,started_at}
  if [ "$node" = login ]; then
    setsid unshare --net --uts --ipc --mount bash "$HERE/node.sh" login </dev/null >>"$LAB_DIR/log/init-login.out" 2>&1 &
    pid=$!
  else
    setsid unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc \
      bash "$HERE/node.sh" "$node" </dev/null >>"$LAB_DIR/log/init-$node.out" 2>&1 &
    outer=$!
    within 10 first_child "$outer" || die "no init for $node (see $LAB_DIR/log/init-$node.out)"
    pid=$(first_child "$outer")
  fi
  started_at "$pid" >"$folder/started_at"; echo "$pid" >"$folder/pid"
  within 20 test -e "$folder/mounted" || die "$node did not set up its mounts (see $LAB_DIR/log/init-$node.out)"
}
# plug NODE: its network. The bridge lives in the login node.
plug() {
  local node=$1 pid login ip port
  ip=$(cat "$LAB_DIR/node/$node/ip"); port=p${ip##*.}
  pid=$(init_of "$node") || die "$node died"
  if [ "$node" = login ]; then
    nsenter -t "$pid" -n -- sh -ec "ip link add br0 type bridge; ip addr add $ip/24 dev br0; ip link set br0 up"
  else
    login=$(init_of login) || die "login died"
    nsenter -t "$login" -n -- ip link del "$port" 2>/dev/null
    nsenter -t "$login" -n -- ip link add "$port" type veth peer name eth0 netns "$pid" || die "no link for $node"
    nsenter -t "$login" -n -- ip link set "$port" master br0 up
    nsenter -t "$pid" -n -- sh -ec "ip addr add $ip/24 dev eth0; ip link set eth0 up"
  fi
  : >"$LAB_DIR/node/$node/plugged"
}
start_node() { boot "$1" && plug "$1"; }
listens() { enter login bash -c "exec 3<>/dev/tcp/$LOGIN_IP/$1"; }

install_database() {
  mariadb-install-db --no-defaults --user=root --datadir="$LAB_DIR/mysql" --skip-test-db --innodb-log-file-size=4M \
    --auth-root-authentication-method=socket >"$LAB_DIR/log/mariadb-install.out" 2>&1
}
start_database() {
  local data=$LAB_DIR/mysql socket=/run/mysqld/mysqld.sock
  within 20 test -e "$LAB_DIR/node/login/munged" || die "login has no munged"
  # Small, and without any care for a crash: the data live as long as the tests.
  enter login setsid mariadbd --no-defaults --user=root --datadir="$data" --socket=$socket --skip-networking \
    --pid-file=/run/mysqld/mysqld.pid --innodb-buffer-pool-size=32M --innodb-log-file-size=4M --key-buffer-size=1M \
    --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --innodb-flush-method=nosync --sync-frm=0 \
    --aria-checkpoint-interval=0 --aria-pagecache-buffer-size=1M --innodb-lock-wait-timeout=900 \
    --performance-schema=OFF --max-connections=20 --log-error="$LAB_DIR/log/mariadb.log" </dev/null >/dev/null 2>&1 &
  within 30 enter login mariadb-admin --no-defaults --socket=$socket ping || die "mariadbd did not start"
  enter login slurmdbd || die "slurmdbd did not start"
  within 30 listens 6819 || die "slurmdbd does not listen"
}
all_idle() {
  [ "$(enter login sinfo -h -N -o '%n %t' 2>/dev/null | sort -u | grep -c ' idle$')" = "$(names | wc -l)" ]
}
start() {
  local node database
  mkdir -p "$LAB_DIR"/{log,node,spool,ctld,local,etc/slurm}
  (umask 077; head -c 128 /dev/urandom >"$LAB_DIR/munge.key")
  write_configuration
  if [ "$LAB_ACCOUNTING" = 1 ]; then install_database & database=$!; fi # the slowest part; meanwhile the nodes boot
  start_node login
  for node in $(names); do start_node "$node" & done
  if [ "$LAB_ACCOUNTING" = 1 ]; then
    wait "$database" || die "mariadb-install-db failed (see $LAB_DIR/log/mariadb-install.out)"
    start_database
  fi
  for node in login $(names); do within 20 test -e "$LAB_DIR/node/$node/munged" || die "$node has no munged"; done
  enter login slurmctld || die "slurmctld did not start"
  within 20 listens 6817 || die "slurmctld does not listen"
  for node in $(names); do : >"$LAB_DIR/node/$node/go"; done
  within 60 all_idle || die "not all nodes became idle"
}
in_login() { find /proc/[0-9]*/ns/net -maxdepth 0 -lname "${1//[/\\[}" 2>/dev/null | cut -d/ -f3; }
stop() {
  local node pid network
  for node in $(names); do
    pid=$(init_of "$node") && kill -9 "$pid"            # its process 1: the kernel ends the rest
  done
  if pid=$(init_of login); then
    network=$(readlink "/proc/$pid/ns/net")
    # Only what is in the network of the login node, and never our own.
    [ "$network" = "$(readlink /proc/self/ns/net)" ] || for _ in $(seq 40); do
      # shellcheck disable=SC2046
      set -- $(in_login "$network"); [ $# -gt 0 ] || break
      kill -9 "$@" 2>/dev/null; sleep 0.05
    done
  fi
  for node in login $(names); do for _ in $(seq 100); do init_of "$node" >/dev/null || break; sleep 0.02; done; done
  find /sys/fs/cgroup/*/"$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null
  return 0
}

case ${1:-} in
  start) start;;
  stop) stop;;
  kill-node) pid=$(init_of "$2") || die "$2 is not running"; kill -9 "$pid"; within 10 test ! -e "/proc/$pid";;
  start-node) ! init_of "$2" >/dev/null || die "$2 is running"; start_node "$2"; : >"$LAB_DIR/node/$2/go";;
  kill-slurmd) enter "$2" sh -c 'kill -9 $(cat /run/slurmd.pid)';;
  start-slurmd) enter "$2" slurmd -N "$2";;
  net) ip=$(cat "$LAB_DIR/node/$2/ip"); enter login ip link set "p${ip##*.}" "$3";;
  *) sed -n '2,/^set -u/{/^set -u/d;p}' "${BASH_SOURCE[0]}"; exit 2;;
esac
