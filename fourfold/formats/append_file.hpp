// A file to which whole records are appended.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace fourfold::formats {

/// Nothing is buffered: a run that is killed leaves every record that was appended, and no part of
/// a record. There must be no other writer of the file.
class AppendFile {
 public:
  /// Opens or creates the file. Throws IoError when it cannot be written.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends with one system call. Throws IoError; the file then ends as it did before the call,
  /// and the record goes with the next one: a disk that was full for a while costs nothing. Of
  /// what waits, 16 MiB are kept.
  void append(std::string_view record);

  /// Waits until everything is on the disk, so that it survives a failure of the machine and not
  /// only of the process. Throws IoError.
  void sync();

  /// Whether there are records that could not be written yet.
  bool waits() const { return !waiting_.empty(); }

  const std::filesystem::path& path() const { return path_; }

 private:
  int write(std::string_view bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  std::string waiting_;  // records that could not be written
};

}  // namespace fourfold::formats
