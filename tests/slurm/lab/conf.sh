# write_configuration: all files of the cluster, from the variables of cluster.sh. Sourced by cluster.sh.

write_users() {
  local etc=$LAB_DIR/etc user name id
  cp /etc/passwd /etc/group "$etc/"
  for user in alice:2001 bob:2002; do
    name=${user%:*} id=${user#*:}
    sed -i "/^$name:/d" "$etc/passwd" "$etc/group"
    echo "$name:x:$id:$id::$LAB_DIR/home/$name:/bin/bash" >>"$etc/passwd"
    echo "$name:x:$id:" >>"$etc/group"
    install -d -o "$id" -g "$id" "$LAB_DIR/home/$name"
  done
}
# fields ENTRY: sets name, gpus and host from NAME:GPUS or NAME:GPUS:HOSTNAME.
fields() { IFS=: read -r name gpus host <<<"$1"; host=${host:-$name}; }

write_nodes() {
  local etc=$LAB_DIR/etc entry name gpus host number=0 most=0 gres
  echo "AutoDetect=off" >"$etc/slurm/gres.conf"
  printf '%s\n' "127.0.0.1 localhost" "$LOGIN_IP login login.cluster.test" >"$etc/hosts"
  mkdir -p "$LAB_DIR/node/login"; echo "$LOGIN_IP" >"$LAB_DIR/node/login/ip"; echo login >"$LAB_DIR/node/login/hostname"
  for entry in $LAB_NODES; do
    fields "$entry"; number=$((number + 1)); gres=
    mkdir -p "$LAB_DIR/node/$name" "$LAB_DIR/spool/$name"
    echo "$NET.$number" >"$LAB_DIR/node/$name/ip"; echo "$host" >"$LAB_DIR/node/$name/hostname"
    echo "$NET.$number $name $name.cluster.test" >>"$etc/hosts"
    if [ "$gpus" -gt 0 ]; then
      gres="Gres=gpu:fake:$gpus"
      echo "NodeName=$name Name=gpu Type=fake File=$LAB_DIR/dev/gpu$([ "$gpus" = 1 ] && echo 0 || echo "[0-$((gpus - 1))]")" >>"$etc/slurm/gres.conf"
      [ "$gpus" -le $most ] || most=$gpus
    fi
    echo "NodeName=$name NodeHostname=$host NodeAddr=$NET.$number CPUs=$LAB_CPUS RealMemory=$LAB_MEM_MIB $gres State=UNKNOWN"
  done >>"$etc/slurm/slurm.conf"
  # Plain files would be granted too, but CUDA_VISIBLE_DEVICES stays empty.
  mkdir -p "$LAB_DIR/dev"
  for number in $(seq 0 $((most - 1))); do mknod -m 666 "$LAB_DIR/dev/gpu$number" c 122 "$number" || die "mknod failed"; done
  echo "PartitionName=batch Nodes=$(names | paste -sd,) Default=YES MaxTime=INFINITE DefaultTime=60 State=UP" >>"$etc/slurm/slurm.conf"
}
write_accounting() {
  local etc=$LAB_DIR/etc
  if [ "$LAB_ACCOUNTING" = 0 ]; then echo "AccountingStorageType=accounting_storage/none" >>"$etc/slurm/slurm.conf"; return; fi
  cat >>"$etc/slurm/slurm.conf" <<X
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=login
AccountingStoreFlags=job_comment,job_script
AccountingStorageTRES=gres/gpu
X
  (umask 077; cat >"$etc/slurm/slurmdbd.conf") <<X
AuthType=auth/munge
DbdHost=login
DbdAddr=$LOGIN_IP
SlurmUser=root
PidFile=/run/slurmdbd.pid
LogFile=$LAB_DIR/log/slurmdbd.log
DebugLevel=verbose
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
X
}
write_cgroup() {
  local file=$LAB_DIR/etc/slurm/cgroup.conf
  echo CgroupPlugin=cgroup/v1 >"$file"
  [ "$LAB_CGROUP" = 1 ] || return 0
  [ -d /sys/fs/cgroup/devices ] || die "LAB_CGROUP=1 needs cgroup v1 below /sys/fs/cgroup"
  printf '%s\n' CgroupMountpoint=/sys/fs/cgroup ConstrainCores=no ConstrainDevices=yes ConstrainRAMSpace=yes ConstrainSwapSpace=no >>"$file"
}
# Timeouts are short, so that a failed node is noticed within half a minute; scheduling starts without any delay.
write_slurm_conf() {
  local track=linuxproc task=none
  [ "$LAB_CGROUP" = 1 ] && track=cgroup task=cgroup
  cat >"$LAB_DIR/etc/slurm/slurm.conf" <<X
ClusterName=slurmlab
SlurmctldHost=login($LOGIN_IP)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
StateSaveLocation=$LAB_DIR/ctld
SlurmdSpoolDir=$LAB_DIR/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=$LAB_DIR/log/slurmctld.log
SlurmdLogFile=$LAB_DIR/log/slurmd-%n.log
SlurmctldDebug=verbose
SlurmdDebug=verbose
LogTimeFormat=iso8601_ms
ProctrackType=proctrack/$track
TaskPlugin=task/$task
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=1,sched_min_interval=0,batch_sched_delay=0,default_queue_depth=1000
MessageTimeout=10
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
KillWait=3
UnkillableStepTimeout=20
CompleteWait=0
MinJobAge=600
WaitTime=0
BatchStartTimeout=10
TCPTimeout=2
EpilogMsgTime=1
HealthCheckInterval=0
OverTimeLimit=0
JobRequeue=1
MaxArraySize=1001
DefMemPerCPU=100
PropagateResourceLimitsExcept=ALL
X
}
write_configuration() {
  write_users
  write_cgroup
  write_slurm_conf
  write_accounting
  write_nodes
  [ -z "$LAB_EXTRA" ] || printf '%s\n' "$LAB_EXTRA" >>"$LAB_DIR/etc/slurm/slurm.conf"
}
