// The bytes of a fuzzer as a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::fuzz {

/// A folder in memory, which goes with the process.
inline const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path = concat("/dev/shm/fourfold-fuzz-", getpid());
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder kFolder;
  return kFolder.path;
}

/// Writes the bytes to a file of that name and returns its path.
inline std::string put(const std::string& name, const std::uint8_t* bytes, std::size_t size) {
  const std::filesystem::path path = folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  return path.string();
}

/// Calls `body`. It may refuse the input with one line of bounded length; anything else that it
/// throws is a finding.
template <class Body>
int attempt(const Body& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    const std::string line = error.what();
    if (line.find('\n') != std::string::npos || line.size() > 4000) {
      std::fprintf(stderr, "not one line: %s\n", line.c_str());
      std::abort();
    }
  }
  return 0;
}

}  // namespace fourfold::fuzz
