// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/tokenizer_json.hpp"

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/bpe_collector.hpp"
#include "fourfold/data/bpe_tokenizer.hpp"
#include "fourfold/data/json_file.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

using nlohmann::json;

constexpr std::int64_t kLargestConfig = std::int64_t{16} << 20;
constexpr std::size_t kMostPatterns = 16;
constexpr std::size_t kMostAddedBytes = std::size_t{1} << 20;  // of the texts of all added tokens

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), collector_(path, "is not a byte-level BPE's, or is damaged") {}

  BpeModel read(const json& file) {
    const json& model = member(file, "model");
    check_model(model);
    expect(member(file, "normalizer"), "normalizer", nullptr);
    expect(member(member(file, "decoder"), "type"), "decoder.type", "ByteLevel");
    read_words(member(file, "pre_tokenizer"));
    read_added(member(file, "added_tokens"));
    collector_.add_vocabulary(member(model, "vocab"));
    collector_.finish_vocabulary();
    read_merges(member(model, "merges"));
    collector_.model().whole_words = flag(model, "model", "ignore_merges", false);
    read_begin(member(file, "post_processor"));
    return std::move(collector_.model());
  }

  BpeCollector& collector() { return collector_; }

 private:
  [[noreturn]] void refuse(const std::string& key, const json& value,
                           const std::string& supported) const {
    throw ConfigError(concat(path_, ": ", key, value.is_null() ? " is missing" : " = ",
                             value.is_null() ? "" : shown(value), ", but only ", supported,
                             " is supported"));
  }

  void expect(const json& value, const std::string& key, const json& expected) const {
    if (value != expected) refuse(key, value, expected.dump());
  }

  /// A member that may be left out.
  bool flag(const json& object, const std::string& parent, const char* name, bool otherwise) const {
    const json& value = member(object, name);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) refuse(parent + "." + name, value, "true or false");
    return value.get<bool>();
  }

  void check_model(const json& model) const {
    const json& type = member(model, "type");
    // Old files have no type. Their merges say that they are of a BPE.
    const bool old = type.is_null() && member(model, "merges").is_array();
    if (type != "BPE" && !old) refuse("model.type", type, "byte-level BPE");
    const auto empty = [&](const char* name, const json& nothing) {
      const json& value = member(model, name);
      if (!value.is_null() && value != nothing) {
        refuse(concat("model.", name), value, nothing.dump() + " or null");
      }
    };
    empty("dropout", 0.0);
    empty("continuing_subword_prefix", "");
    empty("end_of_word_suffix", "");
    // An unknown token never occurs, since every byte is a token; so model.unk_token has no effect.
    if (flag(model, "model", "byte_fallback", false)) {
      refuse("model.byte_fallback", true, "false");
    }
  }

  /// pre_tokenizer: ByteLevel, or a Sequence of Splits and a ByteLevel.
  void read_words(const json& words) {
    const json& type = member(words, "type");
    if (type == "ByteLevel") return read_byte_level(words, "pre_tokenizer");
    const json& steps = member(words, "pretokenizers");
    if (type != "Sequence") {
      refuse("pre_tokenizer.type", type, "\"ByteLevel\" or a \"Sequence\" that ends with it");
    }
    if (!steps.is_array() || steps.empty() || steps.size() > kMostPatterns) {
      refuse("pre_tokenizer.pretokenizers", steps, concat("a list of 1 to ", kMostPatterns));
    }
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      read_split(steps[i], concat("pre_tokenizer.pretokenizers[", i, "]"));
    }
    read_byte_level(steps.back(), concat("pre_tokenizer.pretokenizers[", steps.size() - 1, "]"));
  }

  void read_byte_level(const json& step, const std::string& key) {
    BpeModel& model = collector_.model();
    expect(member(step, "type"), key + ".type", "ByteLevel");
    const json& space = member(step, "add_prefix_space");
    if (!space.is_boolean()) refuse(key + ".add_prefix_space", space, "true or false");
    // Behind a Split it would put a space before every word.
    if (space == true && !model.splits.empty()) refuse(key + ".add_prefix_space", space, "false");
    model.space_before = space.get<bool>();
    if (flag(step, key, "use_regex", true)) model.splits.emplace_back(kGpt2Words);
  }

  void read_split(const json& step, const std::string& key) {
    expect(member(step, "type"), key + ".type", "Split");
    expect(member(step, "behavior"), key + ".behavior", "Isolated");
    if (flag(step, key, "invert", false)) refuse(key + ".invert", true, "false");
    const json& pattern = member(member(step, "pattern"), "Regex");
    if (!pattern.is_string()) refuse(key + ".pattern.Regex", pattern, "a regular expression");
    try {
      const WordCutter cutter({pattern.get<std::string>()});
    } catch (const ConfigError& error) {
      throw ConfigError(concat(path_, ": ", key, ".pattern.Regex = ", shown(pattern),
                               " cannot be used: ", one_line(error.what())));
    }
    collector_.model().splits.push_back(pattern.get<std::string>());
  }

  void read_added(const json& tokens) {
    if (!tokens.is_null() && !tokens.is_array()) refuse("added_tokens", tokens, "a list");
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string key = concat("added_tokens[", i, "]");
      const auto content = token_name(tokens[i]);
      if (!content || content->empty()) collector_.fail(key + " has no content");
      // These would lose white space, or need another definition of a word.
      for (const char* name : {"lstrip", "rstrip", "single_word"}) {
        if (flag(tokens[i], key, name, false)) refuse(concat(key, ".", name), true, "false");
      }
      bytes += content->size();
      if (bytes > kMostAddedBytes) {
        collector_.fail(concat("the added tokens have more than ", kMostAddedBytes, " bytes"));
      }
      // Normalized tokens are looked for in the normalized text, after the others.
      const bool special = flag(tokens[i], key, "special", false);
      const bool late = flag(tokens[i], key, "normalized", !special);
      collector_.add_added(*content, member(tokens[i], "id"), late);
    }
  }

  void read_merges(const json& merges) {
    if (!merges.is_array()) collector_.fail("it has no list of merges");
    collector_.reserve_merges(merges.size());
    for (const json& merge : merges) {
      if (merge.is_string()) {
        collector_.add_merge_line(merge.get_ref<const std::string&>());
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        collector_.add_merge(merge[0].get_ref<const std::string&>(),
                             merge[1].get_ref<const std::string&>());
      } else {
        collector_.fail("a merge is not a pair of tokens");
      }
    }
  }

  /// The token that a TemplateProcessing, alone or in a Sequence, puts before a text. Nothing else
  /// of the post_processor matters: it is not applied to text.
  void read_begin(const json& processor) {
    const json& type = member(processor, "type");
    if (type == "Sequence") {
      const json& steps = member(processor, "processors");
      if (!steps.is_array()) return;
      for (const json& step : steps) {
        if (member(step, "type") == "TemplateProcessing") return read_template(step);
      }
    }
    if (type == "TemplateProcessing") read_template(processor);
  }

  void read_template(const json& processor) {
    const json& single = member(processor, "single");
    if (!single.is_array() || single.empty()) return;
    const json& name = member(member(single[0], "SpecialToken"), "id");
    if (!name.is_string()) return;
    const std::string key = "post_processor.special_tokens";
    const json& token =
        member(member(processor, "special_tokens"), name.get_ref<const std::string&>().c_str());
    const json& ids = member(token, "ids");
    const auto vocabulary = static_cast<std::int64_t>(collector_.model().texts.size());
    const bool one = ids.is_array() && ids.size() == 1 && ids[0].is_number_integer();
    const std::int64_t id = one ? ids[0].get<std::int64_t>() : -1;
    if (id < 0 || id >= vocabulary) {
      collector_.fail(concat(key, ": ", shown(name), " is not one token of the vocabulary"));
    }
    collector_.model().begin_of_text = static_cast<std::int32_t>(id);
  }

  std::string path_;
  BpeCollector collector_;
};

