#!/usr/bin/env bash
# Kills random ranks of a training at random moments (kill -9), a third of them while a checkpoint is being saved, and
# compares the losses of every run with those of a run that nobody disturbed: they must have the same digits.
#
#   bench/kills.sh [KILLS] [OUT_DIR]          default: 100 kills, build/kills
#
# A small GPT in float64 on 4 ranks (y=2, data=2) with `--restarts`. SEED=n chooses other moments. Prints a line for each
# run and a summary; the exit status is 1 if a run differs or does not end.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
kills=${1:-100}
out=${2:-build/kills}
program=build/release/fourfold
[ -x $program ] || { echo "build it first: cmake --build --preset release" >&2; exit 2; }
rm -rf "$out"
mkdir -p "$out"
RANDOM=${SEED:-1}

settings=(configs/quickstart.toml --grid y=2,data=2 --set train.precision=float64 --set data.tokenizer=bytes
  --set model.vocab=256 --set model.width=64 --set model.heads=4 --set model.layers=2 --set model.context=32
  --set train.batch=8 --set train.micro_batch=8 --set train.steps=150 --set train.validate_every=0
  --set checkpoint.every=5 --set optim.warmup=10)
losses() { grep -oE '"step":[0-9]+,"loss":[^,]+' "$1/metrics.jsonl"; }

$program train "${settings[@]}" --out "$out/whole" >"$out/whole.log"
losses "$out/whole" >"$out/whole.txt"

# The ranks of the run in a folder: processes of ours that mpirun has started.
ranks_of() {
  for process in $(pgrep -f "fourfold train.*--resume $1( |\$)" || true); do
    tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q '^OMPI_COMM_WORLD_RANK=' && echo "$process" || true
  done
}

# Until the ranks that were started last train: they cut the metrics, and then add to them. Ranks that are killed twice
# before their first step go on with one rank less, whose sums have other roundings.
wait_for_steps() {
  local before now
  for _ in $(seq 200); do
    before=$(wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0)
    sleep 0.2
    now=$(wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0)
    [ "$now" -gt "$before" ] && [ "$before" -gt 0 ] && return
    kill -0 $job 2>/dev/null || return 0
  done
}

made=0 in_saves=0 runs=0 wrong=0
while [ $made -lt "$kills" ]; do
  runs=$((runs + 1))
  folder=$out/run-$runs
  $program train "${settings[@]}" --ranks 4 --out "$folder" --restarts 1000 >"$folder.log" 2>&1 &
  job=$!
  here=0
  while kill -0 $job 2>/dev/null && [ $made -lt "$kills" ]; do
    wait_for_steps "$folder"
    sleep "$(awk "BEGIN { print $RANDOM / 32768 * 1.5 }")"
    saving=no
    if [ $((made % 3)) = 0 ]; then     # wait for a save
      for _ in $(seq 2000); do
        if compgen -G "$folder/checkpoints/*.partial" >/dev/null; then saving=yes; break; fi
        kill -0 $job 2>/dev/null || break
        sleep 0.002
      done
    fi
    mapfile -t found < <(ranks_of "$folder")
    [ ${#found[@]} -gt 0 ] || continue
    kill -9 "${found[$((RANDOM % ${#found[@]}))]}" 2>/dev/null || continue
    made=$((made + 1)) here=$((here + 1))
    # A save that ended meanwhile does not count.
    [ $saving = no ] || ! compgen -G "$folder/checkpoints/*.partial" >/dev/null || in_saves=$((in_saves + 1))
  done
  status=0
  wait $job || status=$?
  losses "$folder" >"$folder.txt"
  if [ $status = 0 ] && cmp -s "$folder.txt" "$out/whole.txt"; then
    echo "run $runs: $here kills, $(grep -c 'starts again' "$folder.log" || true) restarts, the same losses"
  else
    wrong=$((wrong + 1))
    echo "run $runs: $here kills, status $status, OTHER LOSSES: see $folder.log"
  fi
done
echo "$made kills, $in_saves of them during a save, in $runs runs: $wrong runs differ"
[ $wrong = 0 ]
