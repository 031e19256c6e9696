// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/manifest.hpp"

#include <span>

#include "fourfold/formats/checksum.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    // The right checksum: otherwise nothing would come past it.
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    const std::string sum = fourfold::formats::checksum_text(
        fourfold::formats::checksum_of(std::as_bytes(std::span(text))));
    const std::string whole = text + ",\n  \"xxh3\": \"" + sum + "\"\n}\n";
    const fourfold::formats::Manifest manifest = fourfold::formats::parse_manifest(whole, "fuzz");
    if (manifest.bytes() < 0) std::abort();
    const std::string again = fourfold::formats::to_text(manifest);
    if (fourfold::formats::parse_manifest(again, "fuzz") != manifest) std::abort();
  });
}
