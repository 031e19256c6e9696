// Reading one safetensors file: what is accepted, and what each damage is called.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_reader.hpp"

#include <optional>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "fourfold/formats/dtype.hpp"

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::byte_size;
using formats::Dtype;
using formats::parse_dtype;
using formats::SafetensorsReader;
using formats::TensorEntry;
using Shape = std::vector<std::int64_t>;

TEST(Dtype, EveryNameHasASizeAndReadsBack) {
  const std::vector<std::pair<std::string, int>> bits = {
      {"BOOL", 8},        {"U8", 8},          {"I8", 8},      {"I16", 16},    {"U16", 16},
      {"F16", 16},        {"BF16", 16},       {"I32", 32},    {"U32", 32},    {"F32", 32},
      {"F64", 64},        {"I64", 64},        {"U64", 64},    {"C64", 64},    {"F8_E4M3", 8},
      {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
  };
  for (const auto& [name, expected] : bits) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(to_string(*dtype), name);
    EXPECT_EQ(formats::bits(*dtype), expected) << name;
  }
  EXPECT_EQ(bits.size(), static_cast<std::size_t>(Dtype::kU64) + 1);
  EXPECT_FALSE(parse_dtype("f32"));
  EXPECT_FALSE(parse_dtype(""));
  EXPECT_EQ(parse_dtype("BF16"), Dtype::kBF16);
  EXPECT_EQ(parse_dtype("F32"), Dtype::kF32);
}

TEST(Dtype, SizesThatAreImpossibleAreNone) {
  EXPECT_EQ(byte_size(Dtype::kF32, Shape{}), 4);
  EXPECT_EQ(byte_size(Dtype::kF32, Shape{2, 3}), 24);
  EXPECT_EQ(byte_size(Dtype::kF32, Shape{2, 0, 3}), 0);
  EXPECT_EQ(byte_size(Dtype::kF4, Shape{6}), 3);
  EXPECT_EQ(byte_size(Dtype::kF6E2M3, Shape{4}), 3);
  EXPECT_FALSE(byte_size(Dtype::kF4, Shape{3}));
  EXPECT_FALSE(byte_size(Dtype::kF32, Shape{-1}));
  EXPECT_FALSE(byte_size(Dtype::kF32, Shape{-1, -1}));
  const std::int64_t large = std::int64_t{1} << 32;
  EXPECT_FALSE(byte_size(Dtype::kU8, Shape{large, large}));
  EXPECT_FALSE(byte_size(Dtype::kU8, Shape{large, large, 0}));
  EXPECT_FALSE(byte_size(Dtype::kF64, Shape{std::int64_t{1} << 57}));
  EXPECT_EQ(byte_size(Dtype::kF64, Shape{std::int64_t{1} << 56}), std::int64_t{1} << 59);
}

class Reader : public ScratchFolder {
 protected:
  /// The refusal of a file of these bytes, of which it checks what all have in common.
  std::string refusal_of_bytes(const std::string& bytes) const {
    const auto file = put("bad", bytes);
    const std::string text = message_of<ConfigError>([&] { SafetensorsReader reader(file); });
    EXPECT_EQ(text.find(file.string() + " cannot be used: "), 0U) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LT(text.size(), 500U);
    return text;
  }
  std::string refusal(const std::string& json, std::size_t data = 0) const {
    return refusal_of_bytes(safetensors_bytes(json, std::string(data, 'd')));
  }
  SafetensorsReader read(const std::string& json, const std::string& data = "") const {
    return SafetensorsReader(put("good", safetensors_bytes(json, data)));
  }
};

constexpr const char* kTwo = R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},)"
                             R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})";

