// A file that grows by whole records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace fourfold::formats {

/// Nothing is held back: a run that is killed leaves every record that was appended, and no part
/// of one. There must be no other writer of the file.
class AppendFile {
 public:
  /// Opens the file, or makes it; throws IoError when it cannot be written.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends with one system call. Throws IoError; the file then ends as it did before.
  void append(std::string_view record);

  /// Waits until everything is on the disk, so that it outlives the machine and not only the
  /// process. Throws IoError.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace fourfold::formats
