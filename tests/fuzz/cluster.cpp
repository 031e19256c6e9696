// SPDX-License-Identifier: Apache-2.0
#include "fourfold/cluster/load.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    static_cast<void>(fourfold::cluster::parse(text, "fuzz"));
  });
}
