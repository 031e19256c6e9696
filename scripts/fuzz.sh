#!/usr/bin/env bash
# Looks for inputs that the readers of strangers' files cannot bear, as many targets at a time as there are cores:
#   scripts/fuzz.sh [MINUTES] [TARGET...]          default: 10 minutes of processor time for each target
# What is found is kept in build/fuzz/found/TARGET, so that the next call goes on from there; an input that makes a
# target fail is a file build/fuzz/found/TARGET-* and ends the script with status 1. Prints a line for each target.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-10}
shift || true
scripts/install-deps.sh test
[ -f build/fuzz/build.ninja ] || cmake --preset fuzz -G Ninja >/dev/null
cmake --build --preset fuzz >/dev/null
[ $# -gt 0 ] || set -- $(cd build/fuzz/tests && ls -d fuzz_* | sed 's/^fuzz_//')

look() { # target: rounds of a minute until it has had its time, which other programs may share
  local target=$1 minutes=$2 found=build/fuzz/found/$1 spent=0 inputs=0 round=0
  local stat=/proc/$BASHPID/stat   # of this shell: inside $( ) there is another one
  local seeds=("tests/fuzz/corpus/$target")
  case $target in cluster) seeds+=(clusters) ;; config) seeds+=(configs) ;; esac
  mkdir -p "$found"
  while [ "$spent" -lt $((minutes * 60)) ]; do
    round=$((round + 1))
    local begin=$(awk '{ print $16 + $17 }' "$stat")   # of the processes that were waited for
    if ! "build/fuzz/tests/fuzz_$target" -seed=$round -max_total_time=60 -rss_limit_mb=2048 -timeout=10 -max_len=4096 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target-" "$found" "${seeds[@]}" \
        >"build/fuzz/found/$target.log" 2>&1; then
      echo "$target: a finding, see build/fuzz/found/$target.log"
      return 1
    fi
    local end=$(awk '{ print $16 + $17 }' "$stat")
    spent=$((spent + (end - begin) / $(getconf CLK_TCK)))
    inputs=$((inputs + $(awk '/number_of_executed_units/ { print $2 }' "build/fuzz/found/$target.log")))
  done
  echo "$target: $inputs inputs in $((spent / 60)) minutes, $(ls "$found" | wc -l) of them new ways through the code"
}
export -f look
mkdir -p build/fuzz/found
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c "look {} $minutes"
