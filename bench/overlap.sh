#!/usr/bin/env bash
# Times the same GPT step with every overlap off, with each overlap that matters on the grid on alone, and with all
# on. Prints tables of where the time goes: on two hosts joined by a slow network (scripts/testbed.sh, needs root),
# and on two ranks of one host.
#
#   bench/overlap.sh [ROUNDS] [GRID:MBIT...]
#
# MBIT is the rate of the hosts' links, or "host" for two ranks of one host. Without GRID:MBIT arguments the script
# runs one grid for each kind of communication, at a rate at which communication takes about as long as compute. All
# settings of a table take turns in one run. Times are medians of rank 0. Changes are medians over the rounds of the
# difference from the first setting in the same round.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
shift || true
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(z=2:300 data=2:200 x=2:600 y=2:300 x=2:host y=2:host z=2:host data=2:host)
program=build/release/bench/overlap
[ -x $program ] || { echo "build it first: cmake --build --preset release --target overlap" >&2; exit 2; }
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

for case in "${cases[@]}"; do
  grid=${case%%:*} rate=${case##*:}
  sizes=(train.batch=16)
  case $grid in
    z=*) settings=none,input_gradients,weight_gradients,weights,keep_weights,all ;;
    data=*) settings=none,data,all ;;
    *) settings=none,input_gradients,halves,all
       # Wide: activations are few bytes for each flop.
       [ "$rate" = host ] || sizes=(model.width=2048 model.heads=16 model.layers=2 train.batch=4) ;;
  esac
  # Here little is to be seen: more and shorter rounds.
  times=$rounds
  [ "$rate" != host ] || { settings=none,all sizes=(model.layers=2 train.batch=4) times=$((rounds * 20)); }
  job=($program configs/gpt-bench.toml "$grid" "$times" $settings train.steps=1000000
    overlap.segment_mib=4 overlap.window_mib=16 "${sizes[@]}")
  if [ "$rate" = host ]; then
    printf '\n%s, two ranks of one host, %s\n\n' "$grid" "${sizes[*]}"
    mpirun -q -np 2 --bind-to core "${job[@]}"
  else
    printf '\n%s, two hosts, %s Mbit/s, %s\n\n' "$grid" "$rate" "${sizes[*]}"
    scripts/testbed.sh --hosts 2 --slots 1 --mbit "$rate" -- "${job[@]}"
  fi
done
