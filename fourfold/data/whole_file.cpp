// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::data {

std::string read_whole(const std::string& path, std::int64_t limit) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!error && !std::filesystem::is_regular_file(status)) {
    throw ConfigError(concat(path, " is not a file"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ConfigError(concat(path, " cannot be read: ", std::strerror(errno)));
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  if (error) throw IoError(concat(path, " cannot be read: ", error.message()));
  if (size > limit) {
    throw ConfigError(concat(path, " has ", size, " bytes; at most ", limit, " are expected"));
  }
  std::string text(static_cast<std::size_t>(size), '\0');
  if (!file.read(text.data(), size)) throw IoError(concat(path, " became shorter while read"));
  return text;
}

std::string one_line(std::string message) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return message;
}

}  // namespace fourfold::data
