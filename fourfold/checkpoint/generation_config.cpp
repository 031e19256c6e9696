// SPDX-License-Identifier: Apache-2.0
#include "fourfold/checkpoint/generation_config.hpp"

#include <filesystem>

#include "fourfold/checkpoint/config_file.hpp"

namespace fourfold::checkpoint {

namespace {

constexpr const char* kBegin = "bos_token_id";
constexpr const char* kEnd = "eos_token_id";

}  // namespace

std::string generation_config(std::int64_t begin_of_text, std::int64_t end_of_text) {
  Json json = Json::object();
  if (begin_of_text >= 0) json[kBegin] = begin_of_text;
  if (end_of_text >= 0) json[kEnd] = end_of_text;
  return json.dump(2) + "\n";
}

GenerationTokens read_generation_tokens(const std::string& folder, std::int64_t vocabulary) {
  GenerationTokens tokens;
  for (const char* name : {"generation_config.json", "config.json"}) {
    std::error_code error;
    if (!std::filesystem::exists(folder + "/" + name, error)) continue;
    const ConfigFile file(folder, name);
    const std::vector<std::int64_t> begin = file.tokens(kBegin, vocabulary);
    if (tokens.begin < 0 && !begin.empty()) tokens.begin = begin[0];
    if (tokens.ends.empty()) tokens.ends = file.tokens(kEnd, vocabulary);
  }
  return tokens;
}

}  // namespace fourfold::checkpoint
