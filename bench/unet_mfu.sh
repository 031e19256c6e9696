#!/usr/bin/env bash
# Prints how fast a U-Net trains on two ranks with one thread each, relative to its convolutions alone, by grid and
# precision: bench/unet_mfu.sh [STEPS] [PRECISION...]
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-6}
shift || true
[ $# -gt 0 ] || set -- float32 bf16
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
[ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for precision in "$@"; do
  echo "$precision"
  for grid in data=2 z=2 x=2 y=2; do
    mpirun -q -np 2 --bind-to core --oversubscribe build/release/bench/unet_mfu configs/unet-bench.toml "$grid" \
      "$steps" train.precision="$precision"
  done
done
