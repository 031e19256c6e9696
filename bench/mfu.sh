#!/usr/bin/env bash
# Prints the mfu of configs/gpt-bench.toml on two ranks with one thread each, by grid and precision:
#   bench/mfu.sh [STEPS] [PRECISION...]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-8}
shift || true
[ $# -gt 0 ] || set -- float32 bf16
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
printf '%-9s %-7s %8s %14s %14s %12s\n' precision grid mfu 'model GFLOP/s' 'GEMM GFLOP/s' 'tokens/s'
for precision in "$@"; do
  for grid in data=2 x=2 y=2 z=2; do
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 build/release/fourfold train configs/gpt-bench.toml --ranks 2 \
      --grid "$grid" --set train.precision="$precision" --set train.steps="$steps" --set optim.warmup=1 \
      --set data.validation=0 --out "$out/$precision-$grid" --json "$out/r.json" >"$out/log" ||
      { cat "$out/log"; exit 1; }
    number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$out/r.json" | tail -1; }
    printf '%-9s %-7s %8.3f %14.1f %14.1f %12.0f\n' "$precision" "$grid" "$(number mfu)" \
      "$(number model_flops_per_second | awk '{print $1/1e9}')" \
      "$(number gemm_flops_per_second | awk '{print $1/1e9}')" "$(number tokens_per_second)"
  done
done