TEST_F(Reader, GivesEntriesInTheOrderOfTheirData) {
  const SafetensorsReader reader = read(kTwo, "AAAAAAAABBB");
  const std::vector<TensorEntry> expected = {{"a", Dtype::kF32, {1, 2}, 0, 8},
                                             {"b", Dtype::kU8, {3}, 8, 11}};
  EXPECT_EQ(reader.entries(), expected);
  EXPECT_EQ(reader.entry("b"), expected[1]);
  EXPECT_EQ(as_text(reader.data("a")), "AAAAAAAA");
  EXPECT_EQ(as_text(reader.data("b")), "BBB");
  EXPECT_TRUE(reader.metadata().empty());
  EXPECT_TRUE(reader.contains("a"));
  EXPECT_FALSE(reader.contains("c"));
  EXPECT_SAYS(message_of<ConfigError>([&] { reader.data("c"); }),
              reader.path().string() + " has no tensor 'c'");
}

TEST_F(Reader, StaysValidWhenMoved) {
  std::optional<SafetensorsReader> first(read(kTwo, "AAAAAAAABBB"));
  std::optional<SafetensorsReader> second(put("other", safetensors_bytes("{}", "")));
  *second = std::move(*first);
  first.reset();
  EXPECT_EQ(as_text(second->data("b")), "BBB");
  const SafetensorsReader third = std::move(*second);
  second.reset();
  EXPECT_EQ(as_text(third.data("b")), "BBB");
}

TEST_F(Reader, AcceptsEveryFormOfMetadata) {
  EXPECT_TRUE(read("{}").entries().empty());
  EXPECT_TRUE(read(R"({"__metadata__":null})").metadata().empty());
  EXPECT_TRUE(read(R"({"__metadata__":{}})").metadata().empty());
  const formats::Metadata expected = {{"format", "pt"}, {"note", "a\n\xc3\xa4"}};
  EXPECT_EQ(read(R"({"__metadata__":{"format":"pt","note":"a\n\u00e4"}})").metadata(), expected);
}

TEST_F(Reader, AcceptsPaddingScalarsAndEmptyTensors) {
  const SafetensorsReader reader =
      read(R"({"s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
           R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[2,2]},)"
           R"("t":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
           R"("f":{"shape":[0],"data_offsets":[2,2],"dtype":"I64"},)"
           R"("g":{"dtype":"I64","shape":[0],"data_offsets":[0,0]}}    )",
           "sst");
  ASSERT_EQ(reader.entries().size(), 5U);
  EXPECT_EQ(as_text(reader.data("s")), "ss");
  EXPECT_EQ(as_text(reader.data("t")), "t");
  for (const char* empty : {"e", "f", "g"}) EXPECT_TRUE(reader.data(empty).empty());
  EXPECT_EQ(reader.entry("s").shape, Shape{});
  EXPECT_EQ(reader.entry("e").shape, (Shape{0, 5}));
}

TEST_F(Reader, RefusesWhatIsNoFile) {
  const auto refuse = [&](const std::string& name) {
    return message_of<ConfigError>([&] { SafetensorsReader reader(path(name)); });
  };
  EXPECT_SAYS(refuse("none"), "none cannot be read: No such file or directory");
  EXPECT_SAYS(refuse("."), "is not a file");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_SAYS(refuse("pipe"), "pipe is not a file");  // and does not wait for a writer
}

TEST_F(Reader, RefusesBadLengths) {
  EXPECT_SAYS(refusal_of_bytes(""), "only 0 bytes");
  EXPECT_SAYS(refusal_of_bytes("1234567"), "only 7 bytes");
  EXPECT_SAYS(refusal_of_bytes(safetensors_bytes("", "")), "does not begin with '{'");
  EXPECT_SAYS(refusal_of_bytes(safetensors_bytes("{}", "", 3)), "header of 3 bytes, 2 follow");
  EXPECT_SAYS(refusal_of_bytes(safetensors_bytes("{}", "", ~std::uint64_t{0})),
              "header of 1844674");
  EXPECT_SAYS(refusal_of_bytes(safetensors_bytes("{}", "", ~std::uint64_t{0} - 7)), "header of");
}

