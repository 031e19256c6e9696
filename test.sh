#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: ./test.sh [--quick]
# --quick leaves out the builds with sanitizers. A second run builds only what has changed.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")"

presets=(dev asan tsan fuzz)
case ${1:-} in
  "") ;;
  --quick) presets=(dev) ;;
  *) echo "usage: ./test.sh [--quick]" >&2; exit 2 ;;
esac

scripts/install-deps.sh test

# What each preset is for: everything; memory errors; data races; files of strangers. The sanitized builds leave out what
# needs libtorch or MPI, and the tests of pure values that the first one has run already.
ranks='Contract|Device|ThreadFailure|BadEngine|Communicator|Recording|Scratch|Timeline|Clock|Flight'
files='Fuzz|Reader|Folder|Header|TokenFile|Tokenizers|Gpt2|Refuse|Manifest'   # what reads files of others
tests_of() { case $1 in dev | fuzz) echo . ;; asan) echo "$ranks|$files" ;; tsan) echo "$ranks" ;; esac; }
targets_of() { case $1 in tsan) echo device_test thread_contract_test thread_failure_test comm_unit_test ;; *) echo all ;; esac; }

logs=build/logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
for preset in "${presets[@]}"; do
  echo "== $preset: build"
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" -G Ninja >"$logs/$preset-configure.log" ||
    { cat "$logs/$preset-configure.log"; exit 1; }
  cmake --build --preset "$preset" --target $(targets_of "$preset") >"$logs/$preset-build.log" 2>&1 ||
    { grep -E -A5 'error|FAILED' "$logs/$preset-build.log" | head -60; exit 1; }
  echo "== $preset: test"
  status=0
  ctest --test-dir "build/$preset" --output-on-failure -j "$(nproc)" -R "$(tests_of "$preset")" \
    >"$logs/$preset-test.log" 2>&1 || status=$?
  log=$logs/$preset-test.log
  p=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log" || true)
  s=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped ' "$log" || true)
  f=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Failed|Exception|Timeout|Not Run)' "$log" || true)
  if [ "$status" != 0 ]; then
    [ "$f" -gt 0 ] || f=1
    cat "$log"
  fi
  echo "   $p passed, $f failed, $s skipped, $(grep -oE 'Total Test time \(real\) = *[0-9.]+ sec' "$log" | grep -oE '[0-9.]+ sec' || echo)"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo
if [ "$passed" = 0 ]; then echo "no test has run" >&2; exit 1; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
