#!/usr/bin/env bash
# Compares predicted with measured steps: 16 emulated devices on four hosts (scripts/testbed.sh, needs root), in three
# regimes. In each regime the testbed is calibrated, every grid of five axes that the model fits is planned, and the
# best plan of each grid is trained for three steps: the first one warms up, and the faster one of the others counts,
# because a disturbance makes a step longer and never shorter. Then all strategies by name are compared with the
# plan's choice. Takes about 75 minutes on 2 cores that do nothing else.
#
#   bench/plan_accuracy.sh [OUT_DIR] [REGIME...]         default: build/accuracy few many slow
#
# STEPS=2 trains for two steps instead of three, PLANS=no leaves out the plans of all grids, and STRATEGIES=no the
# comparison of strategies. SLOWER=2 makes devices and links half as fast, for a machine that cannot keep up with 16
# devices (fourfold says so); then everything takes twice as long.
# OUT_DIR gets, for each regime, NAME-cluster.toml, NAME-plans.json, NAME-measured.json, NAME.txt and NAME-strategies.txt;
# bench/plan_accuracy.py turns these into tables and a picture.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-build/accuracy}
shift || true
[ $# -gt 0 ] || set -- few many slow
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
mkdir -p "$out"

# Devices that are so slow that two cores can compute for 16 of them.
slower=${SLOWER:-1}
rate=$(awk "BEGIN { print 0.5 / $slower }")
device=(--gflops "$rate" --gbytes-per-second "$rate")
common=(configs/gpt-bench.toml --set device.gflops="$rate" --set device.gbytes_per_second="$rate"
  --set data.tokenizer=bytes --set model.vocab=256 --set model.heads=16 --set model.layers=4
  --set overlap.segment_mib=2 --set overlap.window_mib=8)
wide=(--set model.width=256 --set model.context=64 --set train.batch=16)     # 1024 rows
narrow=(--set model.width=128 --set model.context=128 --set train.batch=32)  # 4096 rows

for regime in "$@"; do
  case $regime in
    few) mbit=100 model=("${wide[@]}") ;;
    many) mbit=50 model=("${narrow[@]}") ;;
    slow) mbit=25 model=("${wide[@]}") ;;
    *) echo "there is no regime $regime; there are few, many and slow" >&2; exit 2 ;;
  esac
  mbit=$(awk "BEGIN { print $mbit / $slower }")
  files=$out/$regime
  testbed=(scripts/testbed.sh --hosts 4 --slots 4 --mbit $mbit --)
  echo "== $regime: $mbit Mbit/s, ${model[*]}"
  "${testbed[@]}" $program calibrate "${device[@]}" --name "$regime" --out "$files-cluster.toml"
  if [ "${PLANS:-yes}" = yes ]; then
    $program plan "${common[@]}" "${model[@]}" --cluster "$files-cluster.toml" --gpus 16 --top 1000 \
      --json "$files-plans.json" >"$files-plans.txt"
    "${testbed[@]}" $program bench "${common[@]}" "${model[@]}" --plans "$files-plans.json" --steps "${STEPS:-3}" \
      --json "$files-measured.json" | tee "$files.txt" | grep -E '^4d on|^summa|^predicted'
  fi
  [ "${STRATEGIES:-yes}" = yes ] || continue
  "${testbed[@]}" $program bench "${common[@]}" "${model[@]}" --strategies all --steps 5 \
    --json "$files-strategies.json" | tee "$files-strategies.txt"
done
[ "${PLANS:-yes}" != yes ] || bench/plan_accuracy.py "$out" "$@"