TEST_F(Reader, HeadersOfALimitedLengthOnly) {
  // Sparse files: spaces are missing, so the JSON is broken, but only if anyone looks at it.
  const auto length = [&](std::uint64_t header) {
    const auto file = put("large", safetensors_bytes("{}", "", header));
    std::filesystem::resize_file(file, 8 + header);
    return message_of<ConfigError>([&] { SafetensorsReader reader(file); });
  };
  EXPECT_SAYS(length(100'000'001), "100000000 are allowed");
  EXPECT_SAYS(length(100'000'000), "byte 2 of its JSON is zero");
}

TEST_F(Reader, RefusesBrokenJson) {
  EXPECT_SAYS(refusal("[]"), "does not begin with '{'");
  EXPECT_SAYS(refusal(" {}"), "does not begin with '{'");
  EXPECT_SAYS(refusal("\xef\xbb\xbf{}"), "does not begin with '{'");
  EXPECT_SAYS(refusal("{"), "broken at byte");
  EXPECT_SAYS(refusal("{}{}"), "broken at byte");
  EXPECT_SAYS(refusal("{} x"), "broken at byte");
  EXPECT_SAYS(refusal("{\"\xff\":1}"), "broken at byte");
  EXPECT_SAYS(refusal(R"({"a":{"dtype":"U8","shape":[1e999],"data_offsets":[0,1]}})", 1), "broken");
  EXPECT_SAYS(refusal(std::string("{}\0\0", 4)), "byte 2 of its JSON is zero");
}

TEST_F(Reader, RefusesWhatAHeaderDoesNotHold) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"a":1})", "the value of 'a' cannot be a number"},
      {R"({"a":null})", "the value of 'a' cannot be null"},
      {R"({"a":[]})", "the value of 'a' cannot be a list"},
      {R"({"a":{}})", "tensor 'a' lacks"},
      {R"({"a":{"dtype":"U8","shape":[0]}})", "tensor 'a' lacks"},
      {R"({"a":{"shape":[0],"data_offsets":[0,0]}})", "tensor 'a' lacks"},
      {R"({"a":{"dtype":1}})", "the dtype of tensor 'a' cannot be a number"},
      {R"({"a":{"dtype":["U8"]}})", "the dtype of tensor 'a' cannot be a list"},
      {R"({"a":{"dtype":"Q8"}})", "tensor 'a' has the unknown dtype 'Q8'"},
      {R"({"a":{"shape":"1"}})", "the shape of tensor 'a' cannot be a string"},
      {R"({"a":{"shape":1}})", "the shape of tensor 'a' cannot be a number"},
      {R"({"a":{"shape":[[1]]}})", "the shape of tensor 'a' cannot be a list"},
      {R"({"a":{"shape":[true]}})", "the shape of tensor 'a' cannot be true"},
      {R"({"a":{"shape":[-1]}})", "the shape of tensor 'a' cannot be a negative number"},
      {R"({"a":{"shape":[1.5]}})", "the shape of tensor 'a' cannot be a fraction"},
      {R"({"a":{"shape":[9223372036854775808]}})", "9223372036854775808, which is too large"},
      {R"({"a":{"data_offsets":[0]}})", "the data_offsets of tensor 'a' are 1 numbers"},
      {R"({"a":{"data_offsets":[0,0,0]}})", "the data_offsets of tensor 'a' are 3 numbers"},
      {R"({"a":{"data_offsets":{}}})", "the data_offsets of tensor 'a' cannot be an object"},
      {R"({"a":{"stride":[1]}})", "tensor 'a' has the unknown property 'stride'"},
      {R"({"a":{"dtype":"U8","dtype":"U8"}})", "the dtype of tensor 'a' is given twice"},
      {R"({"__metadata__":"pt"})", "the value of '__metadata__' cannot be a string"},
      {R"({"__metadata__":{"a":1}})", "__metadata__ 'a' cannot be a number"},
      {R"({"__metadata__":{"a":null}})", "__metadata__ 'a' cannot be null"},
      {R"({"__metadata__":{"a":{}}})", "__metadata__ 'a' cannot be an object"},
      {R"({"__metadata__":{"a":"1","a":"1"}})", "__metadata__ 'a' is given twice"},
      {R"({"__metadata__":null,"__metadata__":{}})", "its __metadata__ is given twice"},
  };
  for (const auto& [json, expected] : cases) EXPECT_SAYS(refusal(json), expected);
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return concat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":[", shape,
                "],\"data_offsets\":[", offsets, "]}");
}

