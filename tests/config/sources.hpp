// Configurations for tests: a file in a folder of its own, and what is said about it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/config/read.hpp"

namespace fourfold::test {

/// Six lines that leave nothing to ask for but the data, and two that name it.
inline const std::string kModel =
    "[model]\nvocab = 512\nwidth = 64\nheads = 4\nlayers = 2\ncontext = 16\n";
inline const std::string kData = "[data]\ntext = \"/t\"\n";
inline const std::string kSmall = kModel + kData;

/// What kSmall is.
inline config::Config small() {
  config::Config config;
  config.model.vocab = 512;
  config.model.width = 64;
  config.model.heads = 4;
  config.model.layers = 2;
  config.model.context = 16;
  config.data.text = "/t";
  config.train.micro_batch = config.train.batch;
  return config;
}

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() { std::filesystem::create_directories(folder_); }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// The configuration of a file gpt.toml with that text.
  config::Config read(const std::string& text, const std::vector<std::string>& overrides = {},
                      const std::string& grid = "", bool needs_data = true) const {
    std::ofstream(path("gpt.toml"), std::ios::binary) << text;
    return config::read({path("gpt.toml"), overrides, grid, needs_data});
  }

  /// The line that refuses it, without the folder.
  std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {},
                      const std::string& grid = "", bool needs_data = true) const {
    std::ofstream(path("gpt.toml"), std::ios::binary) << text;
    return refusal_of({path("gpt.toml"), overrides, grid, needs_data});
  }

  std::string refusal_of(const config::Source& source) const {
    try {
      config::read(source);
    } catch (const ConfigError& error) {
      std::string line = error.what();
      EXPECT_EQ(line.find_first_of("\n\r\x1b"), std::string::npos) << line;
      EXPECT_LT(line.size(), 500U) << line;
      const std::string prefix = folder_.string() + "/";
      const auto at = line.find(prefix);
      return at == std::string::npos ? line : line.erase(at, prefix.size());
    }
    return "nothing was thrown";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("fourfold-config-", getpid());
};

}  // namespace fourfold::test
