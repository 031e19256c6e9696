// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/safetensors_folder.hpp"

#include <algorithm>
#include <utility>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/formats/json_text.hpp"
#include "fourfold/formats/safetensors_header.hpp"

namespace fourfold::formats {

namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

/// The weight_map of an index. Everything else is ignored.
class IndexSax final : public StrictSax {
 public:
  using StrictSax::StrictSax;

  /// The names of files by the names of tensors.
  std::map<std::string, std::string> take() {
    if (!seen_) refuse("it has no weight_map");
    return std::move(files_);
  }

  bool start_object(std::size_t size) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (std::exchange(seen_, true)) refuse("its weight_map is given twice");
      inside_ = true;
    } else if (inside_) {
      return StrictSax::start_object(size);
    }
    ++depth_;
    return true;
  }
  bool end_object() override {
    inside_ = false;
    --depth_;
    return true;
  }
  bool start_array(std::size_t size) override {
    if (expected()) return StrictSax::start_array(size);
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& key) override {
    key_ = std::move(key);
    return true;
  }

  bool string(string_t& file) override {
    if (!inside_) return expected() ? StrictSax::string(file) : true;
    // The name must be plain, so that the index cannot lead out of the folder.
    const bool plain = !file.empty() && file != "." && file != ".." &&
                       std::none_of(file.begin(), file.end(), [](char c) {
                         return c == '/' || static_cast<unsigned char>(c) < ' ';
                       });
    if (!plain)
      refuse(concat(place(), " is ", in_quotes(file), ", not the name of a file beside it"));
    if (!files_.emplace(key_, std::move(file)).second) refuse(concat(place(), " is given twice"));
    return true;
  }

  bool null() override { return expected() ? StrictSax::null() : true; }
  bool boolean(bool value) override { return expected() ? StrictSax::boolean(value) : true; }
  bool number_integer(number_integer_t value) override {
    return expected() ? StrictSax::number_integer(value) : true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return expected() ? StrictSax::number_unsigned(value) : true;
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return expected() ? StrictSax::number_float(value, text) : true;
  }

 private:
  /// True where only the weight_map or its content may be.
  bool expected() const { return inside_ || (depth_ == 1 && key_ == "weight_map"); }

  std::string place() const override {
    return inside_ ? "the file of tensor " + in_quotes(key_) : "its weight_map";
  }

  std::map<std::string, std::string> files_;
  std::string key_;        // the last key, at any depth
  std::size_t depth_ = 0;  // the number of open objects and lists
  bool inside_ = false;    // whether the parser is inside the weight_map
  bool seen_ = false;
};

}  // namespace

SafetensorsFolder::SafetensorsFolder(std::filesystem::path folder, std::string_view file)
    : folder_(std::move(folder)) {
  std::error_code ignored;  // a file that cannot be examined is reported as missing
  if (file != kSingleFile || std::filesystem::exists(folder_ / file, ignored)) {
    const SafetensorsReader& single =
        files_.try_emplace(std::string(file), folder_ / file).first->second;
    for (const TensorEntry& entry : single.entries()) tensors_.emplace(entry.name, &single);
  } else if (std::filesystem::exists(folder_ / kIndexFile, ignored)) {
    read_index(folder_ / kIndexFile);
  } else {
    throw ConfigError(concat(folder_.string(), " has neither ", kSingleFile, " nor ", kIndexFile,
                             "; check the path of the folder"));
  }
}

void SafetensorsFolder::read_index(const std::filesystem::path& index) {
  const MappedFile text(index);
  if (text.bytes().size() > kMaxHeaderBytes) {
    refuse_file(index, concat("it has ", text.bytes().size(), " bytes, too many for an index"));
  }
  IndexSax sax(index);
  sax.parse({reinterpret_cast<const char*>(text.bytes().data()), text.bytes().size()});
  for (const auto& [name, file] : sax.take()) {
    const SafetensorsReader& shard = files_.try_emplace(file, folder_ / file).first->second;
    if (!shard.contains(name)) {
      refuse_file(index, concat("it says that tensor ", in_quotes(name), " is in ", file,
                                ", where it is not"));
    }
    tensors_.emplace(name, &shard);
  }
}

const SafetensorsReader& SafetensorsFolder::file(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw ConfigError(concat(folder_.string(), " has no tensor ", in_quotes(name),
                             "; check that the folder is of the expected model"));
  }
  return *found->second;
}

}  // namespace fourfold::formats
