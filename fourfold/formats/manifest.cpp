// SPDX-License-Identifier: Apache-2.0
#include "fourfold/formats/manifest.hpp"

#include <charconv>
#include <set>
#include <span>

#include <nlohmann/json.hpp>

#include "fourfold/base/text.hpp"
#include "fourfold/formats/checksum.hpp"
#include "fourfold/formats/read_file.hpp"
#include "fourfold/formats/refuse_file.hpp"

namespace fourfold::formats {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "fourfold checkpoint";
constexpr std::int64_t kVersion = 1;
/// Far above any manifest: a line for each of a million ranks.
constexpr std::int64_t kLargest = std::int64_t{1} << 28;

/// What follows the bytes that the checksum is of.
std::string ending(std::string_view before) {
  return concat(",\n  \"xxh3\": \"", checksum_text(checksum_of(std::as_bytes(std::span(before)))),
                "\"\n}\n");
}

/// Values of one object of the manifest, each of which must be there and of its type.
class Fields {
 public:
  Fields(const Json& json, const std::filesystem::path& path, std::string where)
      : json_(&json), path_(&path), where_(std::move(where)) {
    if (!json.is_object()) refuse_file(path, concat(where_, " is not an object"));
  }

  const Json& at(const char* key) const {
    const auto found = json_->find(key);
    if (found == json_->end()) refuse_file(*path_, concat(where_, " lacks \"", key, "\""));
    return *found;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, "a text");
    return value.get<std::string>();
  }
  /// A whole number that is not negative.
  std::int64_t count(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 62) {
      refuse(key, "a whole number");
    }
    return value.get<std::int64_t>();
  }
  [[noreturn]] void refuse(const char* key, const char* what) const {
    refuse_file(*path_, concat("\"", key, "\" of ", where_, " is not ", what));
  }

 private:
  const Json* json_;
  const std::filesystem::path* path_;
  std::string where_;
};

bool is_plain(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Manifest::File file_of(const Json& json, const std::filesystem::path& path) {
  const Fields fields(json, path, "a file");
  Manifest::File file{.name = fields.text("name"), .bytes = fields.count("bytes")};
  if (!is_plain(file.name)) fields.refuse("name", "the name of a file in the same folder");
  const std::string sum = fields.text("xxh3");
  const auto [end, error] = std::from_chars(sum.data(), sum.data() + sum.size(), file.checksum, 16);
  if (sum.size() != 16 || error != std::errc() || end != sum.data() + sum.size()) {
    fields.refuse("xxh3", "16 hexadecimal digits");
  }
  return file;
}

}  // namespace

std::int64_t Manifest::bytes() const {
  std::int64_t sum = 0;
  for (const File& file : files) sum += file.bytes;
  return sum;
}

std::string to_text(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"version", kVersion},
               {"step", manifest.step},
               {"samples", manifest.samples},
               {"train_units", manifest.train_units},
               {"config", manifest.config}};
  json["files"] = Json::array();
  for (const Manifest::File& file : manifest.files) {
    json["files"].push_back(
        {{"name", file.name}, {"bytes", file.bytes}, {"xxh3", checksum_text(file.checksum)}});
  }
  std::string text = json.dump(2);
  text.resize(text.rfind("\n}"));
  return text + ending(text);
}

Manifest parse_manifest(std::string_view text, const std::filesystem::path& path) {
  const std::size_t end = text.rfind(",\n  \"xxh3\": ");
  const std::string_view before = text.substr(0, end);
  if (end == std::string_view::npos || text.substr(end) != ending(before)) {
    refuse_file(path, "its checksum is wrong: it was changed, or not written to its end");
  }
  const Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) refuse_file(path, "it is not JSON");
  const Fields fields(json, path, "the manifest");
  if (fields.text("format") != kFormat) refuse_file(path, "it is not that of a checkpoint");
  if (fields.count("version") != kVersion) {
    refuse_file(path, concat("it has version ", fields.count("version"),
                             ", and this program reads version ", kVersion));
  }
  Manifest manifest{.step = fields.count("step"),
                    .samples = fields.count("samples"),
                    .train_units = fields.count("train_units"),
                    .config = fields.text("config"),
                    .files = {}};
  const Json& files = fields.at("files");
  if (!files.is_array()) fields.refuse("files", "a list");
  std::set<std::string> names;
  std::int64_t bytes = 0;
  for (const Json& one : files) {
    manifest.files.push_back(file_of(one, path));
    if (!names.insert(manifest.files.back().name).second) {
      refuse_file(path, concat("it names ", in_quotes(manifest.files.back().name), " twice"));
    }
    if (__builtin_add_overflow(bytes, manifest.files.back().bytes, &bytes)) {
      refuse_file(path, "its files have more bytes than a disk can hold");
    }
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const ReadFile file(folder / kManifestFile);
  if (file.size() > kLargest) refuse_file(file.path(), "it is too large");
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return parse_manifest(text, file.path());
}

}  // namespace fourfold::formats
