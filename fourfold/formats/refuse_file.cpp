// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/refuse_file.hpp"

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::formats {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    result += control ? '?' : c;
  }
  return result + (text.size() > kLongest ? "...'" : "'");
}

void refuse_file(const std::filesystem::path& path, std::string_view what) {
  throw ConfigError(
      concat(path.string(), " cannot be used: ", what, "; fetch or write the file again"));
}

}  // namespace fourfold::formats
