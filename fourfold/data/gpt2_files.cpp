// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/gpt2_files.hpp"

#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

using nlohmann::json;

constexpr std::int64_t kLargestFile = std::int64_t{128} << 20;
constexpr const char* kEndOfTextName = "<|endoftext|>";
constexpr std::string_view kVersionLine = "#version";

json read_json(const std::string& path) {
  const std::string text = read_whole(path, kLargestFile);
  try {
    json parsed = json::parse(text);
    if (!parsed.is_object()) throw ConfigError(path + " is damaged: it is not a JSON object");
    return parsed;
  } catch (const json::exception& error) {
    throw ConfigError(concat(path, " is damaged: ", one_line(error.what())));
  }
}

/// The member, or null when there is none.
const json& member(const json& object, const char* name) {
  static const json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

/// The name of a token in a configuration: "name" or {"content": "name"}.
std::optional<std::string> name_of(const json& token) {
  const json& name = token.is_object() ? member(token, "content") : token;
  if (!name.is_string()) return std::nullopt;
  return name.get<std::string>();
}

/// Collects the tokens and merges of one file and checks them; `path` is for messages.
class Collector {
 public:
  explicit Collector(std::string path) : path_(std::move(path)) {}

  void add_vocabulary(const json& vocabulary) {
    if (!vocabulary.is_object()) fail("it has no vocabulary");
    for (const auto& [symbols, number] : vocabulary.items()) {
      const auto bytes = from_symbols(symbols);
      if (!bytes) fail(concat("token \"", symbols, "\" is not in GPT-2's alphabet of bytes"));
      add(*bytes, number);
    }
  }

  /// Adds tokens such as <|endoftext|>, whose text is written as it is. They may already be in the
  /// vocabulary.
  void add_special(const json& tokens) {
    for (const json& token : tokens) {
      const auto name = name_of(token);
      if (!name || name->empty()) fail("an added token has no content");
      const auto known = numbers_.find(*name);
      if (known == numbers_.end()) {
        add(*name, member(token, "id"));
      } else if (member(token, "id") != known->second) {
        fail(concat("token \"", *name, "\" has two numbers"));
      }
    }
  }

  void add_merge(std::string_view left, std::string_view right) {
    const std::int32_t a = symbols_number(left);
    const std::int32_t b = symbols_number(right);
    const auto result = numbers_.find(*from_symbols(left) + *from_symbols(right));
    if (result == numbers_.end()) {
      fail(concat("the vocabulary lacks \"", left, right, "\", which a merge makes"));
    }
    const std::uint64_t pair = (static_cast<std::uint64_t>(a) << 32U) | static_cast<unsigned>(b);
    if (!pairs_.insert(pair).second)
      fail(concat("merge \"", left, " ", right, "\" is there twice"));
    files_.merges.push_back({a, b, result->second});
  }

  /// Must be called when all tokens are added, before the merges.
  void finish_vocabulary() {
    files_.texts.resize(numbers_.size());
    std::vector<bool> taken(numbers_.size(), false);
    for (const auto& [bytes, number] : numbers_) {
      const auto at = static_cast<std::size_t>(number);
      if (at >= taken.size() || taken[at]) {
        fail(concat("its tokens are not numbered from 0 to ", taken.size() - 1, ", each once"));
      }
      taken[at] = true;
      files_.texts[at] = bytes;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const std::string text(1, static_cast<char>(byte));
      if (!numbers_.contains(text)) fail(concat("the vocabulary lacks byte ", byte));
    }
  }

  /// The token that ends texts: the one that tokenizer_config.json names, else <|endoftext|>.
  void find_end_of_text(const json& config) {
    const auto name = name_of(member(config, "eos_token"));
    auto found = numbers_.find(name.value_or(kEndOfTextName));
    if (name && found == numbers_.end()) {
      const auto bytes = from_symbols(*name);
      if (bytes) found = numbers_.find(*bytes);
      if (found == numbers_.end()) {
        fail(concat("eos_token \"", *name, "\" of tokenizer_config.json is not in the vocabulary"));
      }
    }
    if (found != numbers_.end()) files_.end_of_text = found->second;
  }

  [[noreturn]] void fail(const std::string& why) const {
    constexpr std::size_t kMostShown = 300;  // a damaged token may be as long as its file
    throw ConfigError(concat(path_, " is not a GPT-2 tokenizer's, or is damaged: ",
                             one_line(why.substr(0, kMostShown))));
  }

  Gpt2Files take() { return std::move(files_); }

 private:
  void add(const std::string& bytes, const json& number) {
    const auto value = number.is_number_integer() ? number.get<std::int64_t>() : -1;
    if (value < 0 || value >= kLargestFile) {
      fail(concat("token \"", to_symbols(bytes), "\" has no usable number"));
    }
    if (!numbers_.emplace(bytes, static_cast<std::int32_t>(value)).second) {
      fail(concat("token \"", to_symbols(bytes), "\" is there twice"));
    }
  }

  std::int32_t symbols_number(std::string_view symbols) const {
    const auto bytes = from_symbols(symbols);
    const auto found = bytes ? numbers_.find(*bytes) : numbers_.end();
    if (found == numbers_.end()) {
      fail(concat("a merge names \"", symbols, "\", which is not in the vocabulary"));
    }
    return found->second;
  }

  std::string path_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_set<std::uint64_t> pairs_;
  Gpt2Files files_;
};

/// "left right"; each half has at least one character.
void add_merge_line(Collector& collector, std::string_view line) {
  const auto space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) {
    collector.fail(concat("\"", line, "\" is not a merge of two tokens"));
  }
  collector.add_merge(line.substr(0, space), line.substr(space + 1));
}

