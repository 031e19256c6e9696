// Reading the tensors of a folder: one file, or an index and its shards.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_folder.hpp"

#include <string>
#include <utility>
#include <vector>

#include "tests/formats/scratch_folder.hpp"

namespace fourfold::test {
namespace {

using formats::SafetensorsFolder;

constexpr const char* kIndex = "model.safetensors.index.json";

/// A file with tensors of one byte each, whose value is the second character.
std::string shard(const std::vector<std::string>& tensors) {
  std::vector<std::string> entries;
  std::string data;
  for (const std::string& tensor : tensors) {
    entries.push_back(concat("\"", tensor[0], "\":{\"dtype\":\"U8\",\"shape\":[1],",
                             "\"data_offsets\":[", data.size(), ",", data.size() + 1, "]}"));
    data += tensor[1];
  }
  return safetensors_bytes("{" + join(entries, ",") + "}", data);
}

class Folder : public ScratchFolder {
 protected:
  std::string refusal() const {
    const auto text = message_of<ConfigError>([&] { SafetensorsFolder folder(folder_); });
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.find(folder_.string()), 0U) << text;
    return text;
  }
  std::string refusal(const std::string& index) const {
    put(kIndex, index);
    return refusal();
  }
};

TEST_F(Folder, OneFile) {
  put("model.safetensors", shard({"a1", "b2"}));
  const SafetensorsFolder folder(folder_);
  EXPECT_EQ(folder.tensors().size(), 2U);
  EXPECT_EQ(as_text(folder.data("b")), "2");
  EXPECT_EQ(folder.entry("b").begin, 1);
  EXPECT_EQ(folder.file("a").path(), path("model.safetensors"));
  EXPECT_TRUE(folder.contains("a"));
  EXPECT_FALSE(folder.contains("c"));
  EXPECT_SAYS(message_of<ConfigError>([&] { folder.data("c"); }),
              folder_.string() + " has no tensor 'c'");
}

TEST_F(Folder, ShardsAsTheIndexSays) {
  put("one", shard({"a1", "b2", "x0"}));
  put("two", shard({"c3", "b4"}));
  put(kIndex, R"({"metadata":{"total_size":3,"weight_map":{"z":"no"},"l":[{"weight_map":1},2]},)"
              R"("weight_map":{"a":"one","b":"two","c":"two"},"more":[null,true,-1,1.5,"s"]})");
  const SafetensorsFolder folder(folder_);
  ASSERT_EQ(folder.tensors().size(), 3U);
  EXPECT_EQ(as_text(folder.data("a")), "1");
  EXPECT_EQ(as_text(folder.data("b")), "4");
  EXPECT_EQ(as_text(folder.data("c")), "3");
  EXPECT_EQ(folder.file("b").path(), path("two"));
  EXPECT_FALSE(folder.contains("x"));  // in a shard, but not in the index
}

TEST_F(Folder, ShardsMayBeLinks) {
  std::filesystem::create_directory(path("blobs"));
  put("blobs/one", shard({"a1"}));
  std::filesystem::create_symlink("blobs/one", path("linked"));
  put(kIndex, R"({"weight_map":{"a":"linked"}})");
  EXPECT_EQ(as_text(SafetensorsFolder(folder_).data("a")), "1");
}

TEST_F(Folder, OneFileGoesBeforeAnIndex) {
  put("model.safetensors", shard({"a1"}));
  put(kIndex, "broken");
  EXPECT_EQ(SafetensorsFolder(folder_).tensors().size(), 1U);
}

TEST_F(Folder, RefusesAFolderWithoutModel) {
  EXPECT_SAYS(refusal(), "has neither model.safetensors nor model.safetensors.index.json");
  EXPECT_SAYS(message_of<ConfigError>([&] { SafetensorsFolder folder(path("none")); }),
              "none has neither");
}

TEST_F(Folder, RefusesWhatLeadsOutOfTheFolder) {
  std::filesystem::create_directory(path("sub"));
  put("sub/one", shard({"a1"}));
  for (const char* name : {"../one", "sub/one", "/etc/passwd", "..", ".", "", R"(one\u0000x)"}) {
    EXPECT_SAYS(refusal(concat(R"({"weight_map":{"a":")", name, R"("}})")),
                "not the name of a file beside it");
  }
}

TEST_F(Folder, RefusesAnIndexThatIsWrong) {
  put("one", shard({"a1"}));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with '{'"},
      {"{}", "it has no weight_map"},
      {R"({"x":{"weight_map":{"a":"one"}}})", "it has no weight_map"},
      {R"({"weight_map":[]})", "its weight_map cannot be a list"},
      {R"({"weight_map":"one"})", "its weight_map cannot be a string"},
      {R"({"weight_map":null})", "its weight_map cannot be null"},
      {R"({"weight_map":{"a":1}})", "the file of tensor 'a' cannot be a number"},
      {R"({"weight_map":{"a":-1}})", "the file of tensor 'a' cannot be a negative number"},
      {R"({"weight_map":{"a":1.5}})", "the file of tensor 'a' cannot be a fraction"},
      {R"({"weight_map":{"a":true}})", "the file of tensor 'a' cannot be true"},
      {R"({"weight_map":{"a":null}})", "the file of tensor 'a' cannot be null"},
      {R"({"weight_map":{"a":["one"]}})", "the file of tensor 'a' cannot be a list"},
      {R"({"weight_map":{"a":{}}})", "the file of tensor 'a' cannot be an object"},
      {R"({"weight_map":{"a":"one","a":"one"}})", "the file of tensor 'a' is given twice"},
      {R"({"weight_map":{},"weight_map":{}})", "its weight_map is given twice"},
      {R"({"weight_map":{"a":"one","b":"one"}})", "tensor 'b' is in one, where it is not"},
      {R"({"weight_map":{"a":"none"}})", "none cannot be read: No such file"},
      {R"({"weight_map":{"a":"one"})", "broken at byte"},
  };
  for (const auto& [index, expected] : cases) EXPECT_SAYS(refusal(index), expected);
  put(kIndex, "{");
  std::filesystem::resize_file(path(kIndex), 100'000'001);
  EXPECT_SAYS(refusal(), "100000001 bytes, too many for an index");
}

TEST_F(Folder, RefusesADamagedShardByItsName) {
  put("one", shard({"a1"}).substr(0, 20));
  EXPECT_SAYS(refusal(R"({"weight_map":{"a":"one"}})"), path("one").string() + " cannot be used");
}

}  // namespace
}  // namespace fourfold::test
