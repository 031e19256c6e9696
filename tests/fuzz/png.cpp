// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/png.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const std::string path = fourfold::fuzz::put("x.png", bytes, size);
    const fourfold::formats::PictureShape shape = fourfold::formats::read_png_shape(path);
    // Larger pictures take the time of the fuzzer, not of a user.
    if (shape.width * shape.height > (1 << 20)) return;
    static_cast<void>(fourfold::formats::read_png(path));
  });
}
