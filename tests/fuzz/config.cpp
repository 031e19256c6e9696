// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/read.hpp"
#include "fourfold/config/write.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const std::string path = fourfold::fuzz::put("config.toml", bytes, size);
    const fourfold::config::Config config =
        fourfold::config::read({.path = path, .needs_data = false});
    const std::string text = fourfold::config::to_toml(config);
    fourfold::fuzz::put("again.toml", reinterpret_cast<const std::uint8_t*>(text.data()),
                        text.size());
  });
}
