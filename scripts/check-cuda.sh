#!/usr/bin/env bash
# Builds the program for GPUs, on a machine that need not have one, and looks at the result: what was compiled for
# which architecture, and whether the program starts, says what it has, and trains on the processor.
#   scripts/check-cuda.sh
# FOURFOLD_CUDA_VENV names the folder of scripts/install-cuda.sh, which this script runs first.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install-cuda.sh
scripts/install-deps.sh quickstart
# build/cuda-libs leads to another environment where FOURFOLD_CUDA_VENV has changed, under names that CMake knows already.
libraries=$(readlink -f build/cuda-libs/torch && cat build/cuda-libs/torch/version.py)
stamp=build/cuda/libraries
[ "$libraries" = "$(cat $stamp 2>/dev/null)" ] || rm -rf build/cuda
[ -f build/cuda/build.ninja ] || cmake --preset cuda -G Ninja
echo "$libraries" >$stamp
# All of it: examples and measurements are linked with CUDA's libraries, too.
cmake --build --preset cuda
for built in fourfold gpu_contract bench/kernel_errors examples/04_training_loop; do
  [ -x build/cuda/$built ] || { echo "build/cuda/$built was not built" >&2; exit 1; }
done
program=build/cuda/fourfold

echo "== libraries"
# Each must be found, and CUDA and NCCL in the folder whose headers were compiled.
libraries=$(ldd $program)
grep -E 'torch|c10|cuda|nccl|not found' <<<"$libraries" | sort
! grep -q 'not found' <<<"$libraries" || { echo "a library is not found" >&2; exit 1; }
for library in libtorch_cuda libcudart libnccl; do
  grep -q "$library" <<<"$libraries" || { echo "the program does not load $library" >&2; exit 1; }
done

echo "== kernels: architecture, name, registers"
# That of the compiler: another one may not know what it has written.
cuobjdump=build/cuda-libs/cuda/bin/cuobjdump
kernels=0
for file in $(find build/cuda -name '*.cu.o' | sort); do
  contents=$("$cuobjdump" --list-elf "$file")
  for architecture in 80 90; do
    grep -q "sm_$architecture" <<<"$contents" || { echo "$file has no code for sm_$architecture" >&2; exit 1; }
  done
  listing=$("$cuobjdump" -res-usage "$file" 2>&1 | c++filt | awk '
    /arch = /   { arch = $NF }
    /^ *Function/ { sub(/^ *Function /, ""); sub(/:$/, ""); name = $0 }
    /REG:/      { match($0, /REG:[0-9]+/); printf "%s  %3d registers  %s\n", arch, substr($0, RSTART + 4, RLENGTH - 4), name }')
  echo "$listing"
  kernels=$((kernels + $(grep -c registers <<<"$listing" || true)))
done
echo "$kernels kernels, each architecture counted"
[ "$kernels" -gt 0 ] || { echo "no kernel was compiled" >&2; exit 1; }

echo "== start"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
info=$($program info)
grep -A8 '^GPUs' <<<"$info"
$program train configs/quickstart.toml --ranks 2 --grid data=2 --set train.steps=3 \
  --set optim.warmup=1 --set train.validate_every=0 --out "$folder/run"
if grep -q '^GPUs *none' <<<"$info"; then
  # Without a GPU the program must say so in one line.
  status=0
  $program train configs/quickstart.toml --set device.kind=cuda --out "$folder/refused" 2>"$folder/errors" || status=$?
  cat "$folder/errors"
  [ "$status" = 2 ] && [ "$(wc -l <"$folder/errors")" = 1 ] ||
    { echo "training on a GPU that is not there must end with one line and status 2, not $status" >&2; exit 1; }
fi

echo "== communication between GPUs"
if grep -q '^GPUs *none' <<<"$info"; then
  status=0
  build/cuda/gpu_contract 2>"$folder/errors" || status=$?
  cat "$folder/errors"
  [ "$status" = 2 ] && [ "$(wc -l <"$folder/errors")" = 1 ] ||
    { echo "without a GPU its test must end with one line and status 2, not $status" >&2; exit 1; }
else
  build/cuda/gpu_contract
  echo "for more than one GPU: mpirun -np 2 build/cuda/gpu_contract"
fi
echo "passed"
