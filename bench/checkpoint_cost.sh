#!/usr/bin/env bash
# What checkpoints cost a training: a GPT whose state has 1 GiB on two ranks, with checkpoints that are written behind
# training, and with a staging buffer so small that training waits for the disk. Then the last checkpoint is loaded on
# another grid.
#
#   bench/checkpoint_cost.sh [STEPS] [OUT_DIR]          default: 30 steps, build/checkpoint_cost
#
# Compares the steps of one run during which a checkpoint was written with its other steps: the steps alone, and together
# with the time for which training stood still between them. Prints also how long that was, and what was read for what
# was needed. Run it on a quiet machine.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-30}
out=${2:-build/checkpoint_cost}
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
rm -rf "$out"
mkdir -p "$out"
settings=(configs/gpt-bench.toml --set data.tokenizer=bytes --set model.vocab=256 --set model.width=1024
  --set model.heads=16 --set model.layers=7 --set model.context=128 --set train.batch=8 --set train.micro_batch=8
  --set train.validate_every=0 --set train.compare_every=0 --set optim.warmup=2 --set checkpoint.keep=1 --grid data=2)
run() { # name steps settings...
  local name=$1 count=$2; shift 2
  $program train "${settings[@]}" --set train.steps="$count" "$@" --out "$out/$name" --json "$out/$name.json" \
    >"$out/$name.log"
}
run behind "$steps" --set checkpoint.every=$((steps / 5)) --set checkpoint.staging_mib=4096
run waiting 6 --set checkpoint.every=2 --set checkpoint.staging_mib=1
python3 - "$out" <<'PYTHON'
import json, re, statistics, sys
def seconds_of(text):
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]

for name in ("behind", "waiting"):
    with open(f"{sys.argv[1]}/{name}.json", encoding="utf-8") as file:
        seconds = {step["step"]: step["seconds"] for step in json.load(file)["steps"]}
    with open(f"{sys.argv[1]}/{name}.log", encoding="utf-8") as file:
        saves = re.findall(r"checkpoint of step (\d+): (.*) in ([0-9.]+ [mu]?s), training stood still for ([0-9.]+ [mu]?s)", file.read())
    writing, stood = [], 0
    for step, size, took, still in saves:
        left, at = seconds_of(took), int(step) + 1
        print(f"{name}: step {step}: {size} in {took}, training stood still for {still}")
        if at in seconds:  # a save after the last step delays none
            stood += seconds_of(still)
        while left > 0.2 * seconds.get(at, 1e9):
            writing.append(at)
            left -= seconds[at]
            at += 1
    others = [seconds[at] for at in seconds if at not in writing and at > 1]
    usual = statistics.median(others)
    print(f"{name}: {len(others)} steps while nothing was written: median {usual:.3f} s, from {min(others):.3f} to {max(others):.3f}")
    if writing:
        slow = [seconds[at] for at in writing]
        print(f"{name}: {len(slow)} steps while a checkpoint was written: mean {statistics.mean(slow):.3f} s "
              f"({100 * (statistics.mean(slow) / usual - 1):+.1f}%), from {min(slow):.3f} to {max(slow):.3f}")
        whole, others_whole = sum(slow) + stood, len(slow) * statistics.mean(others)
        print(f"{name}: the same with standing still: {whole:.2f} s, and {others_whole:.2f} s for as many other steps "
              f"({100 * (whole / others_whole - 1):+.1f}%)")
PYTHON
$program train --resume "$out/behind" --grid x=2 --set train.steps=$((steps + 1)) | grep 'goes on'
