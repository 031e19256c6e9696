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

constexpr std::int64_t kMostPixels = std::int64_t{1} << 14;
constexpr std::int64_t kMostMultiplier = 1024;
constexpr std::int64_t kMostBlocks = 1024;
constexpr std::int64_t kMostNoiseSteps = 1000000;

constexpr std::int64_t kMostMib = std::int64_t{1} << 24;
constexpr Real kGib = {.low = 0, .high = 1e9};
constexpr Real kMinutes = {.low = 0, .high = 1e6};
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

/// A key that only some kinds of models have. It is only written for these kinds.
Key of_kinds(std::vector<std::string_view> kinds, Key key) {
  key.kinds = std::move(kinds);
  key.value = [kinds = key.kinds, value = key.value](const Config& config) {
    const bool has = std::find(kinds.begin(), kinds.end(), config.model.kind) != kinds.end();
    return has ? value(config) : std::nullopt;
  };
  return key;
}
Key of_tokens(Key key) {
  return of_kinds({"gpt", "llama"}, std::move(key));
}
Key of_llama(Key key) {
  return of_kinds({"llama"}, std::move(key));
}
Key of_unet(Key key) {
  return of_kinds({"unet"}, std::move(key));
}

/// The keys of a model. Each entry has the name of a key and its meaning, then its rule and its
/// member.
std::vector<Key> model_keys() {
  constexpr auto model = &Config::model;
  const Choice<NoiseSchedule> schedules{{NoiseSchedule::kCosine, NoiseSchedule::kLinear}};
  return {
      key("model.kind", "the kind of model", Name{{"gpt", "llama", "unet"}}, model,
          &ModelConfig::kind),
      of_tokens(key("model.vocab", "different tokens; 0: the 256 of the tokenizer `bytes`",
                    Whole{0, kMostTokens}, model, &ModelConfig::vocab)),
      of_tokens(required(key("model.width", "numbers that stand for a token; a multiple of heads",
                             Whole{1, kMostUnits}, model, &ModelConfig::width))),
      with_default("required; `unet`: 4", key("model.heads", "of attention", Whole{1, kMostUnits},
                                              model, &ModelConfig::heads)),
      of_tokens(required(key("model.layers", "blocks of attention and a two-layer network",
                             Whole{1, kMostUnits}, model, &ModelConfig::layers))),
      of_tokens(required(key("model.context", "tokens of a sequence", Whole{1, kLongestContext},
                             model, &ModelConfig::context))),
      of_kinds({"gpt", "unet"},
               key("model.dropout",
                   "of `gpt` and `unet`: share of the activations that training sets to zero",
                   kShare, model, &ModelConfig::dropout)),
      of_tokens(key("model.tied",
                    "the last layer uses the table of the first; with `llama` the default is false",
                    Flag{}, model, &ModelConfig::tied)),
      of_llama(with_default("heads", key("model.kv_heads",
                                         "of `llama`: heads of keys and values, which several "
                                         "heads share; divides heads",
                                         Whole{0, kMostUnits}, model, &ModelConfig::kv_heads))),
      of_llama(with_default(
          "8/3 of width", key("model.hidden", "of `llama`: columns between the network's products",
                              Whole{0, kMostUnits}, model, &ModelConfig::hidden))),
      of_llama(key("model.rope_theta", "of `llama`: base of the rotary wavelengths", Real{1}, model,
                   &ModelConfig::rope_theta)),
      of_llama(key("model.rope_scaling",
                   "of `llama`: Llama 3's factor, low and high frequency factor, and original "
                   "context",
                   RopeScaling{}, model, &ModelConfig::rope_scaling)),
      of_llama(key("model.norm_eps", "of `llama`: added to the mean square of a row",
                   Real{0, false}, model, &ModelConfig::norm_eps)),
      of_unet(required(key("model.image", "of `unet`: pixels along each side of an image",
                           Whole{1, kMostPixels}, model, &ModelConfig::image))),
      of_unet(key("model.colours", "of `unet`: 1 for grey images, 3 for RGB", OneOf{{1, 3}}, model,
                  &ModelConfig::colours)),
      of_unet(required(key("model.channels", "of `unet`: channels of the first level",
                           Whole{1, kMostUnits}, model, &ModelConfig::channels))),
      of_unet(key("model.multipliers",
                  "of `unet`: for each level, its channels as a multiple of `channels`; each level "
                  "halves the image",
                  WholeList{Whole{1, kMostMultiplier}, 1, "[1, 2, 2, 2]"}, model,
                  &ModelConfig::multipliers)),
      of_unet(key("model.blocks", "of `unet`: residual blocks of a level, on the way down",
                  Whole{1, kMostBlocks}, model, &ModelConfig::blocks)),
      of_unet(with_default("16 and 8", key("model.attention",
                                           "of `unet`: the sizes of the images at the levels that "
                                           "have attention",
                                           WholeList{Whole{1, kMostPixels}, 0, "[16, 8]"}, model,
                                           &ModelConfig::attention))),
      of_unet(key("model.groups", "of `unet`: groups of channels in every norm",
                  Whole{1, kMostUnits}, model, &ModelConfig::groups)),
      of_unet(key("model.learn_sigma",
                  "of `unet`: twice as many outputs, for the variance of the noise; for dry runs "
                  "and plans",
                  Flag{}, model, &ModelConfig::learn_sigma)),
      of_unet(key("model.noise", "of `unet`: how the noise grows, `cosine` or `linear`", schedules,
                  model, &ModelConfig::noise)),
      of_unet(key("model.noise_steps", "of `unet`: steps from an image to noise",
                  Whole{2, kMostNoiseSteps}, model, &ModelConfig::noise_steps)),
  };
}

