#!/usr/bin/env bash
# Gets what `cmake --preset cuda` needs, without the packages of Debian, which are too old: libtorch for CUDA, CUDA's
# libraries and compiler, and NCCL, from PyPI. build/cuda-libs leads to them afterwards.
#   package                           download   what for
#   torch 2.15.0                      0.5 GB     libtorch
#   the nvidia-* packages it asks for 1.9 GB     cuDNN, cuBLAS and others, which libtorch loads at the start; NCCL; cudart
#   cuda-toolkit[nvcc] 13.2.2         0.1 GB     the compiler; its version is that of torch's CUDA
#   nvidia-cuda-cuobjdump             0.4 MB     lists kernels, for scripts/check-cuda.sh
# They take 5.6 GB on the disk, in build/cuda-venv; FOURFOLD_CUDA_VENV names another folder. No GPU and no driver are
# needed to build. On a cluster this script is not needed: docs/gpu.md says what to set instead.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(torch==2.15.0 "cuda-toolkit[nvcc]==13.2.2" nvidia-cuda-cuobjdump==13.4.92)
venv=${FOURFOLD_CUDA_VENV:-$PWD/build/cuda-venv}

scripts/install-deps.sh build
scripts/install-deps.sh python
if [ ! -x "$venv/bin/pip" ]; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
fi
"$venv/bin/pip" install --quiet --no-input "${packages[@]}"
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p build/cuda-libs
ln -sfn "$site/torch" build/cuda-libs/torch
ln -sfn "$site/nvidia/cu13" build/cuda-libs/cuda
ln -sfn "$site/nvidia/nccl" build/cuda-libs/nccl
