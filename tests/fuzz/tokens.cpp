// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_file.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const fourfold::data::Tokens tokens(fourfold::fuzz::put("x.bin", bytes, size));
    std::vector<std::int64_t> all(static_cast<std::size_t>(tokens.size()));
    tokens.read(0, tokens.size(), all.data());
    tokens.check_below(300);
  });
}
