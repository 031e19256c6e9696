// The cache of prepared texts: found again, told apart, rebuilt, never half.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <set>
#include <sys/wait.h>
#include <thread>

#include "tests/data/prepare_support.hpp"

namespace fourfold::test {
namespace {

using data::Prepared;
using data::PrepareSpec;

class PrepareCache : public PrepareTest {};

TEST_F(PrepareCache, SecondTimeFromTheCache) {
  write("d/a", lines(500));
  PrepareSpec some = spec("d", "bpe");
  some.validation = 0.1;
  int calls = 0;
  some.progress = [&](std::string_view, double) { ++calls; };
  const Prepared first = prepare(some);
  EXPECT_GT(calls, 0);
  calls = 0;
  const Prepared second = prepare(some);
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(first.from_cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.train, first.train);
  EXPECT_EQ(second.validation, first.validation);
  EXPECT_EQ(second.tokenizer, first.tokenizer);
  EXPECT_EQ(second.vocabulary, 320);
  EXPECT_EQ(second.train_tokens, first.train_tokens);
  EXPECT_EQ(second.validation_tokens, first.validation_tokens);
  EXPECT_EQ(second.bytes, first.bytes);
  EXPECT_EQ(second.files_used, 1);
  EXPECT_EQ(second.files_skipped, 0);
}

TEST_F(PrepareCache, EveryDifferenceIsAnotherEntry) {
  write("d/a", lines(300));
  PrepareSpec some = spec("d", "bpe");
  std::set<std::string> entries = {entry(prepare(some))};
  const auto expect_new = [&](const char* what) {
    EXPECT_TRUE(entries.insert(entry(prepare(some))).second) << what;
  };
  some.vocabulary = 321;
  expect_new("vocabulary");
  some.validation = 0.1;
  expect_new("share");
  some.learn_bytes = 1000;
  expect_new("learning");
  some.tokenizer = "bytes";
  some.vocabulary = 0;
  expect_new("tokenizer");
  some.vocabulary = 256;
  EXPECT_TRUE(prepare(some).from_cache) << "the same vocabulary, said otherwise";
  const auto time = std::filesystem::last_write_time(path("d/a"));
  std::filesystem::last_write_time(path("d/a"), time + std::chrono::nanoseconds(1000));
  expect_new("time");
  const auto now = std::filesystem::last_write_time(path("d/a"));
  write("d/a", lines(301));
  std::filesystem::last_write_time(path("d/a"), now);
  expect_new("size");
  std::filesystem::rename(path("d/a"), path("d/b"));
  expect_new("name");
  write("d/c", "more\n");
  expect_new("another file");
  std::filesystem::rename(path("d"), path("e"));
  some.text = path("e");
  expect_new("place");
}

TEST_F(PrepareCache, DamagedEntriesAreMadeAnew) {
  write("t", lines(300));
  PrepareSpec some = spec("t", "bpe");
  some.validation = 0.2;
  const Prepared first = prepare(some);
  const Ids train = all_of(first.train);
  const auto expect_rebuilt = [&](const std::string& file, const std::string& text) {
    std::ofstream(entry(first) + "/" + file, std::ios::binary) << text;
    const Prepared again = prepare(some);
    EXPECT_FALSE(again.from_cache) << file;
    EXPECT_EQ(all_of(again.train), train) << file;
    EXPECT_TRUE(prepare(some).from_cache) << file;
    EXPECT_EQ(names("cache").size(), 1U) << file;
  };
  expect_rebuilt("description.json", "");
  expect_rebuilt("description.json", "{}");
  expect_rebuilt("description.json", "[1]");
  expect_rebuilt("description.json", R"({"vocabulary": "x"})");
  expect_rebuilt("train/000000.bin", "");
  expect_rebuilt("train/000000.bin", "cut");
  expect_rebuilt("validation/000000.bin", "cut");
  expect_rebuilt("train/000001.bin", "more");
  expect_rebuilt("tokenizer/tokenizer.model", "x");
  expect_rebuilt("tokenizer/tokenizer_config.json", "{ }");
  const auto expect_rebuilt_without = [&](const std::string& name) {
    std::filesystem::remove_all(entry(first) + "/" + name);
    EXPECT_FALSE(prepare(some).from_cache) << name;
    EXPECT_TRUE(prepare(some).from_cache) << name;
  };
  for (const char* name : {"description.json", "train", "validation", "tokenizer"}) {
    expect_rebuilt_without(name);
  }
  std::filesystem::remove_all(entry(first));
  std::ofstream(entry(first)) << "a file in its place";
  EXPECT_FALSE(prepare(some).from_cache);
  EXPECT_TRUE(prepare(some).from_cache);
}

TEST_F(PrepareCache, DescriptionsThatLieAreFound) {
  write("t", lines(300));
  PrepareSpec some = spec("t");
  some.validation = 0.2;
  const Prepared first = prepare(some);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::string file = entry(first) + "/description.json";
    std::ifstream in(file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    std::ofstream(file) << text.replace(at, from.size(), to);
  };
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::int64_t>>{
           {"vocabulary", first.vocabulary},
           {"train_tokens", first.train_tokens},
           {"validation_tokens", first.validation_tokens}}) {
    replace(concat("\"", name, "\": ", value), concat("\"", name, "\": ", value + 1));
    EXPECT_FALSE(prepare(some).from_cache) << name;
    EXPECT_TRUE(prepare(some).from_cache) << name;
  }
}

TEST_F(PrepareCache, AKilledPreparationLeavesNothingUsable) {
  write("t", lines(3000));
  PrepareSpec some = spec("t");
  some.validation = 0.1;
  const pid_t child = ::fork();
  if (child == 0) {
    some.progress = [](std::string_view task, double done) {
      if (task == "encoding" && done > 0.5) ::_exit(9);
    };
    prepare(some);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 9);
  ASSERT_EQ(names("cache").size(), 1U) << "what it was working on";
  const Prepared prepared = prepare(some);
  EXPECT_FALSE(prepared.from_cache);
  EXPECT_NE(entry(prepared), path("cache") + "/" + names("cache")[1]) << "not what was left";
  EXPECT_TRUE(prepare(some).from_cache);
}

TEST_F(PrepareCache, AnExceptionLeavesNothing) {
  write("t", lines(300));
  PrepareSpec some = spec("t");
  some.progress = [](std::string_view task, double) {
    if (task == "encoding") throw IoError("stop");
  };
  EXPECT_THROW(prepare(some), IoError);
  EXPECT_TRUE(names("cache").empty());
}

TEST_F(PrepareCache, SeveralAtOnceAgree) {
  write("t", lines(2000));
  std::vector<Prepared> results(4);
  std::vector<std::thread> threads;
  for (Prepared& result : results) {
    threads.emplace_back([&] { result = prepare(spec("t", "bytes")); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Prepared& result : results) {
    EXPECT_EQ(result.train, results[0].train);
    EXPECT_EQ(text_of(result, result.train), lines(2000));
  }
  EXPECT_EQ(names("cache").size(), 1U);
}

TEST_F(PrepareCache, OneThatComesSecondUsesTheFirst) {
  write("t", lines(300));
  PrepareSpec some = spec("t");
  std::filesystem::file_time_type written;
  some.progress = [&](std::string_view task, double done) {
    if (task != "encoding" || done < 1.0) return;
    const Prepared faster = prepare(spec("t"));
    written = std::filesystem::last_write_time(entry(faster) + "/description.json");
  };
  const Prepared slower = prepare(some);
  EXPECT_EQ(std::filesystem::last_write_time(entry(slower) + "/description.json"), written);
  EXPECT_EQ(names("cache").size(), 1U);
}

TEST_F(PrepareCache, NoticesTextThatChanges) {
  write("t", lines(300));
  PrepareSpec some = spec("t");
  some.progress = [&](std::string_view task, double done) {
    if (task == "encoding" && done == 0.0) write("t", lines(200));
  };
  EXPECT_SAYS(why(some), "data.text = " + path("t") + ": it changed while it was read");
  EXPECT_TRUE(names("cache").empty());
}

TEST_F(PrepareCache, CacheGoesWhereTheEnvironmentSays) {
  const auto with = [](const char* xdg, const char* home, const char* temporary) {
    const auto set = [](const char* name, const char* value) {
      value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
    };
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    set("TMPDIR", temporary);
    return data::default_cache_folder();
  };
  const std::string user = concat(::getuid());
  EXPECT_EQ(with("/x", "/h", "/t"), "/x/fourfold");
  EXPECT_EQ(with(nullptr, "/h", "/t"), "/h/.cache/fourfold");
  EXPECT_EQ(with("", "/h", "/t"), "/h/.cache/fourfold");
  EXPECT_EQ(with(nullptr, nullptr, "/t"), "/t/fourfold-" + user);
  EXPECT_EQ(with(nullptr, nullptr, nullptr), "/tmp/fourfold-" + user);
  ::setenv("XDG_CACHE_HOME", path("xdg").c_str(), 1);
  write("t", "text");
  PrepareSpec some = spec("t");
  some.cache = "";
  EXPECT_EQ(std::filesystem::path(entry(prepare(some))).parent_path(), path("xdg/fourfold"));
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace fourfold::test
