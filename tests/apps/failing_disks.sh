#!/bin/bash
# Runs a training with checkpoints (OUT COMMAND...) whose disk fails in four ways while it saves: it can only be read, it
# is full for checkpoints, it is full for everything, the folder of checkpoints is gone. Prints what did not happen as
# expected, and at the end the status of the training, which it stops with SIGUSR1. Needs mounts of its own: unshare -m.
# Status 77: no mounts here.
out=$1
shift
mkdir "$out.disk" && mount -t tmpfs -o size=64m disk "$out.disk" || exit 77
mkdir "$out.disk/run" && ln -s "$out.disk/run" "$out"
"$@" 2>"$out.err" >"$out.out" &
run=$!
wait_until() { # TEXT COMMAND...
  local text=$1
  shift
  for _ in $(seq 600); do
    "$@" && return
    sleep 0.1
  done
  echo "did not happen: $text"
}
said() { grep -qs "$1" "$out/log.txt"; }
told() { grep -qs "$1" "$out.out"; }
saved() { sed -n 's/.* checkpoint of step \([0-9]*\): .*/\1/p' "$out/log.txt" | tail -1; }
saved_more_than() { [ "$(saved)" != "$1" ]; }

wait_until "a checkpoint" said "checkpoint of step"
mount -t tmpfs -o ro disk "$out/checkpoints" || { kill $run; exit 77; }
wait_until "a disk that can only be read" said "Read-only file system"
umount -l "$out/checkpoints"
ls "$out/checkpoints" | grep -q '^step-' || echo "did not happen: the old checkpoints stay"
wait_until "the next checkpoint" saved_more_than "$(saved)"
mount -t tmpfs -o size=64k disk "$out/checkpoints"
wait_until "a full disk" said "No space left on device"
umount -l "$out/checkpoints"
wait_until "the next checkpoint" saved_more_than "$(saved)"
fills() { cat /dev/zero >>"$out.disk/filler" 2>/dev/null; told "$1"; }   # also what was freed meanwhile
wait_until "a full disk for all files" fills "what is missing is written when it can be"
rm "$out.disk/filler"
wait_until "all files again" told "are written again"
wait_until "the next checkpoint" saved_more_than "$(saved)"
mv "$out/checkpoints" "$out/away"
wait_until "a checkpoint in a new folder" saved_more_than "$(saved)"
kill -USR1 $run
wait $run
echo "status $?"
rm "$out"
cp -a "$out.disk/run" "$out"   # the disk goes with this shell