json read_config(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json";
  return std::filesystem::exists(path) ? read_json(path) : json::object();
}

/// Only GPT-2's own way to cut words is supported. Other ways would silently give other tokens.
void check_words(const json& parsed, const Collector& collector) {
  const json& words = member(parsed, "pre_tokenizer");
  const bool gpt2 = member(words, "type") == "ByteLevel" && member(words, "use_regex") != false;
  if (!gpt2 || member(words, "add_prefix_space") == true ||
      !member(parsed, "normalizer").is_null()) {
    collector.fail("it cuts text into words in another way than GPT-2");
  }
}

}  // namespace

Gpt2Files read_vocabulary_and_merges(const std::string& folder) {
  const json config = read_config(folder);
  Collector collector(folder + "/vocab.json");
  const json& kind = member(config, "tokenizer_class");
  if (!kind.is_null() && kind != "GPT2Tokenizer" && kind != "GPT2TokenizerFast") {
    collector.fail(concat("tokenizer_config.json says ", kind.dump(-1, ' ', true)));
  }
  collector.add_vocabulary(read_json(folder + "/vocab.json"));
  collector.finish_vocabulary();
  const std::string merges = read_whole(folder + "/merges.txt", kLargestFile);
  bool first = true;
  for (std::string_view line : split(merges, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool version = first && line.starts_with(kVersionLine);
    if (!line.empty() && !version) add_merge_line(collector, line);
    first = false;
  }
  collector.find_end_of_text(config);
  return collector.take();
}

Gpt2Files read_tokenizer_json(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  const json parsed = read_json(path);
  Collector collector(path);
  const json& model = member(parsed, "model");
  if (!member(model, "type").is_null() && member(model, "type") != "BPE") {
    collector.fail("its model is not BPE");
  }
  check_words(parsed, collector);
  collector.add_vocabulary(member(model, "vocab"));
  collector.add_special(member(parsed, "added_tokens"));
  collector.finish_vocabulary();
  const json& merges = member(model, "merges");
  if (!merges.is_array()) collector.fail("it has no list of merges");
  for (const json& merge : merges) {
    if (merge.is_string()) {
      add_merge_line(collector, merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      collector.add_merge(merge[0].get_ref<const std::string&>(),
                          merge[1].get_ref<const std::string&>());
    } else {
      collector.fail("a merge is not a pair of tokens");
    }
  }
  collector.find_end_of_text(read_config(folder));
  return collector.take();
}

void save_gpt2(const Gpt2Files& files, const std::string& folder) {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  const auto symbols = [&](std::int32_t token) {
    return to_symbols(files.texts[static_cast<std::size_t>(token)]);
  };
  for (std::size_t token = 0; token < files.texts.size(); ++token) {
    vocabulary.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        to_symbols(files.texts[token]), token);
  }
  std::string merges(kVersionLine);
  merges += ": 0.2\n";
  for (const Merge& merge : files.merges) {
    merges += concat(symbols(merge.left), " ", symbols(merge.right), "\n");
  }
  nlohmann::ordered_json config = {{"tokenizer_class", "GPT2Tokenizer"},
                                   {"add_prefix_space", false},
                                   {"clean_up_tokenization_spaces", false}};
  if (files.end_of_text >= 0) {
    for (const char* role : {"bos_token", "eos_token", "unk_token"}) {
      config[role] = symbols(files.end_of_text);
    }
  }
  write_text(folder + "/vocab.json", vocabulary.dump() + "\n");
  write_text(folder + "/merges.txt", merges);
  write_text(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace fourfold::data
