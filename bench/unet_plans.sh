#!/usr/bin/env bash
# The papers' question for U-Nets: 4-D parallelism beside Megatron-style 1-D, ZeRO-3 and data parallelism, for five sizes
# on 64 to 1024 A100, as the plan predicts them. Prints a table in Markdown.
#
#   bench/unet_plans.sh [PROGRAM]          default: build/release/fourfold
#
# Without pipelines (--keep pipe): none of the four has one.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/release/fourfold}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "| U-Net | A100 | strategy | grid | settings | step | mfu | waits for | step / best |"
echo "|---|---|---|---|---|---|---|---|---|"
for pair in 550m:64 1b:128 2b:256 4b:512 8b:1024; do
  size=${pair%:*} gpus=${pair#*:}
  begin=$SECONDS
  "$program" plan "configs/unet-$size.toml" --cluster perlmutter --gpus "$gpus" --keep pipe --top 1 \
    --strategies 4d,megatron,zero3,zero1,ddp --json "$work/plan.json" >"$work/plan.txt"
  python3 - "$work/plan.json" "$size" "$gpus" <<'PYTHON'
import json, sys
answer = json.load(open(sys.argv[1]))
rows = answer["strategies"]
best = min(row["step_seconds"] for row in rows if "step_seconds" in row)
for row in rows:
    name = f"| {sys.argv[2]} | {sys.argv[3]} | `{row['strategy']}` |"
    if "step_seconds" not in row:
        print(f"{name} | | | | | {row.get('refused', '')} |")
        continue
    grid = ",".join(f"{axis}={size}" for axis, size in row["grid"].items() if size > 1)
    settings = [f"{row['micro_batch']} images a pass"]
    settings += ["checkpointing"] if row["checkpoint_activations"] else []
    settings += ["replicated"] if row["activations"] == "replicated" else []
    waits = sorted(((s, a) for a, s in row["exposed_by_axes"].items()), reverse=True)
    waits = [f"{a} {100 * s / row['step_seconds']:.0f}%" for s, a in waits if s >= 0.01 * row["step_seconds"]]
    print(f"{name} {grid} | {', '.join(settings)} | {row['step_seconds']:.2f} s | {100 * row['mfu']:.1f}% | "
          f"{', '.join(waits)} | {row['step_seconds'] / best:.2f} |")
PYTHON
  echo "unet-$size on $gpus: $((SECONDS - begin)) s" >&2
done
