// What the tests of data share: a folder that goes away, files, and what errors say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {

/// Each test has an empty folder of its own.
class InFolder : public testing::Test {
 protected:
  InFolder() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~InFolder() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "") const {
    return (name.empty() ? folder_ : folder_ / name).string();
  }

  /// Makes the folders on the way, too.
  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string content(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names(const std::string& name = "") const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path(name))) {
      all.push_back(entry.path().filename());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      concat("fourfold-data-", getpid(), "-",
             testing::UnitTest::GetInstance()->current_test_info()->name());
};

/// The text of the ConfigError that `body` throws, which must be one line.
template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    return text.find('\n') == std::string::npos ? text : "several lines: " + text;
  }
  return "nothing was thrown";
}

#define EXPECT_SAYS(text, piece) \
  EXPECT_NE(std::string(text).find(piece), std::string::npos) << (text)

}  // namespace fourfold::test
