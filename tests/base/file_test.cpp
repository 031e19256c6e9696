// Files that a user names.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/base/file.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"

namespace fourfold::test {
namespace {

class File : public testing::Test {
 protected:
  File() { std::filesystem::create_directories(folder_); }
  ~File() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / concat("fourfold-file-", getpid());
};

TEST_F(File, CheckLeavesNothingBehind) {
  EXPECT_NO_THROW(check_writable("--json", path("new")));
  EXPECT_EQ(files(), 0U);
  write_text(path("old"), "kept");
  EXPECT_NO_THROW(check_writable("--json", path("old")));
  std::ifstream in(path("old"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "kept");
}

TEST_F(File, CheckNamesOptionAndReason) {
  const auto message = [](const std::string& file) {
    try {
      check_writable("--json", file);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(message(path("no/such")),
            "--json " + path("no/such") + " cannot be written: No such file or directory");
  EXPECT_EQ(message(folder_.string()),
            "--json " + folder_.string() + " cannot be written: Is a directory");
}

/// As a device does: /dev/null must still be there afterwards.
TEST_F(File, WriteGoesIntoAPipe) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string text;
  {
    const std::jthread reader([&] {
      std::ifstream in(path("pipe"));
      text.assign(std::istreambuf_iterator<char>(in), {});
    });
    write_text(path("pipe"), "through");
    // If it was replaced, nobody writes to the reader any more.
    if (!std::filesystem::is_fifo(path("pipe"))) _exit(1);
  }
  EXPECT_EQ(text, "through");
  EXPECT_EQ(files(), 1U);
}

TEST_F(File, WriteReplacesTheWholeFile) {
  write_text(path("a"), "a longer text");
  write_text(path("a"), "short");
  std::ifstream in(path("a"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "short");
  EXPECT_EQ(files(), 1U);
  EXPECT_THROW(write_text(path("no/such"), "x"), IoError);
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace fourfold::test