TEST_F(Reader, RefusesLayoutsThatDoNotFillTheData) {
  const auto two = [&](const std::string& a, const std::string& b, std::size_t data) {
    return refusal("{" + tensor("a", "U8", "4", a) + "," + tensor("b", "U8", "4", b) + "}", data);
  };
  EXPECT_SAYS(two("0,4", "5,9", 9), "'b' begins at byte 5 of the data, but what is before it ends");
  EXPECT_SAYS(two("0,4", "3,7", 7), "'b' begins at byte 3");
  EXPECT_SAYS(two("0,4", "0,4", 4), "'b' begins at byte 0");
  EXPECT_SAYS(two("1,5", "5,9", 9), "'a' begins at byte 1");
  EXPECT_SAYS(two("0,4", "4,8", 9), "its tensors take 8 bytes, but 9 follow the header;");
  EXPECT_SAYS(two("0,4", "4,8", 7),
              "its tensors take 8 bytes, but 7 follow the header (cut short)");
  EXPECT_SAYS(two("0,4", "4,9", 9), "'b' of U8 [4] needs 4 bytes, but its offsets are 4 and 9");
  EXPECT_SAYS(two("0,4", "4,7", 7), "'b' of U8 [4] needs 4 bytes, but its offsets are 4 and 7");
  EXPECT_SAYS(two("0,4", "4,0", 4), "'b' of U8 [4] needs 4 bytes, but its offsets are 4 and 0");
  EXPECT_SAYS(two("4,0", "4,8", 8), "'a' begins at byte 4");
  EXPECT_SAYS(refusal("{}", 1), "its tensors take 0 bytes, but 1 follow the header");
  EXPECT_SAYS(
      refusal("{" + tensor("a", "U8", "4", "0,4") + "," + tensor("a", "U8", "4", "4,8") + "}", 8),
      "tensor 'a' is given twice");
}

TEST_F(Reader, RefusesImpossibleSizes) {
  EXPECT_SAYS(refusal("{" + tensor("a", "U8", "4294967296,4294967296", "0,0") + "}"),
              "'a' of U8 [4294967296, 4294967296] has no possible size");
  EXPECT_SAYS(refusal("{" + tensor("a", "F4", "3", "0,1") + "}", 1), "no possible size");
  EXPECT_SAYS(refusal("{" + tensor("a", "F32", "2305843009213693953", "0,4") + "}", 4),
              "no possible size");
  std::string ones = "1";
  for (int i = 1; i < 64; ++i) ones += ",1";
  EXPECT_EQ(read("{" + tensor("a", "U8", ones, "0,1") + "}", "1").entry("a").shape.size(), 64U);
  EXPECT_SAYS(refusal("{" + tensor("a", "U8", ones + ",1", "0,1") + "}", 1), "more than 64");
}

TEST_F(Reader, MessagesStayOneShortLine) {
  EXPECT_SAYS(refusal(R"({"line\nbreak\u0000or\u007f":1})"), "'line?break?or?'");
  EXPECT_SAYS(refusal("{\"" + std::string(5000, 'n') + "\":1}"), "nnn...'");
  EXPECT_SAYS(refusal("{\"" + std::string(5000, 'n')), "broken");
}

TEST_F(Reader, DeepNestingIsRefusedAtOnce) {
  EXPECT_SAYS(refusal("{\"a\":" + std::string(1 << 20, '[')), "cannot be a list");
  EXPECT_SAYS(refusal("{\"__metadata__\":{\"a\":" + std::string(1 << 20, '{')), "an object");
}

}  // namespace
}  // namespace fourfold::test
