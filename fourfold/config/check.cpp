// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/check.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/config/keys.hpp"
#include "fourfold/config/strategy.hpp"

namespace fourfold::config {

namespace {

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
  const ModelConfig& model = draft.config.model;
  for (const Key& key : keys()) {
    const std::string name = key.full_name();
    // A U-Net has a default of its own for the number of heads.
    const bool required = key.required || (name == "model.heads" && model.heads == 0);
    if (!required || !key.is_of(model.kind) || draft.places.contains(name)) continue;
    throw ConfigError(concat(draft.file, ": ", name, " is missing; it must be ", key.allowed));
  }
}

/// Keys that the model's kind does not have.
void check_kind(const Draft& draft) {
  const ModelConfig& model = draft.config.model;
  for (const Key& key : keys()) {
    const std::string name = key.full_name();
    if (key.is_of(model.kind) || !draft.places.contains(name)) continue;
    const char* hint = "";
    if (key.section == "data") {
      hint = model.has_images() ? ", whose data is data.images"
                                : ", whose data is data.text or data.tokens";
    }
    throw ConfigError(concat(draft.places.at(name), ": ", name,
                             " is no key of model.kind = ", quote(model.kind), hint));
  }
}

void check_tokens(const Draft& draft) {
  const ModelConfig& model = draft.config.model;
  relate(draft, model.width % model.heads == 0, "model.width", "must be a multiple of",
         "model.heads");
  if (model.kind != "llama") return;
  relate(draft, model.heads % model.kv_heads == 0, "model.heads", "must be a multiple of",
         "model.kv_heads");
}

/// The sizes of the images at the levels of a U-Net. It has fewer of them than levels when the last
/// one cannot be halved.
std::vector<std::int64_t> level_sizes(const ModelConfig& model) {
  std::vector<std::int64_t> sizes = {model.image};
  while (sizes.size() < model.multipliers.size() && sizes.back() % 2 == 0) {
    sizes.push_back(sizes.back() / 2);
  }
  return sizes;
}

void check_images(const Draft& draft) {
  const ModelConfig& model = draft.config.model;
  const std::vector<std::int64_t> sizes = level_sizes(model);
  if (const std::size_t levels = model.multipliers.size(); sizes.size() < levels) {
    throw ConfigError(concat(place_of(draft, {"model.multipliers", "model.image"}), ": ",
                             named(draft, "model.image"), " cannot be halved ", levels - 1,
                             " times, as ", named(draft, "model.multipliers"),
                             " asks for: each of ", "its numbers but the first halves the image"));
  }
  for (const std::int64_t size : model.attention) {
    if (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) continue;
    std::string names;
    for (const std::int64_t s : sizes) names += concat(names.empty() ? "" : ", ", s);
    throw ConfigError(concat(place_of(draft, {"model.attention"}), ": ",
                             named(draft, "model.attention"), " has ", size,
                             ", but the sizes of the images at the levels are ", names));
  }
}

void check_data(const Draft& draft, bool needs_data) {
  const DataConfig& data = draft.config.data;
  if (draft.config.model.has_images()) {
    if (!needs_data || !data.images.empty()) return;
    throw ConfigError(concat(draft.file,
                             ": data.images (a file of images in the format IDX, or a folder of "
                             "PNG files) must be given"));
  }
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
  if (bytes && model.vocab > 0 && model.vocab < kByteTokens) {
    throw ConfigError(concat(place, ": ", named(draft, "model.vocab"), " must be at least ",
                             kByteTokens, ", or 0, with ", named(draft, "data.tokenizer")));
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

/// A slower device is emulated by the processor.
void check_device(const Draft& draft) {
  const DeviceConfig& device = draft.config.device;
  if (device.kind == DeviceKind::kCpu) return;
  for (const char* key : {"device.gflops", "device.gbytes_per_second"}) {
    const bool set =
        std::string_view(key) == "device.gflops" ? device.gflops > 0 : device.gbytes_per_second > 0;
    if (!set) continue;
    throw ConfigError(concat(place_of(draft, {key, "device.kind"}), ": ", named(draft, key),
                             " emulates a slower device on the processor, and does not go with ",
                             named(draft, "device.kind")));
  }
}

}  // namespace

void check(const Draft& draft, bool needs_data) {
  const auto& model = draft.config.model;
  const auto& train = draft.config.train;
  const auto& optim = draft.config.optim;
  check_kind(draft);
  check_required(draft);
  check_data(draft, needs_data);
  if (model.has_images()) {
    check_images(draft);
  } else {
    check_tokens(draft);
    check_vocab(draft);
  }
  relate(draft, train.batch % train.micro_batch == 0, "train.batch", "must be a multiple of",
         "train.micro_batch");
  relate(draft, optim.min_lr <= optim.lr, "optim.min_lr", "must be at most", "optim.lr");
  relate(draft, optim.warmup <= train.steps, "optim.warmup", "must be at most", "train.steps");
  check_grid(draft);
  check_device(draft);
}

}  // namespace fourfold::config
