// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/gpt2_files.hpp"

#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fourfold/base/file.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/bpe_collector.hpp"
#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/json_file.hpp"
#include "fourfold/data/whole_file.hpp"
#include "fourfold/data/words.hpp"

namespace fourfold::data {

namespace {

using nlohmann::json;

constexpr std::string_view kVersionLine = "#version";

json read_json(const std::string& path) {
  return parse_object(read_whole(path), path);
}

json read_config(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json";
  return std::filesystem::exists(path) ? read_json(path) : json::object();
}

}  // namespace

BpeModel read_vocabulary_and_merges(const std::string& folder) {
  const json config = read_config(folder);
  BpeCollector collector(folder + "/vocab.json", "is not a GPT-2 tokenizer's, or is damaged");
  const json& kind = member(config, "tokenizer_class");
  if (!kind.is_null() && kind != "GPT2Tokenizer" && kind != "GPT2TokenizerFast") {
    collector.fail(concat("tokenizer_config.json says ", shown(kind)));
  }
  collector.add_vocabulary(read_json(folder + "/vocab.json"));
  collector.finish_vocabulary();
  const std::string merges = read_whole(folder + "/merges.txt");
  bool first = true;
  for (std::string_view line : split(merges, '\n')) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const bool version = first && line.starts_with(kVersionLine);
    if (!line.empty() && !version) collector.add_merge_line(line);
    first = false;
  }
  BpeModel& model = collector.model();
  model.end_of_text =
      collector.end_of_text(token_name(member(config, "eos_token")), "tokenizer_config.json");
  model.splits = {kGpt2Words};
  return std::move(model);
}

void save_gpt2(const BpeModel& model, const std::string& folder) {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  const auto symbols = [&](std::int32_t token) {
    return to_symbols(model.texts[static_cast<std::size_t>(token)]);
  };
  for (std::size_t token = 0; token < model.texts.size(); ++token) {
    vocabulary.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        to_symbols(model.texts[token]), token);
  }
  std::string merges(kVersionLine);
  merges += ": 0.2\n";
  for (const Merge& merge : model.merges) {
    merges += concat(symbols(merge.left), " ", symbols(merge.right), "\n");
  }
  nlohmann::ordered_json config = {{"tokenizer_class", "GPT2Tokenizer"},
                                   {"add_prefix_space", false},
                                   {"clean_up_tokenization_spaces", false}};
  if (model.end_of_text >= 0) {
    for (const char* role : {"bos_token", "eos_token", "unk_token"}) {
      config[role] = symbols(model.end_of_text);
    }
  }
  write_text(folder + "/vocab.json", vocabulary.dump() + "\n");
  write_text(folder + "/merges.txt", merges);
  write_text(folder + "/tokenizer_config.json", config.dump(2) + "\n");
}

}  // namespace fourfold::data
