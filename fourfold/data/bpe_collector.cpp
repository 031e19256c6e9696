// SPDX-License-Identifier: Apache-2.0
#include "fourfold/data/bpe_collector.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/data/byte_symbols.hpp"
#include "fourfold/data/json_file.hpp"
#include "fourfold/data/whole_file.hpp"

namespace fourfold::data {

namespace {

using nlohmann::json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 27;  // more than fit into a file

/// GPT-2's and Llama 3's.
constexpr const char* kEndsOfText[] = {"<|endoftext|>", "<|end_of_text|>"};

}  // namespace

void BpeCollector::fail(const std::string& why) const {
  constexpr std::size_t kMostShown = 300;  // a damaged token may be as long as its file
  throw ConfigError(concat(path_, " ", suspicion_, ": ", one_line(why.substr(0, kMostShown))));
}

std::int32_t BpeCollector::usable(const std::string& name, const json& number) const {
  const auto value = number.is_number_integer() ? number.get<std::int64_t>() : -1;
  if (value < 0 || value >= kMostTokens) fail(concat("token \"", name, "\" has no usable number"));
  return static_cast<std::int32_t>(value);
}

void BpeCollector::add_added(const std::string& content, const json& number, bool late) {
  const Added added{.number = usable(content, number), .learned = false, .late = late};
  if (!added_.emplace(content, added).second) {
    fail(concat("added token \"", content, "\" is there twice"));
  }
}

void BpeCollector::add_vocabulary(const json& vocabulary) {
  if (!vocabulary.is_object()) fail("it has no vocabulary");
  learned_.reserve(vocabulary.size());
  for (const auto& [symbols, number] : vocabulary.items()) {
    const auto bytes = from_symbols(symbols);
    const std::int32_t value = usable(symbols, number);
    const auto added = added_.find(symbols);
    if (added != added_.end()) {
      if (added->second.number != value) fail(concat("token \"", symbols, "\" has two numbers"));
      // The added token stands for its content, the learned one for the bytes behind its symbols.
      if (bytes && *bytes != symbols) {
        fail(concat("added token \"", symbols, "\" stands for other bytes in the vocabulary"));
      }
      added->second.learned = bytes.has_value();
      if (!bytes) continue;  // no word has this text
    }
    if (!bytes) fail(concat("token \"", symbols, "\" is not in GPT-2's alphabet of bytes"));
    learned_.emplace(*bytes, value);
  }
}

void BpeCollector::place(std::int32_t number, const std::string& text, std::vector<bool>& taken) {
  const auto at = static_cast<std::size_t>(number);
  if (at >= taken.size() || taken[at]) {
    fail(concat("its tokens are not numbered from 0 to ", taken.size() - 1, ", each once"));
  }
  taken[at] = true;
  model_.texts[at] = text;
}

void BpeCollector::finish_vocabulary() {
  std::size_t tokens = learned_.size();
  for (const auto& [content, added] : added_) tokens += added.learned ? 0 : 1;
  model_.texts.resize(tokens);
  std::vector<bool> taken(tokens, false);
  for (const auto& [bytes, number] : learned_) place(number, bytes, taken);
  for (const auto& [content, added] : added_) {
    if (!added.learned) place(added.number, content, taken);
    model_.added.push_back({added.number, added.learned, added.late});
  }
  std::sort(model_.added.begin(), model_.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.token < b.token; });
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(1, static_cast<char>(byte));
    if (!learned_.contains(text)) fail(concat("the vocabulary lacks byte ", byte));
  }
}

std::int32_t BpeCollector::learned_number(const std::optional<std::string>& bytes,
                                          std::string_view symbols) const {
  const auto found = bytes ? learned_.find(*bytes) : learned_.end();
  if (found == learned_.end()) {
    fail(concat("a merge names \"", symbols, "\", which is not in the vocabulary"));
  }
  return found->second;
}

void BpeCollector::add_merge(std::string_view left, std::string_view right) {
  const auto left_bytes = from_symbols(left);
  const auto right_bytes = from_symbols(right);
  const std::int32_t a = learned_number(left_bytes, left);
  const std::int32_t b = learned_number(right_bytes, right);
  const auto result = learned_.find(*left_bytes + *right_bytes);
  if (result == learned_.end()) {
    fail(concat("the vocabulary lacks \"", left, right, "\", which a merge makes"));
  }
  const std::uint64_t pair = (static_cast<std::uint64_t>(a) << 32U) | static_cast<unsigned>(b);
  if (!pairs_.insert(pair).second) fail(concat("merge \"", left, " ", right, "\" is there twice"));
  model_.merges.push_back({a, b, result->second});
}

void BpeCollector::add_merge_line(std::string_view line) {
  const auto space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size()) {
    fail(concat("\"", line, "\" is not a merge of two tokens"));
  }
  add_merge(line.substr(0, space), line.substr(space + 1));
}

std::optional<std::int32_t> BpeCollector::find(const std::string& name) const {
  if (const auto found = added_.find(name); found != added_.end()) return found->second.number;
  if (const auto found = learned_.find(name); found != learned_.end()) return found->second;
  const auto bytes = from_symbols(name);
  const auto found = bytes ? learned_.find(*bytes) : learned_.end();
  return found == learned_.end() ? std::nullopt : std::optional(found->second);
}

std::int32_t BpeCollector::end_of_text(const std::optional<std::string>& name,
                                       const std::string& config_name) const {
  if (name) {
    const auto found = find(*name);
    if (!found) {
      fail(concat("eos_token \"", *name, "\" of ", config_name, " is not in the vocabulary"));
    }
    return *found;
  }
  for (const char* usual : kEndsOfText) {
    if (const auto found = find(usual)) return *found;
  }
  return -1;
}

std::optional<std::string> token_name(const json& token) {
  const json& name = token.is_object() ? member(token, "content") : token;
  if (!name.is_string()) return std::nullopt;
  return name.get<std::string>();
}

}  // namespace fourfold::data
