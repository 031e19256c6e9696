// What the tests of file formats share: a folder of their own, bytes, disks that are full.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {

class ScratchFolder : public testing::Test {
 protected:
  ScratchFolder() { std::filesystem::create_directories(folder_); }
  ~ScratchFolder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  std::filesystem::path put(const std::string& name, std::string_view bytes) const {
    // A new file: some file systems wait for the disk when an old one is overwritten.
    std::filesystem::remove(path(name));
    std::ofstream file(path(name), std::ios::binary);
    file << bytes;
    return path(name);
  }

  static std::string bytes_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    EXPECT_TRUE(in) << file;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      names.insert(file.path().filename().string());
    }
    return names;
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      concat("fourfold-formats-", getpid(), "-",
             testing::UnitTest::GetInstance()->current_test_info()->name());
};

/// While it lives, no file grows beyond that many bytes: what a full disk does to a writer.
class SmallDisk {
 public:
  explicit SmallDisk(std::uint64_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// The text of the error of this type that `body` throws.
template <class Error, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// A JSON text and data as a safetensors file; the length is the text's unless given.
inline std::string safetensors_bytes(std::string_view json, std::string_view data,
                                     std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return concat(bytes, json, data);
}
inline std::string safetensors_bytes(std::string_view json, std::string_view data) {
  return safetensors_bytes(json, data, json.size());
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_data(std::string_view text) {
  return std::as_bytes(std::span(text));
}

#define EXPECT_SAYS(text, piece) \
  EXPECT_NE(std::string(text).find(piece), std::string::npos) << (text)

}  // namespace fourfold::test
