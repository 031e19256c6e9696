// The user's text: the files that contain it, and their content in pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold::data {

struct TextFile {
  std::string path;
  std::string name;  ///< relative to the folder
  std::int64_t size = 0;
  std::int64_t changed = 0;  ///< time of the last change, ns since 1970

  bool operator==(const TextFile&) const = default;
};

struct TextFiles {
  std::string root;  ///< the file or folder, with links resolved
  bool folder = false;
  std::vector<TextFile> files;  ///< by name
  std::int64_t skipped = 0;  ///< links to files that are included anyway, broken links, empty files

  bool operator==(const TextFiles&) const = default;
};

/// The file, or all files in the folder and below. Links to folders are not followed. Throws
/// ConfigError that names data.text.
TextFiles list_text(const std::string& path);

enum class Content { kText, kBinary, kNotUtf8 };

/// The kind of content of the file. A file with a byte 0 is binary.
Content inspect(const TextFile& file);

/// Reads a file in pieces that end at the first line end after `piece_bytes` bytes. Lines longer
/// than that are cut before a space, else between two characters, and at the latest after twice the
/// size.
class PieceReader {
 public:
  /// `piece_bytes` is at least 8. Throws ConfigError when the file cannot be opened.
  PieceReader(const TextFile& file, std::size_t piece_bytes);

  /// Returns false at the end. The piece is valid until the next call. Throws IoError.
  bool next(std::string_view& piece);

 private:
  std::size_t piece_length(std::string_view rest) const;
  void fill();

  std::string path_;
  std::size_t piece_bytes_;
  std::ifstream file_;
  std::string buffer_;
  std::size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace fourfold::data
