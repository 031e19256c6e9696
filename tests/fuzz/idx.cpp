// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/idx.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const fourfold::formats::IdxFile file(fourfold::fuzz::put("x.idx", bytes, size));
    std::size_t sum = 0;
    for (const std::uint8_t value : file.values()) sum += value;
    if (sum > 255 * file.values().size()) std::abort();
  });
}
