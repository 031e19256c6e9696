#!/usr/bin/env bash
# Runs all tests of kernels, layers, grids and training on the processor once more, with the kernels that are made of
# libtorch's operations (FOURFOLD_KERNELS=aten), as a device without kernels of its own has them. ./test.sh runs a
# selection of these.
#   scripts/check-aten.sh                       # all of build/dev, which ./test.sh builds
#   scripts/check-aten.sh nn_test zero_test     # only these programs
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(kernels_test functions_test nn_test image_layers_test image_parts_test gpt_grids_test llama_grids_test unet_test
  diffusion_test optim_test bf16_test training_test training_device_test overlap_test pipeline_test mean_values_test
  zero_test strategies_test llama_step_test unet_step_test summa_step_test checkpoints_test)
[ $# = 0 ] || programs=("$@")

# What is left out, and why.
declare -A without=(
  # Weights of bf16 are compared with those of another grid: a rounding to the other neighbour decides.
  [zero_test]='Zero.MixedTypes'
  # The memory of a dry run is that of the tuned kernels, and these take more.
  [summa_step_test]='SummaStep.PeakOfADryRun*'
  [unet_step_test]='UNetStep.SendsWhatTheClosedFormSays*'
  [mean_values_test]='MeanValues.AreMemoryOfTheOptimizer*'
  [nn_test]='SummaMemory.*'
  # What a tuned kernel keeps from the forward pass for the backward pass.
  [strategies_test]='Balanced.ActivationsOf3d*'
)

build=build/dev/tests
for program in "${programs[@]}"; do
  [ -x "$build/$program" ] || { echo "there is no $build/$program; run ./test.sh --quick first" >&2; exit 2; }
done
logs=build/logs/aten
mkdir -p $logs
export FOURFOLD_KERNELS=aten OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ASAN_OPTIONS=detect_leaks=0
passed=0 failed=()
for program in "${programs[@]}"; do
  log=$logs/$program.log
  if timeout 3600 "$build/$program" --gtest_filter="-${without[$program]:-}" >"$log" 2>&1; then
    count=$(grep -oE '^\[  PASSED  \] [0-9]+' "$log" | grep -oE '[0-9]+')
    [ "$count" -gt 0 ] || { echo "$program has no test" >&2; exit 1; }
    passed=$((passed + count))
    echo "$program: $count passed${without[$program]:+, without ${without[$program]}}"
  else
    failed+=("$program")
    echo "$program: failed, see $log"
    grep -E '^\[  FAILED  \]|Failure$' "$log" | sort -u | head -20 || true
  fi
done
echo
echo "$passed passed, ${#failed[@]} programs failed: ${failed[*]:-none}"
[ ${#failed[@]} = 0 ]
