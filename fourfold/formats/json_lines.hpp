// A file of metrics with one JSON object on each line.
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

  /// Writes one line, which is in the file when this returns. Numbers read back as the same number,
  /// and whole numbers have no decimal point. Numbers that are not finite become null. Throws
  /// IoError; the file then ends as it did before the call.
  void write(std::span<const Field> fields);

  /// Waits until everything is on the disk.
  void flush() { file_.sync(); }
  /// Whether there are lines that could not be written yet.
  bool waits() const { return file_.waits(); }

 private:
  AppendFile file_;
};

}  // namespace fourfold::formats
