// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/schedule_json.hpp"

#include "tests/fuzz/file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  return fourfold::fuzz::attempt([&] {
    const std::string_view text(reinterpret_cast<const char*>(bytes), size);
    const fourfold::schedule::Schedule schedule = fourfold::formats::parse_schedule(text, "fuzz");
    const std::string again = fourfold::formats::schedule_json(schedule);
    if (!(fourfold::formats::parse_schedule(again, "fuzz") == schedule)) std::abort();
  });
}
