#!/usr/bin/env bash
# Trains the same small GPT with every strategy. The first part runs on 8 ranks of four hosts joined by a slow network
# (scripts/testbed.sh, needs root): with few rows for each weight, where it also measures the bytes that leave a host
# in a step, and with many rows. The second part runs on 64 ranks as threads of one process; of its figures only
# losses, bytes, messages and memory are meaningful. The script takes about 25 minutes on 2 cores.
#
#   bench/strategies.sh [MBIT]          default: 200
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

mbit=${1:-200}
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
testbed=(scripts/testbed.sh --hosts 4 --slots 2 --mbit "$mbit" --)
sizes=(--set data.tokenizer=bytes --set model.vocab=256 --set overlap.segment_mib=2 --set overlap.window_mib=8)
bench=($program bench configs/gpt-bench.toml "${sizes[@]}" --set model.heads=8 --set model.layers=4
  --set model.context=128)
few_rows=("${bench[@]}" --set model.width=512 --set train.batch=16)
many_rows=("${bench[@]}" --set model.width=256 --set train.batch=64)

printf 'Four hosts of two ranks, %s Mbit/s: 2048 rows, 512 wide\n\n' "$mbit"
"${testbed[@]}" "${few_rows[@]}" --steps 11

# The most bytes that have left one of the hosts when so many steps of a strategy are done.
left_a_host() { # strategy steps
  # shellcheck disable=SC2016 # for the shell of each rank
  "${testbed[@]}" bash -c '"$@" >/dev/null
    [ "$OMPI_COMM_WORLD_LOCAL_RANK" != 0 ] || cat /sys/class/net/eth0/statistics/tx_bytes' rank \
    "${few_rows[@]}" --strategies "$1" --steps "$2" | sort -n | tail -1
}

printf '\nMB that leave a host in a step, and the seconds that its link needs for them\n\n'
for strategy in ddp zero1 zero2 zero3 megatron summa2.5d 3d 4d deepspeed3d; do
  few=$(left_a_host $strategy 2)
  many=$(left_a_host $strategy 6)
  awk -v name=$strategy -v bytes=$((many - few)) -v mbit="$mbit" \
    'BEGIN { step = bytes / 4; printf "%-12s %8.2f %8.2f\n", name, step / 1e6, step * 8 / (mbit * 1e6) }'
done

printf '\nFour hosts of two ranks, %s Mbit/s: 8192 rows, 256 wide\n\n' "$mbit"
"${testbed[@]}" "${many_rows[@]}" --steps 11

printf '\n64 ranks as threads\n\n'
$program bench configs/gpt-bench.toml --threads 64 --steps 3 "${sizes[@]}" --set train.precision=float64 \
  --set model.width=128 --set model.heads=64 --set model.layers=4 --set model.context=16 --set train.batch=64
