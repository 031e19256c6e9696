// SPDX-License-Identifier: Apache-2.0
#include "fourfold/config/keys.hpp"

#include <algorithm>
#include <limits>

#include "fourfold/config/strategy.hpp"

namespace fourfold::config {

namespace {

// These bounds are far above any run, and prevent overflow in products of sizes.
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostUnits = std::int64_t{1} << 20;
constexpr std::int64_t kLongestContext = std::int64_t{1} << 24;
constexpr std::int64_t kMostSequences = std::int64_t{1} << 30;

constexpr std::int64_t kMostMib = std::int64_t{1} << 24;
constexpr Real kGib = {.low = 0, .high = 1e9};
constexpr Real kRate = {.low = 0, .high = 1e12};

constexpr Real kShare = {.low = 0, .high = 1};
constexpr Real kPositive = {.low = 0, .low_too = false};

/// The key "section.name" for the member that the pointers to members lead to. Code in `meaning` is
/// in backticks, as in Markdown.
template <class Rule, class... Members>
Key key(std::string_view full_name, std::string_view meaning, Rule rule, Members... members) {
  const auto dot = full_name.find('.');
  return {.section = std::string(full_name.substr(0, dot)),
          .name = std::string(full_name.substr(dot + 1)),
          .meaning = std::string(meaning),
          .allowed = rule.allowed(),
          .is_path = std::is_same_v<Rule, Path>,
          .assign = [=](Config& config,
                        const Value& value) { return rule.assign((config.*....*members), value); },
          .value = [=](const Config& config) { return rule.value_of((config.*....*members)); }};
}

std::vector<std::string_view> strategy_names() {
  std::vector<std::string_view> names = {kAuto};
  for (const Strategy& strategy : strategies()) names.push_back(strategy.name);
  return names;
}

Key required(Key key) {
  key.required = true;
  return key;
}

Key with_default(std::string_view words, Key key) {
  key.fallback = words;
  return key;
}

// Each entry has the name of a key and its meaning, then its rule and its member.
std::vector<Key> make_keys() {
  constexpr auto model = &Config::model;
  constexpr auto data = &Config::data;
  constexpr auto train = &Config::train;
  constexpr auto optim = &Config::optim;
  constexpr auto parallel = &Config::parallel;
  constexpr auto overlap = &Config::overlap;
  constexpr auto device = &Config::device;
  const Choice<Tokenizer> tokenizers{{Tokenizer::kBpe, Tokenizer::kBytes}};
  const Choice<Precision> precisions{{Precision::kFloat32, Precision::kBf16, Precision::kFloat64}};
  const Choice<Activations> activations{{Activations::kSharded, Activations::kReplicated}};
  return {
      key("model.kind", "the kind of model", Name{{"gpt", "llama"}}, model, &ModelConfig::kind),
      key("model.vocab", "different tokens; 0: the 256 of the tokenizer `bytes`",
          Whole{0, kMostTokens}, model, &ModelConfig::vocab),
      required(key("model.width", "numbers that stand for a token; a multiple of heads",
                   Whole{1, kMostUnits}, model, &ModelConfig::width)),
      required(
          key("model.heads", "of attention", Whole{1, kMostUnits}, model, &ModelConfig::heads)),
      required(key("model.layers", "blocks of attention and a two-layer network",
                   Whole{1, kMostUnits}, model, &ModelConfig::layers)),
      required(key("model.context", "tokens of a sequence", Whole{1, kLongestContext}, model,
                   &ModelConfig::context)),
      key("model.dropout", "of `gpt` only: share of the activations that training sets to zero",
          OfKind<Real, double>{"gpt", kShare, &ModelConfig::dropout}, model),
      key("model.tied",
          "the last layer uses the table of the first; with `llama` the default is false", Flag{},
          model, &ModelConfig::tied),
      with_default("heads", key("model.kv_heads",
                                "of `llama` only: heads of keys and values, which several heads "
                                "share; divides heads",
                                OfKind<Whole, std::int64_t>{"llama", Whole{0, kMostUnits},
                                                            &ModelConfig::kv_heads},
                                model)),
      with_default(
          "8/3 of width",
          key("model.hidden", "of `llama` only: columns between the network's products",
              OfKind<Whole, std::int64_t>{"llama", Whole{0, kMostUnits}, &ModelConfig::hidden},
              model)),
      with_default("10000",
                   key("model.rope_theta", "of `llama` only: base of the rotary wavelengths",
                       OfKind<Real, double>{"llama", Real{1}, &ModelConfig::rope_theta}, model)),
      with_default("[]",
                   key("model.rope_scaling",
                       "of `llama` only: Llama 3's factor, low and high frequency factor, and "
                       "original context",
                       OfKind<RopeScaling, std::vector<double>>{"llama", RopeScaling{},
                                                                &ModelConfig::rope_scaling},
                       model)),
      with_default(
          "1e-05",
          key("model.norm_eps", "of `llama` only: added to the mean square of a row",
              OfKind<Real, double>{"llama", Real{0, false}, &ModelConfig::norm_eps}, model)),

      key("data.text", "a file or a folder of text; files that are not text are left out", Path{},
          data, &DataConfig::text),
      key("data.tokens", "instead of text: a token file of llm.c's format, or a folder of them",
          Path{}, data, &DataConfig::tokens),
      key("data.validation_tokens", "with tokens: a token file for validation", Path{}, data,
          &DataConfig::validation_tokens),
      key("data.tokenizer",
          "`bpe` is learned from the text (SentencePiece); `bytes` needs no learning", tokenizers,
          data, &DataConfig::tokenizer),
      key("data.tokenizer_from", "a tokenizer to use instead: a folder, or a file `tokenizer.json`",
          Path{}, data, &DataConfig::tokenizer_from),
      key("data.validation", "share of the data that is kept for validation", kShare, data,
          &DataConfig::validation),
      key("data.cache",
          "where prepared text is kept; if not given, `$XDG_CACHE_HOME/fourfold` or "
          "`~/.cache/fourfold`",
          Path{}, data, &DataConfig::cache),

      key("train.steps", "steps of the optimizer; the default grows to the warm-up", Whole{1},
          train, &TrainConfig::steps),
      key("train.batch",
          "sequences of a step, over the whole grid; the default grows to a multiple of "
          "micro_batch",
          Whole{1, kMostSequences}, train, &TrainConfig::batch),
      with_default("batch", key("train.micro_batch",
                                "sequences of a forward pass; batch / micro_batch passes add up "
                                "their gradients; the default is batch / pipe with chunks",
                                Whole{0, kMostSequences}, train, &TrainConfig::micro_batch)),
      key("train.precision", "`float32`, `bf16` or `float64`", precisions, train,
          &TrainConfig::precision),
      key("train.seed", "of weights, dropout and the order of the samples",
          Whole{0, std::numeric_limits<std::int64_t>::max()}, train, &TrainConfig::seed),
      key("train.checkpoint_activations",
          "keep only the blocks' inputs and recompute the rest: less memory", Flag{}, train,
          &TrainConfig::checkpoint_activations),
      key("train.validate_every", "steps between validations; 0: only at the end", Whole{0}, train,
          &TrainConfig::validate_every),
      key("train.validate_batches", "micro-batches of a validation", Whole{1}, train,
          &TrainConfig::validate_batches),
      key("train.log_every", "steps between lines, where no terminal shows a live one", Whole{1},
          train, &TrainConfig::log_every),
      key("train.init_from", "a folder with weights to start from: a run's, or GPT-2's own", Path{},
          train, &TrainConfig::init_from),

      key("optim.lr",
          "the largest learning rate, reached after the warm-up; the default grows to min_lr",
          kPositive, optim, &OptimConfig::lr),
      key("optim.min_lr",
          "the rate of the last step, at the end of half a cosine; the default falls to lr", Real{},
          optim, &OptimConfig::min_lr),
      key("optim.betas", "AdamW's memory of the gradient and of its square", RealPair{kShare},
          optim, &OptimConfig::betas),
      key("optim.eps", "AdamW's epsilon", kPositive, optim, &OptimConfig::eps),
      key("optim.weight_decay", "of matrices and embeddings only", Real{}, optim,
          &OptimConfig::weight_decay),
      key("optim.warmup", "steps in which the rate grows to lr; the default falls to the steps",
          Whole{0}, optim, &OptimConfig::warmup),
      key("optim.clip", "largest norm of all gradients together; 0: no clipping", Real{}, optim,
          &OptimConfig::clip),

      key("parallel.strategy",
          "`auto` (the plan's choice, docs/planning.md), `ddp`, `zero1`, `zero2`, `zero3`, `megatron`, `summa2d`, `summa2.5d`, `3d`, `4d` or "
          "`deepspeed3d`: which axes there are, and what is fixed (docs/strategies.md)",
          Name{strategy_names()}, parallel, &ParallelConfig::strategy),
      with_default("chosen", key("parallel.x",
                                 "ranks along x; sizes that are not given are 1, and if none is "
                                 "given, a grid is chosen",
                                 GridSize{&grid::Sizes::x}, parallel)),
      with_default("chosen",
                   key("parallel.y", "ranks along y", GridSize{&grid::Sizes::y}, parallel)),
      with_default("chosen",
                   key("parallel.z", "ranks along z", GridSize{&grid::Sizes::z}, parallel)),
      with_default("chosen", key("parallel.data", "ranks along data", GridSize{&grid::Sizes::data},
                                 parallel)),
      with_default("1",
                   key("parallel.pipe", "stages of a pipeline, with `4d` and `deepspeed3d` only",
                       GridSize{&grid::Sizes::pipe}, parallel)),
      key("parallel.activations", "`sharded` or `replicated`", activations, parallel,
          &ParallelConfig::activations),
      with_default("true",
                   key("parallel.sequence_parallel",
                       "of `megatron` only: true is sharded activations, false replicated ones",
                       SequenceParallel{}, parallel)),
      key("parallel.zero",
          "what ranks along data keep only a part of: 0 nothing, 1 the optimizer's state, 2 "
          "gradients too (not with a pipeline); `ddp`, `zero1`, `zero2` and `deepspeed3d` fix it",
          Whole{0, 2}, parallel, &ParallelConfig::zero),
      key("parallel.chunks",
          "stages of the pipeline that each rank has; with more than 1, batch / micro_batch must "
          "be a multiple of pipe",
          Whole{1, 1 << 20}, parallel, &ParallelConfig::chunks),
      key("parallel.placement", "the order of the axes along the ranks, fastest first", AxisOrder{},
          parallel, &ParallelConfig::placement),

      key("overlap.input_gradients",
          "sums of input gradients behind the weights' product (docs/overlap.md)", Flag{}, overlap,
          &OverlapConfig::input_gradients),
      key("overlap.weight_gradients",
          "sums of weight gradients behind the rest of the backward pass", Flag{}, overlap,
          &OverlapConfig::weight_gradients),
      key("overlap.weights", "weights are gathered ahead of their use", Flag{}, overlap,
          &OverlapConfig::weights),
      key("overlap.keep_weights", "gathered weights are kept for the backward pass", Flag{},
          overlap, &OverlapConfig::keep_weights),
      key("overlap.data",
          "the sum over data behind backward, new weights behind the next forward pass", Flag{},
          overlap, &OverlapConfig::data),
      key("overlap.halves",
          "a rank's samples go in two halves that hide each other's communication", Flag{}, overlap,
          &OverlapConfig::halves),
      key("overlap.panels", "SUMMA's next panels behind the product of the current ones", Flag{},
          overlap, &OverlapConfig::panels),
      key("overlap.window_mib", "MiB of weights ahead of their use, and of gradients under way",
          Whole{1, kMostMib}, overlap, &OverlapConfig::window_mib),
      key("overlap.keep_mib", "MiB of gathered weights that are kept", Whole{0, kMostMib}, overlap,
          &OverlapConfig::keep_mib),
      key("overlap.segment_mib", "MiB that travel along data at once", Whole{1, kMostMib}, overlap,
          &OverlapConfig::segment_mib),

      key("device.gflops",
          "emulates a slower device: GFLOP/s that a rank computes with at most; 0: no limit", kRate,
          device, &DeviceConfig::gflops),
      key("device.gbytes_per_second", "emulates a slower device: GB/s of its memory; 0: no limit",
          kRate, device, &DeviceConfig::gbytes_per_second),
      key("device.memory_gib",
          "what the tensors of a rank may take, in GiB, as a hard limit; 0: its share of what is "
          "free on its host",
          kGib, device, &DeviceConfig::memory_gib),
  };
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> kKeys = make_keys();
  return kKeys;
}

const Key* find_key(std::string_view section, std::string_view name) {
  const auto& all = keys();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Key& key) {
    return key.section == section && key.name == name;
  });
  return found == all.end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
  const auto& all = keys();
  return std::any_of(all.begin(), all.end(), [&](const Key& key) { return key.section == name; });
}

}  // namespace fourfold::config
