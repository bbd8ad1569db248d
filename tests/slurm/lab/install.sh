#!/bin/sh
# Installs what the tests of Slurm need, where that can be done: as root, with apt. Otherwise the tests say what is missing.
packages="slurm-wlm slurmdbd munge mariadb-server iproute2 util-linux"
missing=
for command in slurmctld slurmd slurmdbd munged mariadbd ip nsenter unshare setpriv; do
  PATH=$PATH:/usr/sbin:/sbin command -v $command >/dev/null || missing="$missing $command"
done
[ -d /etc/slurm ] || missing="$missing /etc/slurm"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "tests of Slurm: missing$missing; as root: apt-get install -y --no-install-recommends $packages" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $packages >/dev/null
mkdir -p /etc/slurm # where the nodes mount their configuration
