// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/formats/safetensors_reader.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const std::string path = fourfold::fuzz::put("x.safetensors", bytes, size);
    const fourfold::formats::SafetensorsReader reader(path);
    std::size_t all = 0;
    for (const auto& entry : reader.entries()) all += reader.data(entry.name).size();
    const fourfold::formats::ReadFile file(path);
    if (fourfold::formats::read_header(file).entries != reader.entries() || all > size)
      std::abort();
  });
}