std::vector<Key> data_keys() {
  constexpr auto data = &Config::data;
  const Choice<Tokenizer> tokenizers{{Tokenizer::kBpe, Tokenizer::kBytes}};
  return {
      of_tokens(key("data.text", "a file or a folder of text; files that are not text are left out",
                    Path{}, data, &DataConfig::text)),
      of_tokens(key("data.tokens",
                    "instead of text: a token file of llm.c's format, or a folder of them", Path{},
                    data, &DataConfig::tokens)),
      of_tokens(key("data.validation_tokens", "with tokens: a token file for validation", Path{},
                    data, &DataConfig::validation_tokens)),
      of_tokens(key("data.tokenizer",
                    "`bpe` is learned from the text (SentencePiece); `bytes` needs no learning",
                    tokenizers, data, &DataConfig::tokenizer)),
      of_tokens(key("data.tokenizer_from",
                    "a tokenizer to use instead: a folder, or a file `tokenizer.json`", Path{},
                    data, &DataConfig::tokenizer_from)),
      of_unet(
          key("data.images",
              "of `unet`: a file of images in the format IDX (also in gzip), or a folder of PNG "
              "files, which are brought to the model's size and colours",
              Path{}, data, &DataConfig::images)),
      of_unet(key("data.flip", "of `unet`: training mirrors half of the images", Flag{}, data,
                  &DataConfig::flip)),
      key("data.validation", "share of the data that is kept for validation", kShare, data,
          &DataConfig::validation),
      of_tokens(key("data.cache",
                    "where prepared text is kept; if not given, `$XDG_CACHE_HOME/fourfold` or "
                    "`~/.cache/fourfold`",
                    Path{}, data, &DataConfig::cache)),
  };
}

