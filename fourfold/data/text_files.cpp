// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/text_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

#include "fourfold/base/check.hpp"
#include "fourfold/data/utf8.hpp"

namespace fourfold::data {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = std::size_t{1} << 20;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw ConfigError(concat("data.text: ", path, " cannot be read: ", why));
}

TextFile describe_file(const std::string& path, std::string name) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse(path, std::strerror(errno));
  return {path, std::move(name), status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

/// True for a regular file that should be read. False for a link to a file in the same folder or
/// below, which is read anyway.
bool wanted(const fs::directory_entry& entry, const fs::path& root) {
  std::error_code error;
  if (!entry.is_regular_file(error) || error) return false;
  if (!entry.is_symlink(error)) return true;
  const fs::path target = fs::canonical(entry.path(), error);
  const fs::path inside = target.lexically_relative(root);
  return !error && (inside.empty() || *inside.begin() == "..");
}

void add_folder(TextFiles& text) {
  std::error_code error;
  fs::recursive_directory_iterator entries(text.root, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const fs::path& path = entries->path();
    std::error_code not_there;
    if (entries->symlink_status(not_there).type() == fs::file_type::directory) continue;
    TextFile file;
    const bool use = wanted(*entries, text.root);
    if (use) file = describe_file(path, path.lexically_relative(text.root));
    if (use && file.size > 0) {
      text.files.push_back(std::move(file));
    } else {
      ++text.skipped;
    }
  }
  if (error) refuse(text.root, error.message());
  std::sort(text.files.begin(), text.files.end(),
            [](const TextFile& a, const TextFile& b) { return a.name < b.name; });
}

std::ifstream open_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, std::strerror(errno));
  return file;
}

/// Appends up to a block to `buffer`; false at the file's end.
bool read_block(std::ifstream& file, const std::string& path, std::string& buffer) {
  const std::size_t before = buffer.size();
  buffer.resize(before + kBlock);
  file.read(buffer.data() + before, kBlock);
  if (file.bad()) throw IoError(concat(path, " cannot be read: ", std::strerror(errno)));
  buffer.resize(before + static_cast<std::size_t>(file.gcount()));
  return !file.eof();
}

}  // namespace

TextFiles list_text(const std::string& path) {
  std::error_code error;
  TextFiles text;
  text.root = fs::canonical(path, error).string();
  if (error) refuse(path, error.message());
  const auto status = fs::status(text.root, error);
  text.folder = fs::is_directory(status);
  if (text.folder) {
    add_folder(text);
  } else if (fs::is_regular_file(status)) {
    text.files.push_back(describe_file(text.root, fs::path(text.root).filename()));
  } else {
    refuse(path, "it is neither a file nor a folder");
  }
  return text;
}

Content inspect(const TextFile& file) {
  constexpr std::size_t kLongestRest = 3;  // of a character that continues in the next block
  std::ifstream in = open_file(file.path);
  std::string buffer;
  bool utf8 = true;
  for (bool more = true; more;) {
    more = read_block(in, file.path, buffer);
    if (buffer.find('\0') != std::string::npos) return Content::kBinary;
    if (utf8) buffer.erase(0, valid_length(buffer));
    utf8 = utf8 && buffer.size() <= (more ? kLongestRest : 0);
    if (!utf8) buffer.clear();
  }
  return utf8 ? Content::kText : Content::kNotUtf8;
}

PieceReader::PieceReader(const TextFile& file, std::size_t piece_bytes)
    : path_(file.path), piece_bytes_(piece_bytes), file_(open_file(file.path)) {
  FOURFOLD_CHECK(piece_bytes >= 8, piece_bytes);
}

void PieceReader::fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  while (!ended_ && buffer_.size() < 2 * piece_bytes_) {
    ended_ = !read_block(file_, path_, buffer_);
  }
}

std::size_t PieceReader::piece_length(std::string_view rest) const {
  if (rest.size() <= piece_bytes_) return rest.size();
  const std::size_t most = 2 * piece_bytes_;
  const std::size_t newline = rest.substr(0, most).find('\n', piece_bytes_ - 1);
  if (newline != std::string_view::npos) return newline + 1;
  if (rest.size() <= most) return rest.size();
  const std::size_t space = rest.rfind(' ', most);
  return space != std::string_view::npos && space >= piece_bytes_ ? space
                                                                  : character_border(rest, most);
}

bool PieceReader::next(std::string_view& piece) {
  if (!ended_ && buffer_.size() - at_ <= 2 * piece_bytes_) fill();
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  piece = rest.substr(0, piece_length(rest));
  at_ += piece.size();
  return !piece.empty();
}

}  // namespace fourfold::data
