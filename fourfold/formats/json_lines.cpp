// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/json_lines.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "fourfold/formats/json_text.hpp"

namespace fourfold::formats {

namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) <= kExactIntegers) {
    if (value == 0 && std::signbit(value)) return "-0.0";  // "-0" would be read as the integer 0
    return std::to_string(static_cast<std::int64_t>(value));
  }
  std::array<char, 32> text{};  // the longest is 24 characters
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

/// True when the last line of the file has no end, because the machine went down while it was
/// written.
bool has_open_line(const std::filesystem::path& path) {
  std::error_code ignored;  // a file that does not exist yet has no lines
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int last = file.get();
  return last != std::ifstream::traits_type::eof() && last != '\n';
}

}  // namespace

JsonLines::JsonLines(std::filesystem::path path) : file_(std::move(path)) {
  if (has_open_line(file_.path())) file_.append("\n");
}

void JsonLines::write(std::span<const Field> fields) {
  std::string line = "{";
  for (const auto& [name, value] : fields) {
    if (line.size() > 1) line += ',';
    line += json_string(name) + ":" + number(value);
  }
  file_.append(line + "}\n");
}

}  // namespace fourfold::formats