std::vector<Key> training_keys() {
  constexpr auto train = &Config::train;
  constexpr auto optim = &Config::optim;
  const Choice<Precision> precisions{{Precision::kFloat32, Precision::kBf16, Precision::kFloat64}};
  const Choice<OnBadStep> bad_steps{{OnBadStep::kStop, OnBadStep::kSkip}};
  return {
      key("train.steps", "steps of the optimizer; the default grows to the warm-up", Whole{1},
          train, &TrainConfig::steps),
      key("train.batch",
          "samples (sequences or images) of a step, over the whole grid; the default grows to a "
          "multiple of "
          "micro_batch",
          Whole{1, kMostSequences}, train, &TrainConfig::batch),
      with_default("batch", key("train.micro_batch",
                                "samples of a forward pass; batch / micro_batch passes add up "
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
      key("train.ema",
          "a mean of the weights over the last steps, for sampling: its largest decay, such as "
          "0.995; 0: none",
          kShare, train, &TrainConfig::ema),
      key("train.compare_every",
          "steps after which ranks that must have the same weights compare them; 0: never",
          Whole{0}, train, &TrainConfig::compare_every),
      key("train.on_bad_step",
          "when a loss or gradient is not finite: `stop`, or `skip` the update of that step",
          bad_steps, train, &TrainConfig::on_bad_step),
      of_unet(key("train.draw_every",
                  "of `unet`: steps between pictures that the model draws; 0: none", Whole{0},
                  train, &TrainConfig::draw_every)),

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
  };
}

std::vector<Key> checkpoint_keys() {
  constexpr auto checkpoint = &Config::checkpoint;
  return {
      key("checkpoint.every", "steps between checkpoints; 0: by time", Whole{0}, checkpoint,
          &CheckpointConfig::every),
      key("checkpoint.minutes", "minutes between checkpoints where `every` is 0; 0: none by time",
          kMinutes, checkpoint, &CheckpointConfig::minutes),
      key("checkpoint.keep", "checkpoints that stay: the newest", Whole{1}, checkpoint,
          &CheckpointConfig::keep),
      key("checkpoint.keep_every", "those of every so many steps stay, too; 0: no others", Whole{0},
          checkpoint, &CheckpointConfig::keep_every),
      key("checkpoint.staging_mib",
          "MiB of a rank's state that may wait for the disk while training goes on; what is more "
          "holds training up",
          Whole{1, kMostMib}, checkpoint, &CheckpointConfig::staging_mib),
  };
}

std::vector<Key> parallel_keys() {
  constexpr auto parallel = &Config::parallel;
  const Choice<Activations> activations{{Activations::kSharded, Activations::kReplicated}};
  return {
      key("parallel.strategy",
          "`auto` (the plan's choice, docs/planning.md), `ddp`, `zero1`, `zero2`, `zero3`, "
          "`megatron`, `summa2d`, `summa2.5d`, `3d`, `4d` or "
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
  };
}

std::vector<Key> machine_keys() {
  constexpr auto overlap = &Config::overlap;
  constexpr auto device = &Config::device;
  const Choice<DeviceKind> kinds{{DeviceKind::kCpu, DeviceKind::kCuda}};
  const Choice<Bf16Sums> sums{{Bf16Sums::kExact, Bf16Sums::kNccl}};
  return {
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

      key("device.kind", "what a rank computes with: `cpu`, or `cuda` for a GPU (docs/gpu.md)",
          kinds, device, &DeviceConfig::kind),
      key("device.gflops",
          "emulates a slower device: GFLOP/s that a rank computes with at most; 0: no limit", kRate,
          device, &DeviceConfig::gflops),
      key("device.gbytes_per_second", "emulates a slower device: GB/s of its memory; 0: no limit",
          kRate, device, &DeviceConfig::gbytes_per_second),
      key("device.memory_gib",
          "what the tensors of a rank may take, in GiB, as a hard limit; 0: its share of what is "
          "free on its host, or the memory of its GPU",
          kGib, device, &DeviceConfig::memory_gib),
      key("device.bf16_sums",
          "how GPUs sum bf16: `exact`, in float with one rounding, or `nccl`, whose own sums round "
          "at every hop and need no scratch memory",
          sums, device, &DeviceConfig::bf16_sums),
  };
}

std::vector<Key> make_keys() {
  std::vector<Key> all;
  for (auto section :
       {model_keys, data_keys, training_keys, checkpoint_keys, parallel_keys, machine_keys}) {
    for (Key& key : section()) all.push_back(std::move(key));
  }
  return all;
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
