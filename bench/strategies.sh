#!/usr/bin/env bash
# Every strategy on the same small GPT: on 8 ranks of four hosts joined by a slow network (scripts/testbed.sh, needs
# root), and on 64 ranks as threads of one process, where only losses, bytes and memory mean something.
#
#   bench/strategies.sh [MBIT]          200 unless given
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
sizes=(--set data.tokenizer=bytes --set model.vocab=256 --set overlap.segment_mib=2 --set overlap.window_mib=8)

printf 'Four hosts of two ranks, %s Mbit/s\n\n' "${1:-200}"
scripts/testbed.sh --hosts 4 --slots 2 --mbit "${1:-200}" -- $program bench configs/gpt-bench.toml --steps 11 \
  "${sizes[@]}" --set model.width=512 --set model.heads=8 --set model.layers=4 --set model.context=128 --set train.batch=16

printf '\n64 ranks as threads\n\n'
$program bench configs/gpt-bench.toml --threads 64 --steps 3 "${sizes[@]}" --set train.precision=float64 \
  --set model.width=128 --set model.heads=64 --set model.layers=4 --set model.context=16 --set train.batch=64
