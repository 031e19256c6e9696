// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/check.hpp"

#include <initializer_list>
#include <string_view>

#include "fourfold/base/check.hpp"
#include "fourfold/config/keys.hpp"
#include "fourfold/config/strategy.hpp"

namespace fourfold::config {

namespace {

constexpr std::int64_t kBytes = 256;

/// The place of the first of these keys that was given, or the file when none was given.
std::string place_of(const Draft& draft, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = draft.places.find(name);
    if (found != draft.places.end()) return found->second;
  }
  return draft.file;
}

/// "optim.lr = 0.1", and whether it is only the default.
std::string named(const Draft& draft, const std::string& name) {
  const auto dot = name.find('.');
  const Key* key = find_key(name.substr(0, dot), name.substr(dot + 1));
  FOURFOLD_CHECK(key != nullptr, name);
  const auto value = key->value(draft.config);
  FOURFOLD_CHECK(value.has_value(), name);
  return concat(name, " = ", shown(*value), draft.places.contains(name) ? "" : " (the default)");
}

/// Throws unless `right`, with the message: key `a`, `relation`, key `b`.
void relate(const Draft& draft, bool right, const char* a, std::string_view relation,
            const char* b) {
  if (right) return;
  throw ConfigError(
      concat(place_of(draft, {a, b}), ": ", named(draft, a), " ", relation, " ", named(draft, b)));
}

void check_required(const Draft& draft) {
  for (const Key& key : keys()) {
    if (!key.required || draft.places.contains(key.full_name())) continue;
    throw ConfigError(
        concat(draft.file, ": ", key.full_name(), " is missing; it must be ", key.allowed));
  }
}

void check_data(const Draft& draft, bool needs_data) {
  const DataConfig& data = draft.config.data;
  if (needs_data && data.text.empty() && data.tokens.empty()) {
    throw ConfigError(concat(draft.file,
                             ": data.text (a file or folder of text) or data.tokens (a file of "
                             "tokens) must be given"));
  }
  if (!data.text.empty() && !data.tokens.empty()) {
    throw ConfigError(concat(place_of(draft, {"data.tokens"}), ": ", named(draft, "data.tokens"),
                             " and ", named(draft, "data.text"),
                             " cannot both be given; set one of them to \"\""));
  }
  if (!data.validation_tokens.empty() && data.tokens.empty()) {
    throw ConfigError(concat(place_of(draft, {"data.validation_tokens"}), ": ",
                             named(draft, "data.validation_tokens"),
                             " needs data.tokens; for text, data.validation is the share to keep"));
  }
}

/// Only the tokenizer "bytes" determines the number of tokens by itself.
void check_vocab(const Draft& draft) {
  const ModelConfig& model = draft.config.model;
  const DataConfig& data = draft.config.data;
  const bool other = !data.tokenizer_from.empty();
  const bool bytes = data.tokenizer == Tokenizer::kBytes && !other;
  const std::string place = place_of(draft, {"model.vocab"});
  if (model.vocab == 0 && (!bytes || !data.tokens.empty())) {
    const char* from = other ? "data.tokenizer_from" : "data.tokenizer";
    const char* reason = data.tokens.empty() ? from : "data.tokens";
    throw ConfigError(concat(place, ": model.vocab must be given with ", named(draft, reason),
                             ": the number of different tokens, such as 8192"));
  }
  if (bytes && model.vocab > 0 && model.vocab < kBytes) {
    throw ConfigError(concat(place, ": ", named(draft, "model.vocab"), " must be at least ", kBytes,
                             ", or 0, with ", named(draft, "data.tokenizer")));
  }
}

/// Keys that the model's kind does not have.
void check_kind(const Draft& draft) {
  const ModelConfig& model = draft.config.model;
  const bool llama = model.kind == "llama";
  const auto refuse = [&](const char* name) {
    if (!draft.places.contains(name)) return;
    throw ConfigError(concat(place_of(draft, {name}), ": ", name,
                             " is no key of model.kind = ", quote(model.kind)));
  };
  if (llama) {
    refuse("model.dropout");
    relate(draft, model.heads % model.kv_heads == 0, "model.heads", "must be a multiple of",
           "model.kv_heads");
    return;
  }
  for (const char* name : {"model.kv_heads", "model.hidden", "model.rope_theta",
                           "model.rope_scaling", "model.norm_eps"}) {
    refuse(name);
  }
}

void check_grid(const Draft& draft) {
  try {
    grid::Grid(draft.config.parallel.sizes, draft.config.parallel.placement);
    check_sizes(strategy_of(draft.config.parallel.strategy), draft.config.parallel.sizes);
  } catch (const ConfigError& error) {
    const std::string place = place_of(
        draft, {"parallel.x", "parallel.y", "parallel.z", "parallel.data", "parallel.pipe"});
    throw ConfigError(concat(place, ": ", error.what()));
  }
}

}  // namespace

void check(const Draft& draft, bool needs_data) {
  const auto& model = draft.config.model;
  const auto& train = draft.config.train;
  const auto& optim = draft.config.optim;
  check_required(draft);
  relate(draft, model.width % model.heads == 0, "model.width", "must be a multiple of",
         "model.heads");
  check_kind(draft);
  check_data(draft, needs_data);
  check_vocab(draft);
  relate(draft, train.batch % train.micro_batch == 0, "train.batch", "must be a multiple of",
         "train.micro_batch");
  relate(draft, optim.min_lr <= optim.lr, "optim.min_lr", "must be at most", "optim.lr");
  relate(draft, optim.warmup <= train.steps, "optim.warmup", "must be at most", "train.steps");
  check_grid(draft);
}

}  // namespace fourfold::config
