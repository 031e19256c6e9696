// Token files: what is read, what is refused, what the writer leaves.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/token_file.hpp"

#include <csignal>
#include <limits>
#include <numeric>
#include <sys/resource.h>

#include "fourfold/data/token_writer.hpp"

#include "tests/data/support.hpp"

namespace fourfold::test {
namespace {

using data::Tokens;
using data::TokenWriter;

/// A file by the format's description, not by the writer.
template <class Token>
std::string token_file(const std::vector<Token>& tokens, std::int32_t magic, std::int32_t version,
                       std::int32_t count) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return std::string(reinterpret_cast<const char*>(header.data()), 1024) +
         std::string(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token));
}

std::string file16(const std::vector<std::uint16_t>& tokens) {
  return token_file(tokens, 20240520, 1, static_cast<std::int32_t>(tokens.size()));
}
std::string file32(const std::vector<std::uint32_t>& tokens) {
  return token_file(tokens, 20240801, 7, static_cast<std::int32_t>(tokens.size()));
}

std::vector<std::int64_t> all_of(const Tokens& tokens) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, tokens.size(), out.data());
  return out;
}

using Values = std::vector<std::int64_t>;

class TokenFile : public InFolder {
 protected:
  std::string why(const std::string& name) const {
    return refusal([&] { Tokens tokens(path(name)); });
  }
};

TEST_F(TokenFile, ReadsBothWidths) {
  EXPECT_EQ(all_of(Tokens(write("a.bin", file16({1, 65535, 0})))), (Values{1, 65535, 0}));
  EXPECT_EQ(all_of(Tokens(write("b", file32({4294967295U, 7})))), (Values{4294967295, 7}));
}

TEST_F(TokenFile, AFolderIsOneSequence) {
  write("d/b.bin", file32({100000, 4}));
  write("d/a.bin", file16({1, 2, 3}));
  write("d/c.bin", file16({5}));
  write("d/readme.txt", "not tokens");
  const Tokens tokens(path("d"));
  EXPECT_EQ(all_of(tokens), (Values{1, 2, 3, 100000, 4, 5}));
  for (std::int64_t begin = 0; begin <= 6; ++begin) {
    for (std::int64_t end = begin; end <= 6; ++end) {
      Values part(static_cast<std::size_t>(end - begin));
      tokens.read(begin, end - begin, part.data());
      const Values expected = all_of(tokens);
      ASSERT_EQ(part, Values(expected.begin() + begin, expected.begin() + end));
      ASSERT_EQ(all_of(tokens.slice(begin, end)), part);
    }
  }
  EXPECT_EQ(all_of(tokens.slice(1, 5).slice(1, 3)), (Values{3, 100000}));
}

TEST_F(TokenFile, RefusesReadingBeyondTheEnd) {
  const Tokens tokens = Tokens(write("a.bin", file16({1, 2, 3, 4}))).slice(1, 3);
  std::int64_t out[8];
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const auto& [begin, count] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, 3}, {2, 1}, {-1, 1}, {0, -1}, {3, 0}, {kHuge, 1}, {1, kHuge}}) {
    EXPECT_THROW(tokens.read(begin, count, out), InvariantError) << begin << " " << count;
  }
  EXPECT_THROW(tokens.slice(0, 3), InvariantError);
  EXPECT_THROW(tokens.slice(-1, 2), InvariantError);
  EXPECT_THROW(tokens.slice(2, 1), InvariantError);
}

TEST_F(TokenFile, OutlivesItsName) {
  Tokens tokens(write("a.bin", file16({1, 2})));
  std::filesystem::remove(path("a.bin"));
  EXPECT_EQ(all_of(tokens), (Values{1, 2}));
}

