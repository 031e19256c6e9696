// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fourfold/data/gpt2_files.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    // The first bytes up to a zero are vocab.json, the others merges.txt.
    const auto* zero = std::find(bytes, bytes + size, 0);
    const auto first = static_cast<std::size_t>(zero - bytes);
    fourfold::fuzz::put("vocab.json", bytes, first);
    fourfold::fuzz::put("merges.txt", zero, size - first);
    static_cast<void>(
        fourfold::data::read_vocabulary_and_merges(fourfold::fuzz::folder().string()));
  });
}
