// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    fourfold::fuzz::put("tokenizer.model", bytes, size);
    const auto tokenizer = fourfold::data::load_tokenizer(fourfold::fuzz::folder().string());
    const std::vector<std::int32_t> ids = tokenizer->encode("lower new\n 12 \xc3\xa9 \xff");
    static_cast<void>(tokenizer->decode(ids));
  });
}
