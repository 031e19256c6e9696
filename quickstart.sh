#!/usr/bin/env bash
# Installs what is missing, builds, trains a small GPT on 4 ranks and lets it write: ./quickstart.sh
# On Debian 12, as root or with sudo. A second run builds nothing and trains again.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")"
[ $# -eq 0 ] || { echo "usage: ./quickstart.sh" >&2; exit 2; }

scripts/install-deps.sh quickstart

fourfold=build/release/fourfold
logs=build/logs
mkdir -p "$logs"
[ -f build/release/build.ninja ] || cmake --preset release -G Ninja >"$logs/release-configure.log" 2>&1 ||
  { cat "$logs/release-configure.log" >&2; exit 1; }
if ! ninja -C build/release -n fourfold 2>/dev/null | grep -q 'no work to do'; then
  echo "Building (a few minutes the first time)"
  cmake --build --preset release --target fourfold >"$logs/release-build.log" 2>&1 ||
    { grep -E -A5 'error|FAILED' "$logs/release-build.log" | head -60 >&2; exit 1; }
fi

mkdir -p runs
run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
echo "Training a small GPT on Debian's fortunes: 4 ranks, x=2 times y=2"
echo "  $fourfold train configs/quickstart.toml --ranks 4 --grid x=2,y=2 --out $run"
"$fourfold" train configs/quickstart.toml --ranks 4 --grid x=2,y=2 --out "$run" --json "$run.json"
mv "$run.json" "$run/results.json"

echo
echo "What it writes now:"
echo "  $fourfold sample $run --prompt The --samples 3 --tokens 40 --temperature 0.5 --top-k 20"
"$fourfold" sample "$run" --prompt The --samples 3 --tokens 40 --temperature 0.5 --top-k 20

cat <<TEXT

The run folder is $run: the model (model.safetensors, readable by other tools), the tokenizer,
config.toml, log.txt, metrics.jsonl, TensorBoard's events and results.json.

Try next:
  $fourfold sample $run --prompt "A man" --temperature 1
  $fourfold train configs/quickstart.toml --ranks 2 --grid data=2 --set train.steps=100
  $fourfold train configs/quickstart.toml --init-from $run --set train.steps=100
  $fourfold dryrun configs/gpt-80b.toml --grid x=4,y=4,z=8,data=8
TEXT
