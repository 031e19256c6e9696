// Writing safetensors files: the exact bytes, the order, pieces, and what is left when it fails.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_writer.hpp"

#include <array>
#include <random>
#include <string>
#include <vector>

#include "fourfold/formats/safetensors_header.hpp"
#include "fourfold/formats/safetensors_reader.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::Dtype;
using formats::SafetensorsReader;
using formats::SafetensorsWriter;
using formats::TensorEntry;
using formats::TensorSpec;

using Writer = ScratchFolder;

TEST_F(Writer, MinimalFileHasTheExactBytes) {
  SafetensorsWriter writer(path("f"), {{"w", Dtype::kF32, {2}}});
  writer.write(as_data("12345678"));
  writer.commit();
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(json.size(), 85U);
  EXPECT_EQ(bytes_of(path("f")), std::string("\x58\0\0\0\0\0\0\0", 8) + json + "   " + "12345678");
}

TEST(Header, EncodesWithoutMetadataAndWithLongLengths) {
  const std::string bytes =
      formats::encode_header({{{"attn.0", Dtype::kF32, {1, 2, 3}, 0, 24}}, {}});
  EXPECT_EQ(bytes, std::string("\x40\0\0\0\0\0\0\0", 8) +
                       R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  const std::string name(70'000, 'n');
  const std::string large = formats::encode_header({{{name, Dtype::kU8, {}, 0, 1}}, {}});
  EXPECT_EQ(large.size() % 8, 0U);
  EXPECT_EQ(as_text(as_data(large).subspan(2, 1)), "\x01");  // 70000 is more than 2^16
  EXPECT_EQ(formats::parse_header(large.substr(8), 1, "x").entries.at(0).name, name);
}

TEST(Header, RefusesToBeLongerThanReadersAllow) {
  formats::Header header;
  header.metadata["k"] = std::string(100'000'000, 'v');
  EXPECT_THROW(formats::encode_header(header), InvariantError);
}

std::vector<std::string> names(const std::vector<TensorEntry>& entries) {
  std::vector<std::string> result;
  for (const TensorEntry& entry : entries) result.push_back(entry.name);
  return result;
}

TEST_F(Writer, OrdersByAlignmentThenName) {
  SafetensorsWriter writer(path("f"), {{"z", Dtype::kF32, {1}},
                                       {"b", Dtype::kU8, {3}},
                                       {"B", Dtype::kBF16, {1}},
                                       {"a", Dtype::kF32, {3}},
                                       {"10", Dtype::kF32, {}},
                                       {"9", Dtype::kF32, {}},
                                       {"y", Dtype::kI64, {1}},
                                       {"\xc3\xa4", Dtype::kF32, {}}});
  EXPECT_EQ(names(writer.entries()),
            (std::vector<std::string>{"y", "10", "9", "a", "z", "\xc3\xa4", "B", "b"}));
  for (const TensorEntry& entry : writer.entries()) {
    EXPECT_EQ(entry.begin % (formats::bits(entry.dtype) / 8), 0) << entry.name;
  }
}

TEST_F(Writer, ReadsBackWithAwkwardNamesAndMetadata) {
  const std::string name = "quote\" back\\ line\n nul" + std::string(1, '\0') + " \xe2\x82\xac";
  SafetensorsWriter writer(path("f"), {{name, Dtype::kU8, {2}}, {"", Dtype::kU8, {}}},
                           {{"step", "7"}, {name, name}});
  EXPECT_EQ(writer.next()->name, "");
  writer.write(as_data("012"));
  writer.commit();
  const SafetensorsReader reader(path("f"));
  EXPECT_EQ(reader.metadata(), (formats::Metadata{{"format", "pt"}, {"step", "7"}, {name, name}}));
  EXPECT_EQ(reader.entries(), writer.entries());
  EXPECT_EQ(as_text(reader.data(name)), "12");
}

TEST_F(Writer, AGivenFormatStays) {
  SafetensorsWriter(path("f"), {}, {{"format", "np"}}).commit();
  EXPECT_EQ(SafetensorsReader(path("f")).metadata(), (formats::Metadata{{"format", "np"}}));
}

TEST_F(Writer, NextSaysWhoseBytesAreMissing) {
  SafetensorsWriter writer(path("f"), {{"a", Dtype::kU8, {0}},
                                       {"b", Dtype::kU8, {2}},
                                       {"c", Dtype::kU8, {0, 7}},
                                       {"d", Dtype::kU8, {}},
                                       {"e", Dtype::kU8, {0}}});
  ASSERT_NE(writer.next(), nullptr);
  EXPECT_EQ(writer.next()->name, "b");
  writer.write(as_data("b"));
  EXPECT_EQ(writer.next()->name, "b");
  writer.write("c", {});
  writer.write(as_data("b"));
  EXPECT_EQ(writer.next()->name, "d");
  writer.write("d", as_data("d"));
  EXPECT_EQ(writer.next(), nullptr);
  writer.write("e", {});
  writer.commit();
  EXPECT_EQ(as_text(SafetensorsReader(path("f")).data("b")), "bb");
}

TEST_F(Writer, PiecesOfAnySizeGiveTheSameFile) {
  std::mt19937 random(5);
  std::string data(3'000'000, ' ');
  for (char& c : data) c = static_cast<char>(random());
  const std::vector<TensorSpec> tensors = {
      {"a", Dtype::kU16, {999'999}}, {"b", Dtype::kU8, {4, 250'000}}, {"c", Dtype::kU8, {2}}};
  for (const std::size_t largest : {1'000UL, 262'144UL, 300'000UL, 3'000'000UL}) {
    SafetensorsWriter writer(path("f"), tensors);
    for (std::size_t at = 0; at < data.size();) {
      const std::size_t size = std::min(1 + random() % largest, data.size() - at);
      writer.write(as_data(data).subspan(at, size));
      at += size;
    }
    writer.commit();
    const std::string bytes = bytes_of(path("f"));
    EXPECT_TRUE(bytes.ends_with(data)) << largest;
    EXPECT_NO_THROW(SafetensorsReader(path("f")));
  }
}

TEST_F(Writer, RefusesMisuse) {
  const auto make = [&](const std::vector<TensorSpec>& tensors) {
    SafetensorsWriter writer(path("f"), tensors);
  };
  EXPECT_THROW(make({{"a", Dtype::kU8, {1}}, {"a", Dtype::kF32, {1}}}), InvariantError);
  EXPECT_THROW(make({{"__metadata__", Dtype::kU8, {1}}}), InvariantError);
  EXPECT_THROW(make({{"a", Dtype::kU8, {-1}}}), InvariantError);
  EXPECT_THROW(make({{"\xff", Dtype::kU8, {1}}}), InvariantError);
  const std::int64_t half = std::int64_t{1} << 59;
  EXPECT_NO_THROW(make({{"a", Dtype::kU8, {half}}}));
  std::vector<TensorSpec> many;
  for (int i = 0; i < 17; ++i) many.push_back({std::to_string(i), Dtype::kU8, {half}});
  EXPECT_THROW(formats::lay_out(many), InvariantError);
  EXPECT_TRUE(files().empty());

  SafetensorsWriter writer(path("f"), {{"a", Dtype::kU8, {2}}, {"b", Dtype::kU8, {2}}});
  EXPECT_THROW(writer.write("b", as_data("12")), InvariantError);
  EXPECT_THROW(writer.write("c", as_data("12")), InvariantError);
  EXPECT_THROW(writer.write("a", as_data("123")), InvariantError);
  EXPECT_THROW(writer.write("a", {}), InvariantError);
  EXPECT_THROW(writer.write(as_data("12345")), InvariantError);
  EXPECT_THROW(writer.commit(), InvariantError);
  writer.write(as_data("123"));
  EXPECT_THROW(writer.write("b", as_data("12")), InvariantError);
  EXPECT_THROW(writer.commit(), InvariantError);
  writer.write(as_data("4"));
  writer.commit();
  EXPECT_THROW(writer.commit(), InvariantError);
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(Writer, WithoutCommitTheOldFileStays) {
  put("f", "old");
  {
    SafetensorsWriter writer(path("f"), {{"a", Dtype::kU8, {3}}});
    writer.write(as_data("new"));
    EXPECT_EQ(files().size(), 2U);
    EXPECT_EQ(bytes_of(path("f")), "old");
  }
  EXPECT_EQ(files(), std::set<std::string>{"f"});
  EXPECT_EQ(bytes_of(path("f")), "old");
}

TEST_F(Writer, CommitReplacesTheOldFile) {
  put("f", "old");
  SafetensorsWriter writer(path("f"), {{"a", Dtype::kU8, {3}}});
  writer.write(as_data("new"));
  writer.commit();
  EXPECT_EQ(files(), std::set<std::string>{"f"});
  EXPECT_EQ(as_text(SafetensorsReader(path("f")).data("a")), "new");
}

TEST_F(Writer, IgnoresWhatAKilledProcessLeft) {
  put(concat("f.", getpid(), ".part"), std::string(10'000, 'x'));
  SafetensorsWriter(path("f"), {}).commit();
  EXPECT_EQ(files(), std::set<std::string>{"f"});
  EXPECT_LT(bytes_of(path("f")).size(), 100U);
}

TEST_F(Writer, SaysWhyNoFileCanBeMade) {
  put("file", "");
  const auto message = [&](const std::string& name) {
    return message_of<IoError>([&] { SafetensorsWriter writer(path(name), {}); });
  };
  EXPECT_EQ(message("none/f"),
            path("none/f").string() + " cannot be written: No such file or directory");
  EXPECT_SAYS(message("file/f"), "Not a directory");
}

TEST_F(Writer, SaysWhyTheFileCannotBePutInPlace) {
  std::filesystem::create_directory(path("f"));
  EXPECT_EQ(message_of<IoError>([&] { SafetensorsWriter(path("f"), {}).commit(); }),
            path("f").string() + " cannot be written: Is a directory");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(Writer, AFullDiskIsAnErrorAndLeavesNothing) {
  // The file that is written before it gets its name leads to a device that is always full.
  std::filesystem::create_symlink("/dev/full", path(concat("f.", getpid(), ".part")));
  EXPECT_EQ(message_of<IoError>([&] { SafetensorsWriter(path("f"), {}).commit(); }),
            path("f").string() + " cannot be written: No space left on device");
  EXPECT_TRUE(files().empty());
}

TEST_F(Writer, ADiskThatBecomesFullIsAnErrorAndLeavesNothing) {
  const std::string data(1 << 20, 'x');
  SafetensorsWriter writer(path("f"), {{"a", Dtype::kU8, {3, 1 << 20}}});
  const SmallDisk disk(1'500'000);
  writer.write(as_data(data));
  EXPECT_EQ(message_of<IoError>([&] { writer.write(as_data(data)); }),
            path("f").string() + " cannot be written: File too large");
  EXPECT_TRUE(files().empty());
  EXPECT_THROW(writer.write(as_data(data)), InvariantError);
  EXPECT_THROW(writer.commit(), InvariantError);
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace fourfold::test
