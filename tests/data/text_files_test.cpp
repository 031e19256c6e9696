// The user's files: which are read, what they hold, where they are cut.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/text_files.hpp"

#include <random>

#include "fourfold/data/utf8.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::Content;
using data::inspect;
using data::list_text;
using data::PieceReader;
using data::TextFile;
using data::TextFiles;

class TextFolder : public InFolder {
 protected:
  TextFile file(std::string_view text) const {
    write("file", text);
    return list_text(path("file")).files.at(0);
  }
  std::vector<std::string> pieces(std::string_view text, std::size_t bytes) const {
    PieceReader reader(file(text), bytes);
    std::vector<std::string> all;
    for (std::string_view piece; reader.next(piece);) all.emplace_back(piece);
    return all;
  }
  std::vector<std::string> listed(const std::string& name) const {
    std::vector<std::string> all;
    for (const TextFile& one : list_text(path(name)).files) all.push_back(one.name);
    return all;
  }
};

TEST_F(TextFolder, OneFile) {
  write("one.txt", "hello");
  std::filesystem::create_symlink("one.txt", path("link"));
  const TextFiles text = list_text(path("link"));
  ASSERT_EQ(text.files.size(), 1U);
  EXPECT_FALSE(text.folder);
  EXPECT_EQ(text.files[0].name, "one.txt");
  EXPECT_EQ(text.files[0].size, 5);
  EXPECT_GT(text.files[0].changed, 1'600'000'000'000'000'000);
  const auto before = std::filesystem::last_write_time(path("one.txt"));
  std::filesystem::last_write_time(path("one.txt"), before + std::chrono::nanoseconds(1000));
  EXPECT_EQ(list_text(path("one.txt")).files[0].changed, text.files[0].changed + 1000);
}

TEST_F(TextFolder, AllFilesBelowInOrder) {
  write("d/b", "b");
  write("d/a/z", "z");
  write("d/a.txt", "a");
  write("d/.hidden", "h");
  write("d/empty", "");
  write("outside", "o");
  write("other/deep", "x");
  std::filesystem::create_symlink("b", path("d/b.u8"));
  std::filesystem::create_symlink("../b", path("d/a/up"));
  std::filesystem::create_symlink(path("outside"), path("d/from-outside"));
  std::filesystem::create_symlink("nowhere", path("d/broken"));
  std::filesystem::create_directory_symlink(path("other"), path("d/folder"));
  std::filesystem::create_directory_symlink(".", path("d/loop"));
  const TextFiles text = list_text(path("d"));
  EXPECT_TRUE(text.folder);
  EXPECT_EQ(listed("d"),
            (std::vector<std::string>{".hidden", "a.txt", "a/z", "b", "from-outside"}));
  EXPECT_EQ(text.skipped, 6);
}

TEST_F(TextFolder, ThroughALinkToTheFolder) {
  write("d/b", "b");
  std::filesystem::create_symlink("b", path("d/same"));
  std::filesystem::create_directory_symlink("d", path("l"));
  EXPECT_EQ(listed("l"), std::vector<std::string>{"b"});
}

TEST_F(TextFolder, RefusesWhatIsNotThere) {
  EXPECT_SAYS(refusal([&] { list_text(path("no")); }), "data.text: " + path("no"));
  EXPECT_SAYS(refusal([&] { list_text(path("no")); }), "No such file");
  EXPECT_SAYS(refusal([&] { list_text(""); }), "data.text");
  EXPECT_SAYS(refusal([] { list_text("/dev/null"); }), "neither a file nor a folder");
  const TextFile gone{path("gone"), "gone", 1, 1};
  EXPECT_SAYS(refusal([&] { inspect(gone); }), path("gone") + " cannot be read");
  EXPECT_SAYS(refusal([&] { PieceReader(gone, 64); }), path("gone") + " cannot be read");
}

TEST_F(TextFolder, KnowsTextFromBinary) {
  EXPECT_EQ(inspect(file("text \xc3\xa9\n")), Content::kText);
  EXPECT_EQ(inspect(file("")), Content::kText);
  EXPECT_EQ(inspect(file(std::string("te\0xt", 5))), Content::kBinary);
  EXPECT_EQ(inspect(file("latin \xe9\n")), Content::kNotUtf8);
  EXPECT_EQ(inspect(file("cut \xc3")), Content::kNotUtf8);
  EXPECT_EQ(inspect(file(std::string("\xff\0", 2))), Content::kBinary);
}

TEST_F(TextFolder, KnowsItAcrossBlocks) {
  constexpr std::size_t kBlock = 1 << 20;
  for (std::size_t before = kBlock - 4; before <= kBlock; ++before) {
    const std::string start(before, 'a');
    EXPECT_EQ(inspect(file(start + "\xf0\x9f\x98\x80 end")), Content::kText);
    EXPECT_EQ(inspect(file(start + "\xf0\x9f\x98( end")), Content::kNotUtf8);
    EXPECT_EQ(inspect(file(start + "\xf0\x9f\x98")), Content::kNotUtf8);
  }
  const std::string late = std::string("\xff") + std::string(3 * kBlock, 'a');
  EXPECT_EQ(inspect(file(late)), Content::kNotUtf8);
  EXPECT_EQ(inspect(file(late + std::string(1, '\0'))), Content::kBinary);
}

TEST_F(TextFolder, PiecesEndAtLines) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("", 8), Pieces());
  EXPECT_EQ(pieces("short", 8), Pieces{"short"});
  EXPECT_EQ(pieces("1234567\n12345678\n9\n", 8), (Pieces{"1234567\n", "12345678\n", "9\n"}));
  EXPECT_EQ(pieces("1\n2\n3\n4\n5\n6\n", 8), (Pieces{"1\n2\n3\n4\n", "5\n6\n"}));
  EXPECT_EQ(pieces("a line of text without end", 8), (Pieces{"a line of text", " without end"}));
  EXPECT_EQ(pieces("0123456789abcdefghijklm", 8), (Pieces{"0123456789abcdef", "ghijklm"}));
  EXPECT_EQ(pieces("0123456789abcde\xc3\xa9ghijk", 8),
            (Pieces{"0123456789abcde", "\xc3\xa9ghijk"}));
  EXPECT_EQ(pieces("0 23456789abcdefghijklm", 8), (Pieces{"0 23456789abcdef", "ghijklm"}));
  EXPECT_EQ(pieces("0123456789abcdef", 8), Pieces{"0123456789abcdef"});
  EXPECT_THROW(PieceReader(file("x"), 7), InvariantError);
}

TEST_F(TextFolder, PiecesTogetherAreTheFile) {
  std::mt19937 random(4);
  for (const std::size_t bytes : {8U, 64U, 4096U, 700'000U}) {
    std::string text;
    while (text.size() < 3'000'000) {
      const auto kind = random() % 20;
      text += kind == 0 ? "\n" : kind < 4 ? " " : kind == 5 ? "\xe6\xbc\xa2" : "word";
    }
    const auto all = pieces(text, bytes);
    EXPECT_EQ(join(all, ""), text);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      ASSERT_GE(all[i].size(), bytes);
      ASSERT_LE(all[i].size(), 2 * bytes);
      ASSERT_EQ(data::valid_length(all[i]), all[i].size());
      const bool full = all[i].size() > 2 * bytes - 3;
      ASSERT_TRUE(all[i].back() == '\n' || all[i + 1].front() == ' ' || full);
    }
    EXPECT_LE(all.back().size(), 2 * bytes);
  }
}

}  // namespace
}  // namespace fourfold::test
