#!/usr/bin/env bash
# Runs a Slurm cluster on one machine. Its hosts are network namespaces with host names of their own. The
# command runs on a login host beside them, where srun, sbatch, scancel and scontrol work as usual.
#
#   scripts/slurm.sh --hosts H [--cores C] -- COMMAND...
#
# The hosts are named n0, n1, ... Each has the first C cores of the machine (default: all cores), so several
# hosts share the same cores. Tasks are bound to cores by Slurm's task/affinity, and srun supports PMIx. All
# hosts see the same files. The script does not change the machine's own network or another Slurm on it. It
# needs root and the packages slurmctld, slurmd, slurm-client, munge and iproute2.
# The exit status is that of the command; 1 if the cluster does not start; 2 for bad arguments; 77 if programs
# or cores are missing or the kernel does not allow namespaces.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

fail() { echo "slurm: $2" >&2; exit "$1"; }
number() { [[ $2 =~ ^[0-9]{1,6}$ ]] || fail 2 "$1 must be a whole number, not '$2'"; }

# nproc would take OMP_NUM_THREADS for the number of cores.
all_cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
hosts= cores=$all_cores
while [ $# -gt 0 ]; do
  case $1 in
    --hosts) hosts=${2:-}; shift 2 || fail 2 "--hosts needs a value" ;;
    --cores) cores=${2:-}; shift 2 || fail 2 "--cores needs a value" ;;
    --) shift; break ;;
    *) fail 2 "unknown argument '$1'; usage: --hosts H [--cores C] -- COMMAND..." ;;
  esac
done
number --hosts "$hosts"; number --cores "$cores"
[ "$hosts" -ge 1 ] && [ "$hosts" -le 200 ] || fail 2 "--hosts must be from 1 to 200"
[ "$cores" -ge 1 ] || fail 2 "--cores must be at least 1"
[ $# -gt 0 ] || fail 2 "there is no command after --"
[ "$cores" -le "$all_cores" ] || fail 77 "this machine has only $all_cores cores, not $cores"
[ "$(id -u)" = 0 ] || fail 77 "needs root to make network namespaces"
for tool in ip nsenter taskset unshare munged slurmctld slurmd srun; do
  command -v $tool >/dev/null ||
    fail 77 "needs the program $tool (packages iproute2, util-linux, munge, slurmctld, slurmd, slurm-client)"
done

tag=fs$$
work=$(mktemp -d /tmp/slurm.XXXXXX)
made=() daemons=()

processes() { for space in "${made[@]}"; do ip netns pids "$space" 2>/dev/null || true; done; }

clean_up() {
  trap '' INT TERM
  # A request first, so that daemons can end the tasks that they have started.
  processes | xargs -r kill 2>/dev/null || true
  for ((i = 0; i < 30; i++)); do [ -z "$(processes)" ] && break; sleep 0.1; done
  processes | xargs -r kill -9 2>/dev/null || true
  [ ${#daemons[@]} = 0 ] || wait "${daemons[@]}" 2>/dev/null || true
  for space in "${made[@]}"; do ip netns del "$space" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

add_space() { ip netns add "$1" 2>"$work/error" || fail 77 "no network namespaces here: $(cat "$work/error")"; made+=("$1"); }

# Runs a command as a host. Not by `ip netns exec`, which would hide /sys/fs/cgroup from slurmd.
on() { # host command...
  local host=$1; shift
  nsenter --net="/run/netns/$tag-$host" unshare --uts --mount bash -c '
    hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"' "$host" "$work/hosts" "$@"
}

# The switch is a namespace too.
switch=$tag-sw
add_space "$switch"
ip -n "$switch" link show >/dev/null 2>"$work/error" || fail 77 "no network namespaces here: $(cat "$work/error")"
ip -n "$switch" link add bridge type bridge
ip -n "$switch" link set bridge up
add_host() { # name, last byte of its address
  add_space "$tag-$1"
  ip -n "$tag-$1" link add eth0 type veth peer name "port$2" netns "$switch"
  ip -n "$tag-$1" addr add "10.98.0.$2/24" dev eth0
  ip -n "$tag-$1" link set lo up
  ip -n "$tag-$1" link set eth0 up
  ip -n "$switch" link set "port$2" master bridge
  ip -n "$switch" link set "port$2" up
  echo "10.98.0.$2 $1" >>"$work/hosts"
}
echo "127.0.0.1 localhost" >"$work/hosts"
add_host login 254
for ((k = 0; k < hosts; k++)); do
  add_host "n$k" $((k + 1))
  mkdir -p "$work/spool.n$k" "$work/tmp.n$k"
done
on login true 2>"$work/error" || fail 77 "a host cannot have a name of its own here: $(cat "$work/error")"

chmod 755 "$work"
mkdir "$work/state"
(umask 077 && head -c 128 /dev/urandom >"$work/key")
names=n0
[ "$hosts" -gt 1 ] && names="n[0-$((hosts - 1))]"
cat >"$work/slurm.conf" <<CONF
ClusterName=fourfold
SlurmctldHost=login
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
TmpFS=$work/tmp.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=pmix
ReturnToService=2
SchedulerParameters=batch_sched_delay=0
KillWait=60
OverTimeLimit=0
NodeName=$names CPUs=$cores SocketsPerBoard=1 CoresPerSocket=$cores ThreadsPerCore=1
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
CONF
export SLURM_CONF=$work/slurm.conf
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

on login munged --foreground --key-file="$work/key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
  --log-file="$work/munged.log" --seed-file="$work/seed" >"$work/munged.out" 2>&1 &
daemons+=($!)
for ((i = 0; i < 300; i++)); do [ -S "$work/munge.socket" ] && break; sleep 0.1; done
on login slurmctld -D -L "$work/slurmctld.log" >/dev/null 2>&1 &
daemons+=($!)
for ((k = 0; k < hosts; k++)); do
  on "n$k" taskset -c "0-$((cores - 1))" slurmd -D -N "n$k" -L "$work/slurmd.n$k.log" >/dev/null 2>&1 &
  daemons+=($!)
done
idle=0
for ((i = 0; i < 600 && idle < hosts; i++)); do
  [ "$i" = 0 ] || sleep 0.1
  idle=$(on login sinfo -h -N -o %T 2>/dev/null | grep -cx idle) || true
done
[ "$idle" = "$hosts" ] || fail 1 "only $idle of $hosts hosts came up: $(cat "$work"/munged.out "$work"/*.log 2>/dev/null | tail -n 5)"

# In the background, so that a signal to this script is seen at once.
on login "$@" &
wait $!