/// Reads a file beside tokenizer.json, if it exists, and keeps it for saving.
json read_beside(const std::string& folder, const char* name, std::vector<StoredFile>& files) {
  const std::string path = folder + name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return json::object();
  files.push_back({name, read_whole(path, kLargestConfig)});
  return parse_object(files.back().content, path);
}

/// For transformers, which needs to know that tokenizer.json says everything.
std::string usual_config(const BpeModel& model) {
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"clean_up_tokenization_spaces", false}};
  const auto name = [&](const char* role, std::int32_t token) {
    if (token >= 0) config[role] = model.texts[static_cast<std::size_t>(token)];
  };
  name("bos_token", model.begin_of_text);
  name("eos_token", model.end_of_text);
  return config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

bool may_be_byte_level(const std::string& path) {
  json file;
  try {
    file = parse_object(read_whole(path), path);
  } catch (const ConfigError&) {
    return true;
  }
  const json& model = member(member(file, "model"), "type");
  const json& decoder = member(member(file, "decoder"), "type");
  return (model.is_null() || model == "BPE") && decoder == "ByteLevel";
}

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::string& path) {
  std::vector<StoredFile> files = {{kTokenizerJson, read_whole(path)}};
  Reader reader(path);
  BpeModel model = reader.read(parse_object(files[0].content, path));
  const std::string file_name = std::filesystem::path(path).filename();
  const std::string folder = path.substr(0, path.size() - file_name.size());
  const json config = read_beside(folder, kTokenizerConfig, files);
  const bool has_config = files.size() == 2;
  const json special = read_beside(folder, kSpecialTokens, files);
  auto end = token_name(member(config, "eos_token"));
  const char* named_by = end ? kTokenizerConfig : kSpecialTokens;
  if (!end) end = token_name(member(special, "eos_token"));
  model.end_of_text = reader.collector().end_of_text(end, named_by);
  if (!has_config) files.push_back({kTokenizerConfig, usual_config(model)});
  return std::make_unique<BpeTokenizer>(std::move(model), std::move(files));
}

}  // namespace fourfold::data
