#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm of four nodes on this machine: tests/system/slurm_here.sh DIR COMMAND...
# Runs COMMAND where n00 to n03 (10.9.9.1 to 10.9.9.4, in a network namespace of its own) are nodes of two CPUs; needs root. All that
# it writes is in DIR, and all that it starts ends with it. Exit status 77: it could not be set up, and why is said.
set -euo pipefail

if [ "$1" != --inside ]; then
    exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@"
fi
dir=$2
shift 2
host=$(hostname -s)

give_up() {
    echo "slurm_here: $*" >&2
    tail -n 5 "$dir"/*.log >&2 2>/dev/null || true
    exit 77
}

mount --make-rprivate /
ip link set lo up
for i in 1 2 3 4; do ip addr add "10.9.9.$i/32" dev lo; done
chmod 755 "$dir" # munged runs as a user of its own
printf '127.0.0.1 localhost\n10.9.9.1 n00 %s\n10.9.9.2 n01\n10.9.9.3 n02\n10.9.9.4 n03\n' "$host" >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts

install -d -o munge -g munge -m 700 "$dir/munge"
install -d -o munge -g munge -m 755 "$dir/munge-run"
head -c 128 /dev/urandom >"$dir/munge/key"
chown munge:munge "$dir/munge/key"
chmod 600 "$dir/munge/key"
setpriv --reuid munge --regid munge --clear-groups munged --key-file "$dir/munge/key" --log-file "$dir/munge/munged.log" \
    --seed-file "$dir/munge/seed" --pid-file "$dir/munge-run/pid" --socket "$dir/munge-run/socket" || give_up "munged does not start"

mkdir -p "$dir/state"
cat >"$dir/cgroup.conf" <<END
CgroupPlugin=cgroup/v1
END
cat >"$dir/slurm.conf" <<END
ClusterName=here
SlurmctldHost=$host(10.9.9.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge-run/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
MpiParams=ports=12000-12100
SchedulerParameters=bf_interval=1,sched_min_interval=0
SlurmctldTimeout=10
SlurmdTimeout=15
KillWait=5
JobRequeue=0
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/ctld.log
SlurmdLogFile=$dir/slurmd-%n.log
NodeName=n00 NodeHostname=$host NodeAddr=10.9.9.1 Port=17000 CPUs=2
NodeName=n01 NodeHostname=$host NodeAddr=10.9.9.2 Port=17001 CPUs=2
NodeName=n02 NodeHostname=$host NodeAddr=10.9.9.3 Port=17002 CPUs=2
NodeName=n03 NodeHostname=$host NodeAddr=10.9.9.4 Port=17003 CPUs=2
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=YES
END
export SLURM_CONF=$dir/slurm.conf
slurmctld -f "$SLURM_CONF" || give_up "slurmctld does not start"
for node in n00 n01 n02 n03; do slurmd -f "$SLURM_CONF" -N "$node" || give_up "slurmd of $node does not start"; done
for ((i = 0; i < 600; i++)); do
    [ "$(sinfo -h -o '%D %T' 2>/dev/null)" != "4 idle" ] || break
    sleep 0.1 # until the nodes have registered
done
[ "$(sinfo -h -o '%D %T')" = "4 idle" ] || give_up "the nodes are not idle: $(sinfo -h -o '%D %T' | tr '\n' ' ')"
"$@"
