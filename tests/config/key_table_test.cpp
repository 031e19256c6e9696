// The keys as the program and the documentation list them: one table for both.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/key_table.hpp"

#include "fourfold/config/keys.hpp"
#include "fourfold/config/suggest.hpp"

#include "tests/config/sources.hpp"

namespace fourfold::test {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(KeyTable, HasEveryKeyWithItsDefaultAndMeaning) {
  const std::vector<std::string> lines = split(config::key_table(), '\n');
  ASSERT_EQ(lines.size(), config::keys().size() + 2) << "a heading, and the end";
  for (std::size_t i = 0; i < config::keys().size(); ++i) {
    const config::Key& key = config::keys()[i];
    EXPECT_TRUE(lines[i + 1].starts_with(key.full_name() + " ")) << lines[i + 1];
    EXPECT_FALSE(key.meaning.empty()) << key.full_name();
  }
  const std::string table = config::key_table("train.s");
  EXPECT_NE(table.find("train.steps  200"), std::string::npos) << table;
  EXPECT_NE(table.find("train.seed"), std::string::npos) << table;
  EXPECT_EQ(table.find("train.batch"), std::string::npos) << table;
  EXPECT_NE(config::key_table("model.width").find("required"), std::string::npos);
}

TEST(KeyTable, SuggestsNearNames) {
  const auto refusal = [](const char* name) -> std::string {
    try {
      return config::key_table(name);
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal("trian"), "unknown section [trian]; did you mean [train]?");
  EXPECT_EQ(refusal("train.step_s"), "unknown key train.step_s; did you mean train.steps?");
}

/// Made by this very function: paste what it gives.
TEST(KeyTable, IsTheOneOfTheDocumentation) {
  const std::string page = text_of(TRAINING_PAGE);
  const std::string table = config::key_table_markdown();
  EXPECT_NE(page.find("\n" + table + "\n"), std::string::npos) << "docs/training.md should have\n\n"
                                                               << table;
}

TEST(Suggest, TheNearestNameIfItIsNear) {
  const std::vector<std::string> names = {"train", "sample", "bench"};
  EXPECT_EQ(config::nearest("traim", names), "train");
  EXPECT_EQ(config::nearest("tarin", names), "train");
  EXPECT_EQ(config::nearest("bnech", names), "bench");
  EXPECT_EQ(config::nearest("deploy", names), std::nullopt);
  EXPECT_EQ(config::nearest("x", {}), std::nullopt);
}

}  // namespace
}  // namespace fourfold::test
