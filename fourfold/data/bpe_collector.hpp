// Collects the tokens and merges of a byte-level BPE from files, and checks them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "fourfold/data/bpe_model.hpp"

namespace fourfold::data {

/// Everything throws ConfigError when the files are damaged. The vocabulary and the added tokens
/// come first, then finish_vocabulary(), then the rest.
class BpeCollector {
 public:
  /// `path` and `suspicion` ("is damaged") begin the messages.
  BpeCollector(std::string path, std::string suspicion)
      : path_(std::move(path)), suspicion_(std::move(suspicion)) {}

  /// Adds an added token. Must be called before add_vocabulary, which may contain the token again.
  void add_added(const std::string& content, const nlohmann::json& number, bool late);

  /// Adds an object of tokens, in GPT-2's alphabet of bytes, and their numbers.
  void add_vocabulary(const nlohmann::json& vocabulary);

  void finish_vocabulary();

  /// Makes space for so many.
  void reserve_merges(std::size_t merges) {
    model_.merges.reserve(merges);
    pairs_.reserve(merges);
  }

  /// Both halves are in GPT-2's alphabet of bytes.
  void add_merge(std::string_view left, std::string_view right);

  /// Adds "left right".
  void add_merge_line(std::string_view line);

  /// The number of a token by its content, as configurations name it.
  std::optional<std::int32_t> find(const std::string& name) const;

  /// The token that ends texts: the one that a configuration names, else the first of the usual
  /// names that is a token, else -1. `config_name` is for messages.
  std::int32_t end_of_text(const std::optional<std::string>& name,
                           const std::string& config_name) const;

  [[noreturn]] void fail(const std::string& why) const;

  BpeModel& model() { return model_; }

 private:
  struct Added {
    std::int32_t number = 0;
    bool learned = false;
    bool late = false;
  };

  std::int32_t usable(const std::string& name, const nlohmann::json& number) const;
  std::int32_t learned_number(const std::optional<std::string>& bytes,
                              std::string_view symbols) const;
  void place(std::int32_t number, const std::string& text, std::vector<bool>& taken);

  std::string path_;
  std::string suspicion_;
  std::unordered_map<std::string, std::int32_t> learned_;  // by bytes
  std::unordered_map<std::string, Added> added_;           // by content
  std::unordered_set<std::uint64_t> pairs_;
  BpeModel model_;
};

/// The name of a token in a configuration: "name" or {"content": "name"}.
std::optional<std::string> token_name(const nlohmann::json& token);

}  // namespace fourfold::data
