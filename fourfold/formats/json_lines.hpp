// A file of metrics: one JSON object a line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "fourfold/formats/append_file.hpp"

namespace fourfold::formats {

class JsonLines {
 public:
  using Field = std::pair<std::string_view, double>;

  /// Appends to the file if it exists. Throws IoError when it cannot be written.
  explicit JsonLines(std::filesystem::path path);

  /// One line, in the file when this returns. Numbers read back as the same number, whole ones have
  /// no decimal point; what is not finite becomes null. Throws IoError; the file then ends as it
  /// did before.
  void write(std::span<const Field> fields);

 private:
  AppendFile file_;
};

}  // namespace fourfold::formats
