#!/usr/bin/env bash
# Builds everything with libtorch 2.x instead of Debian's 1.13, on the CPU, and runs the tests:
#   scripts/check-torch2.sh                          # all of them
#   scripts/check-torch2.sh kernels_test nn_test     # only these programs, which are built alone
# libtorch comes from PyPI, with the two libraries of CUDA that it cannot be loaded without (0.6 GB to download, 1.3 GB
# on the disk), into build/torch2-venv; FOURFOLD_TORCH_VENV names another folder.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(torch==2.15.0 nvidia-cuda-runtime==13.2.86 nvidia-cuda-cupti==13.2.86)
venv=${FOURFOLD_TORCH_VENV:-$PWD/build/torch2-venv}
build=build/torch2

scripts/install-deps.sh test
scripts/install-deps.sh python
if [ ! -x "$venv/bin/pip" ]; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
fi
torch=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch
[ -f "$torch/lib/libtorch_cpu.so" ] || "$venv/bin/pip" install --quiet --no-input --no-deps "${packages[@]}"

# libtorch is looked for where the first build found it, so that another environment needs another build.
if [ -f $build/CMakeCache.txt ] && ! grep -q "^TORCH_CPU_LIBRARY:FILEPATH=$torch/" $build/CMakeCache.txt; then
  rm -rf $build
fi
# g++ 12 warns inside of libtorch's own headers where it inlines them.
cmake --preset dev -G Ninja -B $build -DCMAKE_PREFIX_PATH="$torch" -DFOURFOLD_WERROR=OFF
cmake --build $build --target "${@:-all}"
# Tests have the name of their program as a label: the names of most tests are those of their cases.
chosen=()
[ $# = 0 ] || chosen=(-L "^($(IFS='|'; echo "$*"))\$")
ctest --test-dir $build --no-tests=error --output-on-failure -j "$(nproc)" "${chosen[@]}"
