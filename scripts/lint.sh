#!/usr/bin/env bash
# Checks the format of all sources and runs clang-tidy over the sources that need neither libtorch nor MPI
# (clang 14 cannot compile libtorch's headers in C++20). Needs the packages git, clang-format and clang-tidy.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror
# A file at a time, so that each is seen with what it includes itself.
[ -f build/lint/compile_commands.json ] || cmake --preset dev -G Ninja -B build/lint -DFOURFOLD_UNITY=OFF >/dev/null
git ls-files 'fourfold/base/*.cpp' 'fourfold/grid/*.cpp' 'fourfold/schedule/*.cpp' 'fourfold/launch/*.cpp' \
  'fourfold/comm/*.cpp' 'fourfold/config/*.cpp' 'fourfold/data/*.cpp' 'fourfold/formats/*.cpp' 'fourfold/report/*.cpp' 'fourfold/cluster/*.cpp' 'fourfold/plan/*.cpp' | grep -v /mpi/ | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build/lint
echo "clean"
