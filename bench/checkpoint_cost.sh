#!/usr/bin/env bash
# What checkpoints cost a training: a GPT whose state has 1 GiB on two ranks, without checkpoints, with checkpoints that
# are written behind training, and with a staging buffer so small that training waits for the disk. Then the last
# checkpoint is loaded on another grid.
#
#   bench/checkpoint_cost.sh [STEPS] [OUT_DIR]          default: 8 steps, build/checkpoint_cost
#
# Prints for each the median step, the time that training stood still, and the time of all steps together.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-8}
out=${2:-build/checkpoint_cost}
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
rm -rf "$out"
mkdir -p "$out"
settings=(configs/gpt-bench.toml --set data.tokenizer=bytes --set model.vocab=256 --set model.width=1024
  --set model.heads=16 --set model.layers=7 --set model.context=128 --set train.batch=8 --set train.micro_batch=8
  --set train.validate_every=0 --set optim.warmup=2 --set checkpoint.keep=1 --grid data=2)
run() { # name settings...
  local name=$1; shift
  $program train "${settings[@]}" --set train.steps="$steps" "$@" --out "$out/$name" --json "$out/$name.json" \
    >"$out/$name.log"
}
run none --set checkpoint.minutes=0
run behind --set checkpoint.every=2 --set checkpoint.staging_mib=4096
run waiting --set checkpoint.every=2 --set checkpoint.staging_mib=1
python3 - "$out" <<'PYTHON'
import json, sys
for name in ("none", "behind", "waiting"):
    with open(f"{sys.argv[1]}/{name}.json", encoding="utf-8") as file:
        run = json.load(file)
    seconds = [step["seconds"] for step in run["steps"]][1:]
    summary = run["summary"]
    blocked = summary["checkpoint_blocked_seconds"]
    print(f"{name}: median step {summary['step_seconds']:.3f} s, {summary['checkpoints']} checkpoints, "
          f"stood still {blocked:.2f} s, all steps but the first {sum(seconds):.2f} s")
PYTHON
grep -h 'checkpoint of step' "$out"/behind.log "$out"/waiting.log
$program train --resume "$out/behind" --grid x=2 --set train.steps=$((steps + 1)) | grep 'goes on'
