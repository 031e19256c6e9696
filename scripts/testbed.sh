#!/usr/bin/env bash
# Makes several hosts on one machine and runs a command across them with mpirun. The hosts are network
# namespaces with host names of their own, joined by links of limited speed.
#
#   scripts/testbed.sh --hosts H --slots S --mbit R [--delay-ms D] [--cut-when FILE] [--dead-end NAME]
#                      [--mca "NAME VALUE"]... -- COMMAND...
#
# Starts H*S ranks of COMMAND, S on each host. The link of each host carries R Mbit/s in each direction, with
# a delay of D milliseconds. Open MPI uses TCP between hosts and shared memory inside a host. Needs root.
# --cut-when: the link of the last host goes down once FILE exists. --dead-end: every host also has an
# interface NAME that leads nowhere, and Open MPI is not told which interface to use. --mca: a setting of mpirun.
# The exit status is that of the command; 2 for bad arguments; 77 if the kernel does not allow namespaces.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

fail() { echo "testbed: $2" >&2; exit "$1"; }
number() { [[ $2 =~ ^[0-9]+([.][0-9]+)?$ ]] || fail 2 "$1 must be a number, not '$2'"; }

hosts= slots= mbit= delay=0 cut_when= dead_end=
settings=()
while [ $# -gt 0 ]; do
  case $1 in
    --hosts) hosts=${2:-}; shift 2 || fail 2 "--hosts needs a value" ;;
    --slots) slots=${2:-}; shift 2 || fail 2 "--slots needs a value" ;;
    --mbit) mbit=${2:-}; shift 2 || fail 2 "--mbit needs a value" ;;
    --delay-ms) delay=${2:-}; shift 2 || fail 2 "--delay-ms needs a value" ;;
    --cut-when) cut_when=${2:-}; shift 2 || fail 2 "--cut-when needs a value" ;;
    --dead-end) dead_end=${2:-}; shift 2 || fail 2 "--dead-end needs a value" ;;
    --mca) read -r name value <<<"${2:-}"; settings+=(--mca "$name" "$value"); shift 2 || fail 2 "--mca needs a value" ;;
    --) shift; break ;;
    *) fail 2 "unknown argument '$1'; usage: --hosts H --slots S --mbit R [--delay-ms D] [--cut-when FILE] [--dead-end NAME] [--mca \"NAME VALUE\"]... -- COMMAND..." ;;
  esac
done
number --hosts "$hosts"; number --slots "$slots"; number --mbit "$mbit"; number --delay-ms "$delay"
[ "$hosts" -ge 1 ] && [ "$hosts" -le 200 ] || fail 2 "--hosts must be from 1 to 200"
[ "$slots" -ge 1 ] || fail 2 "--slots must be at least 1"
[ $# -gt 0 ] || fail 2 "there is no command after --"
[ "$(id -u)" = 0 ] || fail 77 "needs root to make network namespaces"
for tool in ip tc unshare mpirun; do
  command -v $tool >/dev/null || fail 77 "needs the program $tool (packages iproute2, util-linux, openmpi-bin)"
done

tag=ff$$
work=$(mktemp -d /tmp/testbed.XXXXXX)
made=()

clean_up() {
  trap '' INT TERM
  for space in "${made[@]}"; do
    ip netns pids "$space" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
    ip netns del "$space" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

add_space() { ip netns add "$1" 2>"$work/error" || fail 77 "no network namespaces here: $(cat "$work/error")"; made+=("$1"); }

# The switch is a namespace too, so that nothing of the machine's own network is touched.
switch=$tag-sw
add_space "$switch"
ip netns exec "$switch" true 2>"$work/error" || fail 77 "no network namespaces here: $(cat "$work/error")"
ip -n "$switch" link add bridge type bridge
ip -n "$switch" link set bridge up

# A limit of R Mbit/s on what leaves a device. What may pass at once after a pause is small, so that also slow links
# carry short messages at their own speed. There is room for what all ranks of a host have under way: a queue that
# overflows loses packets, and TCP may wait for 200 ms before it sends them again.
shape() { # namespace device
  local burst=$(( ${mbit%.*} * 1000 / 8 / 4 + 10000 ))
  if [ "$delay" != 0 ]; then
    tc -n "$1" qdisc add dev "$2" root handle 1: netem delay "${delay}ms" limit 100000
    tc -n "$1" qdisc add dev "$2" parent 1: handle 2: tbf rate "${mbit}mbit" burst $burst limit 16000000
  else
    tc -n "$1" qdisc add dev "$2" root tbf rate "${mbit}mbit" burst $burst limit 16000000
  fi
}

# nproc would take OMP_NUM_THREADS for the number of cores.
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
list=
for ((k = 0; k < hosts; k++)); do
  space=$tag-n$k
  add_space "$space"
  ip -n "$space" link add eth0 type veth peer name port$k netns "$switch"
  ip -n "$space" link set eth0 mtu 9000
  ip -n "$switch" link set port$k mtu 9000
  ip -n "$space" addr add 10.99.0.$((k + 1))/24 dev eth0
  ip -n "$space" link set lo up
  # The same on every machine; pacing algorithms also cost the timers of every core.
  ip netns exec "$space" sysctl -qw net.ipv4.tcp_congestion_control=reno || true
  ip -n "$space" link set eth0 up
  ip -n "$switch" link set port$k master bridge
  ip -n "$switch" link set port$k up
  if [ -n "$dead_end" ]; then
    ip -n "$space" link add "$dead_end" type bridge
    ip -n "$space" addr add 172.17.0.1/16 dev "$dead_end"
    ip -n "$space" link set "$dead_end" up
  fi
  shape "$space" eth0
  shape "$switch" port$k
  mkdir -p "$work/n$k"
  echo "10.99.0.$((k + 1)) n$k" >>"$work/hosts"
  list+=${list:+,}n$k:$slots
done
echo "127.0.0.1 localhost" >>"$work/hosts"

# What stands in for ssh: AGENT HOST COMMAND... runs the command as that host. Each host has cores of its own as long
# as there are enough; otherwise every host may use every core.
cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
host=\$1; shift
share=\$(( $cores >= $hosts ? $cores / $hosts : $cores ))
first=\$(( $cores >= $hosts ? \${host#n} * share : 0 ))
exec ip netns exec $tag-\$host unshare --uts --mount bash -c '
  hostname "\$0" && mount --bind $work/hosts /etc/hosts && export TMPDIR=$work/\$0
  cores=\$1; shift
  exec taskset -c "\$cores" bash -c "\$*"' "\$host" "\$first-\$((first + share - 1))" "\$@"
AGENT
chmod +x "$work/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
crowded=()
[ $((hosts * slots)) -gt "$cores" ] && crowded=(--mca mpi_yield_when_idle 1)
[ -n "$dead_end" ] || settings+=(--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0)
quoted=$(printf '%q ' mpirun -q --host "$list" -np $((hosts * slots)) --bind-to none "${crowded[@]}" \
  --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
  --mca pml ob1 --mca btl tcp,vader,self "${settings[@]}" \
  -x OMP_NUM_THREADS -x OPENBLAS_NUM_THREADS "$@")
# In the background, so that a signal to this script is seen at once.
"$work/agent" n0 "$quoted" &
job=$!
if [ -n "$cut_when" ]; then
  while [ ! -e "$cut_when" ] && kill -0 $job 2>/dev/null; do sleep 0.1; done
  ip -n "$switch" link set port$((hosts - 1)) down
fi
wait $job
