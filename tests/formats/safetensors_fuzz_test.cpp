// Damaged safetensors files: each is refused, or everything that it gives lies inside of it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "fourfold/formats/safetensors_folder.hpp"
#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/formats/safetensors_reader.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::SafetensorsReader;
using formats::TensorEntry;

constexpr const char* kJson = R"({"__metadata__":{"format":"pt","k":"v"},)"
                              R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                              R"("e":{"dtype":"I64","shape":[0],"data_offsets":[24,24]},)"
                              R"("s":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},)"
                              R"("t":{"dtype":"U8","shape":[4],"data_offsets":[26,30]}}  )";

/// What may happen to a text: bits, other characters of the format, other digits, pieces lost,
/// doubled and moved.
std::string damaged(std::string text, std::mt19937& random) {
  static constexpr std::string_view kCharacters = "{}[]:,\"0123456789-.eEnulltrue \\\0\x80\xff";
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::size_t times = 1 + below(3);
  for (std::size_t i = 0; i < times && !text.empty(); ++i) {
    const std::size_t at = below(text.size());
    const std::size_t count = std::min(1 + below(12), text.size() - at);
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = kCharacters[below(kCharacters.size())];
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), count));
        break;
      case 4:
        text.erase(at, count);
        break;
      case 5:
        text.append(count, kCharacters[below(kCharacters.size())]);
        break;
      default: {
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + below(10));
      }
    }
  }
  return text;
}

/// Entries that were accepted fill the data exactly; checked here without the reader's arithmetic.
void expect_inside(const std::vector<TensorEntry>& entries, std::size_t data_bytes) {
  std::vector<int> covered(data_bytes);
  for (const TensorEntry& entry : entries) {
    ASSERT_GE(entry.begin, 0);
    ASSERT_LE(entry.begin, entry.end);
    ASSERT_LE(static_cast<std::size_t>(entry.end), data_bytes);
    for (auto i = entry.begin; i < entry.end; ++i) ++covered[static_cast<std::size_t>(i)];
  }
  EXPECT_TRUE(std::all_of(covered.begin(), covered.end(), [](int n) { return n == 1; }));
}

struct Outcomes {
  int refused = 0;
  int accepted = 0;
};

/// Calls `body` with `count` damaged texts; it may throw ConfigError and nothing else.
Outcomes fuzz(const std::string& text, int count, unsigned seed,
              const std::function<void(const std::string&)>& body) {
  std::mt19937 random(seed);
  Outcomes outcomes;
  for (int i = 0; i < count; ++i) {
    const std::string bad = damaged(text, random);
    try {
      body(bad);
      ++outcomes.accepted;
    } catch (const ConfigError& error) {
      ++outcomes.refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "damage " << i << ": " << error.what();
    }
  }
  return outcomes;
}

class Fuzz : public ScratchFolder {};

TEST_F(Fuzz, WholeFiles) {
  const std::string good = safetensors_bytes(kJson, "wwwwwwwwwwwwwwwwwwwwwwwwsstttt");
  const auto outcomes = fuzz(good, 4000, 1, [&](const std::string& bytes) {
    const SafetensorsReader reader(put("file", bytes));
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
    ASSERT_LE(length + 8, bytes.size());
    expect_inside(reader.entries(), bytes.size() - 8 - length);
    for (const TensorEntry& entry : reader.entries()) {
      EXPECT_EQ(as_text(reader.data(entry.name)),
                bytes.substr(8 + length + static_cast<std::size_t>(entry.begin),
                             static_cast<std::size_t>(entry.bytes())));
    }
  });
  EXPECT_GT(outcomes.refused, 2000);
  EXPECT_GT(outcomes.accepted, 50);  // damaged names, metadata and data are none of our business
}

TEST_F(Fuzz, EveryTruncationAndExtensionIsRefused) {
  const std::string good = safetensors_bytes(kJson, "wwwwwwwwwwwwwwwwwwwwwwwwsstttt");
  EXPECT_NO_THROW(SafetensorsReader(put("file", good)));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(SafetensorsReader(put("file", good.substr(0, size))), ConfigError) << size;
  }
  for (const std::size_t more : {1, 7, 4096}) {
    EXPECT_THROW(SafetensorsReader(put("file", good + std::string(more, '\0'))), ConfigError);
  }
}

TEST_F(Fuzz, HeadersInMemoryOfExactlyTheirSize) {
  const auto outcomes = fuzz(kJson, 30000, 2, [&](const std::string& text) {
    // A vector has no zero behind its end, and the address sanitizer watches it.
    const std::vector<char> exact(text.begin(), text.end());
    expect_inside(formats::parse_header({exact.data(), exact.size()}, 30, "file").entries, 30);
  });
  EXPECT_GT(outcomes.refused, 15000);
  EXPECT_GT(outcomes.accepted, 100);
}

TEST_F(Fuzz, IndexFiles) {
  put("model-00001-of-00001.safetensors",
      safetensors_bytes(kJson, "wwwwwwwwwwwwwwwwwwwwwwwwsstttt"));
  const std::string good =
      R"({"metadata":{"total_size":30,"x":[1,{"weight_map":{}},null,true,-1,1.5,"s"]},)"
      R"("weight_map":{"w":"model-00001-of-00001.safetensors",)"
      R"("t":"model-00001-of-00001.safetensors"}})";
  const auto outcomes = fuzz(good, 4000, 3, [&](const std::string& text) {
    put("model.safetensors.index.json", text);
    const formats::SafetensorsFolder folder(folder_);
    for (const auto& [name, file] : folder.tensors()) {
      EXPECT_EQ(file->path().parent_path(), folder_);
      EXPECT_NO_THROW(folder.data(name));
    }
  });
  EXPECT_GT(outcomes.refused, 2000);
  EXPECT_GT(outcomes.accepted, 50);
}

}  // namespace
}  // namespace fourfold::test
