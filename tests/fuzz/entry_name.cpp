// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/entry_name.hpp"

#include <algorithm>

#include "tests/fuzz/file.hpp"

/// The first byte is the number of dimensions, those after it their sizes, and the rest the name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace fourfold;
  if (size == 0) return 0;
  const std::size_t dims = std::min<std::size_t>(bytes[0] % 8, size - 1);
  formats::TensorEntry entry;
  entry.shape.assign(bytes + 1, bytes + 1 + dims);
  entry.name.assign(bytes + 1 + dims, bytes + size);
  return fuzz::attempt([&] {
    const checkpoint::EntryName parsed = checkpoint::parse_entry(entry, "file");
    if (checkpoint::shape_of(parsed.block) != entry.shape) std::abort();
    entry.name = checkpoint::to_text(parsed);
    if (checkpoint::to_text(checkpoint::parse_entry(entry, "file")) != entry.name) std::abort();
  });
}