TEST_F(TokenFile, FindsTheFirstTokenThatIsTooLarge) {
  std::vector<std::uint16_t> many(200'000, 7);
  many[150'001] = 9;
  many[199'999] = 50;
  write("d/0.bin", file16({1, 2}));
  write("d/1.bin", file16(many));
  write("d/2.bin", file32({70'000}));
  const Tokens tokens(path("d"));
  const auto says = [](const Tokens& some, std::int64_t vocabulary) {
    return refusal([&] { some.check_below(vocabulary); });
  };
  EXPECT_EQ(says(tokens, 70'001), "nothing was thrown");
  EXPECT_EQ(says(tokens, 70'000), path("d/2.bin") +
                                      " does not fit the vocabulary of 70000: its "
                                      "token number 0 is 70000");
  EXPECT_EQ(says(tokens, 9), path("d/1.bin") +
                                 " does not fit the vocabulary of 9: its token "
                                 "number 150001 is 9");
  EXPECT_SAYS(says(tokens, 10), "number 199999 is 50");
  EXPECT_EQ(says(tokens.slice(0, 150'003), 9), "nothing was thrown");
  EXPECT_SAYS(says(tokens.slice(0, 150'004), 9), "number 150001 is 9");
  EXPECT_SAYS(says(tokens.slice(150'000, 200'002), 9), "number 150001 is 9");
  EXPECT_EQ(says(tokens.slice(150'004, 200'001), 9), "nothing was thrown");
}

TEST_F(TokenFile, LooksAtEveryToken) {
  // The last and the first token of each step that the check makes.
  for (const std::size_t at : {0U, 65'535U, 65'536U, 131'071U, 131'072U, 140'000U}) {
    std::vector<std::uint16_t> many(140'001, 7);
    many[at] = 8;
    const Tokens tokens(write("a.bin", file16(many)));
    EXPECT_SAYS(refusal([&] { tokens.check_below(8); }), concat("number ", at, " is 8"));
  }
}

TEST_F(TokenFile, LooksAtSomeTokensOfALongFile) {
  constexpr std::int64_t kMost = 4 * 32768;
  std::vector<std::uint16_t> many(1'000'000, 7);
  const auto says = [&](std::size_t at, std::uint16_t token) {
    std::vector<std::uint16_t> some = many;
    some[at] = token;
    write("d/1.bin", file16(some));
    return refusal([&] { Tokens(path("d")).check_some_below(8, kMost); });
  };
  write("d/0.bin", file16({1, 2}));
  write("d/1.bin", file16(many));
  const Tokens tokens(path("d"));
  EXPECT_EQ(tokens.check_some_below(8, kMost), kMost);
  // The beginning, the end and pieces between them, but not all.
  EXPECT_SAYS(says(0, 8), "its token number 0 is 8");
  EXPECT_SAYS(says(999'999, 8), "its token number 999999 is 8");
  EXPECT_SAYS(says(330'000, 8), "its token number 330000 is 8");
  EXPECT_EQ(says(200'000, 8), "nothing was thrown");
  // A short file is looked at as a whole, and no bound is passed.
  write("d/1.bin", file16(many));
  EXPECT_EQ(tokens.slice(0, kMost).check_some_below(8, kMost), kMost);
  EXPECT_EQ(tokens.slice(5, 105).check_some_below(8, kMost), 100);
  EXPECT_EQ(tokens.check_some_below(8, 1000), 1000);
  EXPECT_EQ(tokens.check_some_below(8), tokens.size());
}

TEST_F(TokenFile, RefusesWhatIsNotAWholeTokenFile) {
  write("empty.bin", "");
  EXPECT_SAYS(why("empty.bin"), "empty.bin is not a token file: it has 0 bytes");
  write("short.bin", file16({1}).substr(0, 1023));
  EXPECT_SAYS(why("short.bin"), "is not a token file: it has 1023 bytes");
  write("raw.bin", std::string(4096, '\1'));
  EXPECT_SAYS(why("raw.bin"), "begins with 16843009, not with 20240520");
  EXPECT_SAYS(why("raw.bin"), "nanoGPT");
  const std::vector<std::uint16_t> two = {1, 2};
  write("version.bin", token_file(two, 20240520, 2, 2));
  EXPECT_SAYS(why("version.bin"), "of version 2; version 1 is");
  write("version.bin", token_file(two, 20240801, 1, 1));
  EXPECT_SAYS(why("version.bin"), "of version 1; version 7 is");
  write("cut.bin", token_file(two, 20240520, 1, 3));
  EXPECT_SAYS(why("cut.bin"), "is cut off: 3 tokens take 1030 bytes, it has 1028");
  write("long.bin", token_file(two, 20240520, 1, 1));
  EXPECT_SAYS(why("long.bin"), "is too long: 1 tokens take 1026 bytes, it has 1028");
  write("odd.bin", file16({1, 2}) + "x");
  EXPECT_SAYS(why("odd.bin"), "is too long");
  write("huge.bin", token_file(two, 20240801, 7, 2147483647));
  EXPECT_SAYS(why("huge.bin"), "is cut off: 2147483647 tokens take 8589935612 bytes");
  write("none.bin", token_file(std::vector<std::uint16_t>(), 20240520, 1, 0));
  EXPECT_SAYS(why("none.bin"), "holds 0 tokens");
  write("negative.bin", token_file(two, 20240520, 1, -1));
  EXPECT_SAYS(why("negative.bin"), "holds -1 tokens");
  EXPECT_SAYS(why("missing.bin"), "missing.bin cannot be read: No such file");
  EXPECT_SAYS(why(""), "cut.bin is cut off") << "every file of a folder must be whole";
  std::filesystem::create_directories(path("folder/sub.bin"));
  EXPECT_SAYS(why("folder"), "sub.bin is not a file");
  std::filesystem::remove(path("folder/sub.bin"));
  EXPECT_SAYS(why("folder"), "there is no file *.bin in the folder " + path("folder"));
}

TEST_F(TokenFile, RefusesWithoutPermission) {
  write("a.bin", file16({1}));
  std::filesystem::permissions(path("a.bin"), std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;
  const uid_t user = ::geteuid();  // root may read everything, so that it has to step down
  ASSERT_TRUE(user != 0 || ::seteuid(kNobody) == 0);
  const std::string said = why("a.bin");
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_SAYS(said, "a.bin cannot be read: Permission denied");
}

std::vector<std::int32_t> count_up(std::int32_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST_F(TokenFile, WriterWritesTheFormat) {
  TokenWriter writer(path("w"), 1000);
  writer.append(std::vector<std::int32_t>{5, 999});
  writer.append({});
  writer.append(std::vector<std::int32_t>{0});
  EXPECT_EQ(writer.size(), 3);
  EXPECT_FALSE(std::filesystem::exists(path("w")));
  writer.commit();
  EXPECT_EQ(names(), std::vector<std::string>{"w"});
  EXPECT_EQ(names("w"), std::vector<std::string>{"000000.bin"});
  EXPECT_EQ(content("w/000000.bin"), file16({5, 999, 0}));
}

TEST_F(TokenFile, WriterTakesTheWidthThatIsNeeded) {
  for (const std::int64_t vocabulary : {65536, 65537}) {
    const std::string name = std::to_string(vocabulary);
    TokenWriter writer(path(name), vocabulary);
    const auto last = static_cast<std::int32_t>(vocabulary - 1);
    writer.append(std::vector<std::int32_t>{1, last});
    writer.commit();
    EXPECT_EQ(content(name + "/000000.bin"),
              vocabulary == 65536 ? file16({1, 65535}) : file32({1, 65536}));
  }
}

TEST_F(TokenFile, WriterMakesShards) {
  TokenWriter writer(path("w"), 200, 30);
  const auto tokens = count_up(120);
  writer.append(std::span(tokens).first(10));
  writer.append(std::span(tokens).subspan(10, 75));
  writer.append(std::span(tokens).subspan(85));
  writer.commit();
  EXPECT_EQ(names("w"),
            (std::vector<std::string>{"000000.bin", "000001.bin", "000002.bin", "000003.bin"}));
  EXPECT_EQ(all_of(Tokens(path("w"))), Values(tokens.begin(), tokens.end()));
  EXPECT_EQ(Tokens(path("w/000003.bin")).size(), 30);
}

TEST_F(TokenFile, WriterLeavesNothingWithoutCommit) {
  {
    TokenWriter writer(path("w"), 10, 2);
    writer.append(std::vector<std::int32_t>{1, 2, 3});
  }
  EXPECT_TRUE(names().empty());
  {
    TokenWriter writer(path("w"), 10);
    EXPECT_THROW(writer.commit(), InvariantError);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{10}), InvariantError);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{-1}), InvariantError);
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(TokenFile, WriterReplacesNothing) {
  write("w/mine", "kept");
  {
    TokenWriter writer(path("w"), 10);
    writer.append(std::vector<std::int32_t>{1});
    EXPECT_SAYS(refusal([&] { writer.commit(); }), path("w") + " exists already");
  }
  EXPECT_EQ(names(), std::vector<std::string>{"w"});
  EXPECT_EQ(names("w"), std::vector<std::string>{"mine"});
  EXPECT_THROW(TokenWriter(path("no/such"), 10), IoError);
}

TEST_F(TokenFile, WritersOfOnePlaceDoNotMeet) {
  TokenWriter first(path("w"), 10);
  TokenWriter second(path("w"), 10);
  first.append(std::vector<std::int32_t>{1});
  second.append(std::vector<std::int32_t>{2});
  second.commit();
  EXPECT_THROW(first.commit(), ConfigError);
  EXPECT_EQ(all_of(Tokens(path("w"))), Values{2});
}

TEST_F(TokenFile, WriterSaysWhenTheDiskIsFull) {
  // A limit on the size of files fails as a full disk does.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  std::string said;
  {
    TokenWriter writer(path("w"), 1'000'000);
    try {
      writer.append(count_up(200'000));
      writer.commit();
    } catch (const IoError& error) {
      said = error.what();
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_SAYS(said, "cannot be written: File too large");
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace fourfold::test
