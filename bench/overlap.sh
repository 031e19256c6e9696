#!/usr/bin/env bash
# The same GPT step on two hosts joined by a slow network, with every overlap off, each alone, and all on:
# where the step's time goes. Needs root (scripts/testbed.sh).
#
#   bench/overlap.sh [STEPS] [GRID:MBIT...]      default: 6 steps; a grid for each kind of communication
#
# Prints one table a grid. Times are rank 0's, of the median step, the first left out.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

steps=${1:-6}
shift || true
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(z=2:400 data=2:150 x=2:300 y=2:300)
program=$PWD/build/release/fourfold
[ -x "$program" ] || { echo "build the program first: cmake --build --preset release" >&2; exit 2; }
switches=(input_gradients weight_gradients weights keep_weights data halves)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { # grid mbit name-of-result switch=value...
  local grid=$1 mbit=$2 name=$3 settings=() setting
  shift 3
  for setting in "$@"; do settings+=(--set "overlap.$setting"); done
  scripts/testbed.sh --hosts 2 --slots 1 --mbit "$mbit" -- "$program" train configs/gpt-bench.toml \
    --grid "$grid" --set train.batch=16 --set "train.steps=$steps" --set optim.warmup=1 \
    --set train.validate_batches=1 --set overlap.segment_mib=4 --set overlap.window_mib=16 "${settings[@]}" \
    --out "$work/$name" --json "$work/$name.json" >"$work/$name.log" 2>&1 ||
    { cat "$work/$name.log" >&2; exit 1; }
}

all_to() { local s; for s in "${switches[@]}"; do echo "$s=$1"; done; }

row() { # label name-of-result name-of-base
  python3 - "$1" "$work/$2.json" "$work/$3.json" <<'PYTHON'
import json, statistics, sys
def numbers(path):
    steps = json.load(open(path))["steps"][1:]
    middle = sorted(steps, key=lambda s: s["seconds"])[len(steps) // 2]
    total = json.load(open(path))
    count = len(total["steps"])
    busy = sum(c["seconds"] for c in total["communication"]) / count
    sent = sum(c["wire_bytes"] for c in total["communication"]) / count
    return middle["seconds"], middle["exposed_seconds"], busy, sent, middle["loss"]
label, own, base = sys.argv[1], numbers(sys.argv[2]), numbers(sys.argv[3])
print(f"| {label} | {own[0]:.3f} | {own[0] - own[1]:.3f} | {own[2]:.3f} | {own[1]:.3f} | {own[3] / 1e6:.0f} "
      f"| {100 * (own[0] / base[0] - 1):+.0f}% | {100 * (own[1] / base[1] - 1):+.0f}% |")
PYTHON
}

for case in "${cases[@]}"; do
  grid=${case%%:*} mbit=${case##*:}
  echo
  echo "$grid, $mbit Mbit/s, 2 hosts of one rank"
  echo
  echo "| overlaps | step s | compute s | communication s | exposed s | sent MB | step | exposed |"
  echo "|---|---|---|---|---|---|---|---|"
  run "$grid" "$mbit" none $(all_to false)
  row none none none
  for switch in "${switches[@]}"; do
    run "$grid" "$mbit" "$switch" $(all_to false) "$switch=true"
    row "only $switch" "$switch" none
  done
  run "$grid" "$mbit" all $(all_to true)
  row all all none
  rm -rf "${work:?}"/*
done
