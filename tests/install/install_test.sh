#!/usr/bin/env bash
# Installs the build, moves it, and uses it from there: the program, and projects outside the tree.
#   install_test.sh BUILD SOURCE GENERATOR
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
build=$1 source=$2 generator=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

# Projects outside the tree compile with the libtorch of the build, which may be named by a prefix.
prefixes=$(sed -n 's/^CMAKE_PREFIX_PATH:[A-Z]*=//p' "$build/CMakeCache.txt")

# Nothing may depend on the place that it was installed to.
cmake --install "$build" --prefix "$work/staged" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/staged" "$work/prefix"
prefix=$work/prefix
prefixes="$prefix;$prefixes"
if grep -rlF -e "$source" -e "$build" -e "$work" "$prefix/lib/cmake"; then fail "these files know the tree"; fi

# Runs a program, and expects that it has loaded the module of the installation.
expect_module() {
  LD_DEBUG=libs LD_DEBUG_OUTPUT=$work/loaded "$@" >"$work/out" 2>&1 || { cat "$work/out"; fail "$1 failed"; }
  grep -q "calling init: $prefix/.*lib/fourfold/libfourfold_sentencepiece.so" "$work"/loaded.* ||
    fail "$1 has not loaded the module of the installation"
  rm -f "$work"/loaded.*
}

# The program, with the tokenizer that needs the module.
"$prefix/bin/fourfold" --version
for i in $(seq 400); do echo "The number $i comes before the number $((i + 1)), and after $((i - 1))."; done >"$work/text.txt"
cat >"$work/gpt.toml" <<TOML
[model]
vocab = 300
width = 8
heads = 2
layers = 1
context = 8
[data]
text = "$work/text.txt"
cache = "$work/cache"
[train]
steps = 1
batch = 2
micro_batch = 2
[optim]
warmup = 0
TOML
expect_module "$prefix/bin/fourfold" train "$work/gpt.toml" --out "$work/run"
[ -f "$work/run/model.safetensors" ] || fail "the program has trained nothing"

# The documentation, with every page and picture of the tree.
docs=$prefix/share/doc/fourfold
(cd "$source/docs" && find . -type f) | while read -r page; do
  cmp -s "$source/docs/$page" "$docs/$page" || fail "docs/$page is not installed"
done
[ -f "$docs/LICENSE" ] || fail "the licence is not installed"

# The clusters that are found by name.
(cd "$source/clusters" && ls) | while read -r file; do
  cmp -s "$source/clusters/$file" "$prefix/share/fourfold/clusters/$file" || fail "clusters/$file is not installed"
done

# The installed examples, as a project of their own. Unoptimised: it is their building that is tested.
(cd "$source/examples" && find . -type f) | while read -r file; do
  [ -f "$docs/examples/$file" ] || fail "examples/$file is not installed"
done
cmake -S "$docs/examples" -B "$work/examples-build" -G "$generator" -DCMAKE_PREFIX_PATH="$prefixes" \
  -DCMAKE_BUILD_TYPE=None >"$work/log" || { cat "$work/log"; fail "the examples are not configured"; }
for example in 01_grid_and_collective 03_matrix_products 07_ranks_of_mpi; do
  cmake --build "$work/examples-build" --target $example >"$work/log" || { cat "$work/log"; fail "no $example"; }
  "$work/examples-build/$example" >"$work/out" || fail "$example failed"
done
"$work/examples-build/07_ranks_of_mpi" --ranks 2 >"$work/out" || fail "07_ranks_of_mpi failed on two ranks"
grep -qx "3.141592654 on 2 ranks" "$work/out" || fail "07_ranks_of_mpi has not run on two ranks: $(cat "$work/out")"

# A project that asks for a version, and whose program needs the module.
mkdir "$work/user"
cat >"$work/user/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(User LANGUAGES CXX)
find_package(Fourfold 99 QUIET)
if(Fourfold_FOUND)
  message(FATAL_ERROR "a version that does not exist was found")
endif()
find_package(Fourfold 0.1 REQUIRED)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE fourfold::data)
CMAKE
cat >"$work/user/user.cpp" <<'CODE'
#include "fourfold/data/sentencepiece/library.hpp"

int main() { fourfold::data::sentencepiece_module::library(); }
CODE
cmake -S "$work/user" -B "$work/user-build" -G "$generator" -DCMAKE_PREFIX_PATH="$prefixes" >"$work/log" 2>&1 &&
  cmake --build "$work/user-build" >>"$work/log" 2>&1 || { cat "$work/log"; fail "the user's project is not built"; }
expect_module "$work/user-build/user"
echo "installed, moved and used"
