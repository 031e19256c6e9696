#!/usr/bin/env bash
# Makes the pictures of docs/results/overlap.md. Each shows one step of a small GPT on two hosts (scripts/testbed.sh,
# needs root), with overlaps off and on, one above the other on one page. Headless Chromium takes the picture.
#
#   bench/overlap_pictures.sh [FOLDER] [GRID...]     default: docs/images z data x readme
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:-docs/images}
shift || true
grids=${*:-z data x readme}
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sizes=(--set model.layers=2 --set train.batch=8)

# The timeline of one step: GRID MBIT TITLE SWITCH... -> a section of the page.
timeline() {
  local grid=$1 mbit=$2 title=$3 set=() name value
  shift 3
  for name in input_gradients weight_gradients weights keep_weights data halves; do
    value=false
    for on in "$@"; do [ "$on" != $name ] || value=true; done
    set+=(--set overlap.$name=$value)
  done
  scripts/testbed.sh --hosts 2 --slots 1 --mbit "$mbit" -- $program train configs/gpt-bench.toml --grid "$grid" \
    "${sizes[@]}" --set data.tokenizer=bytes --set model.vocab=256 --set train.steps=3 --set optim.warmup=1 \
    --set overlap.segment_mib=4 --set overlap.window_mib=16 "${set[@]}" \
    --out "$work/run" --report "$work/run.html" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  sed -n '1,/<body><main>/p' "$work/run.html" >"$work/head"
  echo "<section><h2>$title</h2>"
  sed -n '/<h2>One step, rank by rank<\/h2>/,/<\/section>/p' "$work/run.html" | sed '1s/.*<\/h2>//'
  rm -rf "$work/run" "$work/run.html"
}

# NAME HEIGHT: what was collected as a page, and the page as a picture.
picture() {
  { cat "$work/head" "$work/sections"; echo "</main></body></html>"; } >"$work/page.html"
  chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" --hide-scrollbars \
    --window-size=1180,"$2" --screenshot="$folder/$1.png" "file://$work/page.html" >"$work/log" 2>&1
  echo "$folder/$1.png"
}

pictures_of_z() {
  {
    timeline z=2 300 "z=2: no overlap"
    timeline z=2 300 "z=2: sums of weight gradients behind backward (weight_gradients, input_gradients)" weight_gradients input_gradients
    timeline z=2 300 "z=2: weights gathered ahead (weights)" weights
    timeline z=2 300 "z=2: gathered weights kept (keep_weights)" keep_weights
    timeline z=2 300 "z=2: all" input_gradients weight_gradients weights keep_weights data halves
  } >"$work/sections"
  picture overlap-z 2500
}

# The picture of the README: the first and the last of z.
pictures_of_readme() {
  {
    timeline z=2 300 "z=2: no overlap"
    timeline z=2 300 "z=2: all" input_gradients weight_gradients weights keep_weights data halves
  } >"$work/sections"
  picture overlap 990
}

pictures_of_data() {
  {
    timeline data=2 200 "data=2: no overlap"
    timeline data=2 200 "data=2: sums behind backward, new weights behind the next forward (data)" data
  } >"$work/sections"
  picture overlap-data 800
}

pictures_of_x() {
  # Wide: activations are few bytes for each flop.
  sizes=(--set model.width=2048 --set model.heads=16 --set model.layers=1 --set train.batch=4)
  {
    timeline x=2 600 "x=2: no overlap"
    timeline x=2 600 "x=2: the sum of dI behind the product for dW (input_gradients)" input_gradients
    timeline x=2 600 "x=2: two halves (halves)" halves
    timeline x=2 600 "x=2: all" input_gradients weight_gradients weights keep_weights data halves
  } >"$work/sections"
  picture overlap-x 2000
}

for grid in $grids; do pictures_of_"$grid"; done
