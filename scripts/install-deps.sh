#!/usr/bin/env bash
# Installs the Debian packages that are missing, as root or with sudo. Prints nothing if no package is missing.
#   scripts/install-deps.sh build|quickstart|test|python
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=(ca-certificates g++ cmake ninja-build ccache
  libtorch-dev libopenblas0-pthread          # libtorch only recommends OpenBLAS: without it products crawl
  libopenmpi-dev openmpi-bin
  libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
  libsentencepiece-dev libpcre2-dev
  libpng-dev zlib1g-dev libxxhash-dev)
quickstart=(fortunes                         # a text to learn from
  dataset-fashion-mnist)                     # images to learn from
test=(libgtest-dev iproute2 util-linux procps
  slurmctld slurmd slurm-client munge        # a small Slurm to start jobs on; its plugins speak PMIx with Open MPI
  clang libclang-rt-14-dev                   # fuzz targets
  chromium)                                  # looks at the page of train --report
python=(ca-certificates python3 python3-venv)  # what comes from PyPI: libtorch 2.x and the libraries of CUDA

case ${1:-} in
  build) wanted=("${build[@]}") ;;
  quickstart) wanted=("${build[@]}" "${quickstart[@]}") ;;
  test) wanted=("${build[@]}" "${quickstart[@]}" "${test[@]}") ;;
  python) wanted=("${python[@]}") ;;
  *) echo "usage: $0 build|quickstart|test|python" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "missing packages: ${missing[*]}; install them as root" >&2; exit 2; }
  sudo=(sudo)
fi
echo "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${sudo[@]}" apt-get update -qq &&
       "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
         "${missing[@]}"; } >"$log" 2>&1; then
  cat "$log" >&2
  echo "the packages above could not be installed" >&2
  exit 1
fi
