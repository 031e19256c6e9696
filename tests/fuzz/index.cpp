// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include "fourfold/formats/safetensors_folder.hpp"
#include "fourfold/formats/safetensors_writer.hpp"

#include "tests/fuzz/file.hpp"

namespace {

void put_tensor(const char* file, const char* name) {
  fourfold::formats::SafetensorsWriter writer(fourfold::fuzz::folder() / file,
                                              {{name, fourfold::formats::Dtype::kF32, {2}}});
  writer.write(std::vector<std::byte>(8));
  writer.commit();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const bool ready =
      (put_tensor("a.safetensors", "a"), put_tensor("b.safetensors", "b"), true);
  static_cast<void>(ready);
  return fourfold::fuzz::attempt([&] {
    fourfold::fuzz::put("model.safetensors.index.json", bytes, size);
    const fourfold::formats::SafetensorsFolder folder(fourfold::fuzz::folder());
    for (const auto& [name, file] : folder.tensors()) {
      if (folder.data(name).size() != 8) std::abort();
    }
  });
}
