// The configuration of a run as plain values. There is one struct for each section of the file,
// with the defaults, some of which depend on other keys (defaults.hpp). Paths are absolute once
// they are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/grid/grid.hpp"

namespace fourfold::config {

/// The units that text is cut into.
enum class Tokenizer {
  kBpe,    ///< pieces of words, learned from the text
  kBytes,  ///< single bytes: 256 tokens, nothing to learn
};

/// The tokens of the tokenizer `bytes`, with which alone model.vocab may be left out.
inline constexpr std::int64_t kByteTokens = 256;

/// The types of numbers that the model computes with.
enum class Precision {
  kFloat32,
  kBf16,  ///< products in bfloat16, weights of the optimizer in float32
  kFloat64,
};

/// Whether activations are kept split over all ranks, or replicated where several ranks need them.
enum class Activations { kSharded, kReplicated };

/// How the noise of a diffusion model grows from step to step.
enum class NoiseSchedule { kCosine, kLinear };

/// What follows when the loss or a gradient of a step is not finite.
enum class OnBadStep {
  kStop,  ///< the run ends
  kSkip,  ///< the step updates nothing, and the next one follows
};

/// What a rank computes with: its share of the host's processor, or a GPU.
enum class DeviceKind { kCpu, kCuda };

/// How GPUs sum bf16.
enum class Bf16Sums {
  kExact,  ///< in float, with one rounding
  kNccl,   ///< as NCCL does, which rounds at every hop
};

/// The names as in the file: "bpe", "bf16", "sharded", ...
std::string_view to_string(Tokenizer tokenizer);
std::string_view to_string(Precision precision);
std::string_view to_string(Activations activations);
std::string_view to_string(NoiseSchedule schedule);
std::string_view to_string(OnBadStep what);
std::string_view to_string(DeviceKind kind);
std::string_view to_string(Bf16Sums sums);

/// [model]: width, heads, layers and context of a transformer have no default, nor have image and
/// channels of a U-Net.
struct ModelConfig {
  std::string kind = "gpt";
  std::int64_t vocab = 0;    ///< different tokens; 0: as many as the tokenizer "bytes" has
  std::int64_t width = 0;    ///< numbers that represent a token; a multiple of heads
  std::int64_t heads = 0;    ///< of attention; 0: the 4 of a U-Net
  std::int64_t layers = 0;   ///< blocks of attention and a two-layer network
  std::int64_t context = 0;  ///< tokens of a sequence
  double dropout = 0;        ///< share of the activations that training sets to zero
  bool tied = true;          ///< the last layer uses the table of the first

  // Only for the kind "llama".
  std::int64_t kv_heads = 0;              ///< heads of keys and values; 0: as many as `heads`
  std::int64_t hidden = 0;                ///< of the network; 0: 8/3 of the width, rounded up to 64
  double rope_theta = 10000;              ///< the base of the wavelengths of rotary positions
  std::vector<double> rope_scaling = {};  ///< four numbers as Llama 3 has them, or none
  double norm_eps = 1e-5;                 ///< added to the mean square of a row

  // Only for the kind "unet".
  std::int64_t image = 0;                                ///< pixels along each side of an image
  std::int64_t colours = 3;                              ///< 1: grey, 3: RGB
  std::int64_t channels = 0;                             ///< of the first level
  std::vector<std::int64_t> multipliers = {1, 2, 2, 2};  ///< channels of each level, in `channels`
  std::int64_t blocks = 2;                               ///< of a level, on the way down
  std::vector<std::int64_t> attention = {16, 8};         ///< sizes of the images that have it
  std::int64_t groups = 32;                              ///< of channels, in every norm
  bool learn_sigma = false;  ///< twice as many outputs, for the variance of the noise
  NoiseSchedule noise = NoiseSchedule::kCosine;
  std::int64_t noise_steps = 1000;

  /// Whether samples are images. Those of other kinds are sequences of tokens.
  bool has_images() const { return kind == "unet"; }
  bool operator==(const ModelConfig&) const = default;
};

/// [data]: one of `text` and `tokens` is given, or `images` for a U-Net, or none of them in a run
/// that needs no data.
struct DataConfig {
  std::string text;                       ///< a file or a folder
  std::string tokens;                     ///< a file of tokens
  std::string validation_tokens;          ///< used with `tokens`; empty: a share of these
  Tokenizer tokenizer = Tokenizer::kBpe;  ///< for `text`
  std::string tokenizer_from;             ///< a tokenizer's folder or tokenizer.json; empty: none
  double validation = 0.05;               ///< share of the data that is kept for validation
  std::string cache;                      ///< folder for prepared data; empty: the user's own
  std::string images{};                   ///< a file of IDX, or a folder of PNG files
  bool flip = false;                      ///< mirror half of the images in training

  bool operator==(const DataConfig&) const = default;
};

/// [train]: the length, the batch and the precision of training.
struct TrainConfig {
  std::int64_t steps = 200;
  std::int64_t batch = 8;        ///< samples of a step, over the whole grid
  std::int64_t micro_batch = 0;  ///< samples of a forward pass; divides batch. read() replaces 0
  Precision precision = Precision::kFloat32;
  std::uint64_t seed = 1;               ///< of weights, dropout and the order of the samples
  bool checkpoint_activations = false;  ///< recompute them in the backward pass: less memory
  std::int64_t validate_every = 50;     ///< steps; 0: only at the end
  std::int64_t validate_batches = 8;    ///< micro-batches of a validation
  std::int64_t log_every = 1;           ///< steps
  std::string init_from{};              ///< a folder with weights to start from; empty: none
  double ema = 0;                       ///< largest decay of the mean of the weights; 0: no mean
  std::int64_t compare_every = 100;     ///< steps between comparisons of replicas; 0: none
  OnBadStep on_bad_step = OnBadStep::kStop;
  std::int64_t draw_every = 500;  ///< steps between pictures of a U-Net; 0: no pictures

  bool operator==(const TrainConfig&) const = default;
};

/// [optim]: AdamW and its rate, which rises linearly and then falls as half a cosine from lr to
/// min_lr.
struct OptimConfig {
  double lr = 3e-4;
  double min_lr = 3e-5;
  std::array<double, 2> betas = {0.9, 0.95};  ///< memory of the gradient and of its square
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< of matrices and embeddings only
  std::int64_t warmup = 10;   ///< steps until lr
  double clip = 1.0;          ///< largest norm of the gradient; 0: no clipping

  bool operator==(const OptimConfig&) const = default;
};

/// [parallel]: how the ranks share the work.
struct ParallelConfig {
  std::string strategy = "auto";
  grid::Sizes sizes;   ///< x, y, z, data and pipe
  bool given = false;  ///< whether a size was given: if not, the caller may choose the sizes
  Activations activations = Activations::kSharded;
  bool sequence_parallel = true;  ///< the same as sharded activations, for the strategy megatron
  /// What ranks along data split among themselves: 0 nothing, 1 the optimizer's state, 2 gradients
  /// too.
  int zero = 1;
  int chunks = 1;  ///< stages of the pipeline on each rank: more stages, smaller bubbles
  grid::Placement placement = grid::kDefaultPlacement;

  /// Values that were given, which a plan keeps. How a value came about does not make
  /// configurations different.
  struct Kept {
    bool placement = false;
    bool activations = false;
    bool checkpoint = false;
    bool micro_batch = false;
    bool chunks = false;
    bool zero = false;

    bool operator==(const Kept&) const { return true; }
  };
  Kept kept{};

  bool operator==(const ParallelConfig&) const = default;
};

/// [overlap]: which communication overlaps with compute. Results do not depend on it
/// (docs/overlap.md).
struct OverlapConfig {
  bool input_gradients = true;   ///< sums of input gradients overlap with the weights' product
  bool weight_gradients = true;  ///< sums of weight gradients overlap with the backward pass
  bool weights = true;           ///< weights are gathered ahead of their use
  bool keep_weights = true;      ///< gathered weights are kept for the backward pass
  bool data = true;              ///< sums over data overlap with backward, new weights with forward
  bool halves = true;            ///< the two halves of a rank's samples overlap with each other
  bool panels = true;            ///< SUMMA's next panels overlap with the current product
  std::int64_t window_mib = 64;  ///< of weights ahead of their use, and of gradients under way
  std::int64_t keep_mib = 256;   ///< of gathered weights that are kept
  std::int64_t segment_mib = 16;  ///< size of one communication along data

  bool operator==(const OverlapConfig&) const = default;
};

/// [checkpoint]: when the state of a training is saved.
struct CheckpointConfig {
  std::int64_t every = 0;           ///< steps; 0: by time
  double minutes = 10;              ///< between checkpoints where `every` is 0; 0: none by time
  std::int64_t keep = 2;            ///< the newest so many stay
  std::int64_t keep_every = 0;      ///< and those of every so many steps; 0: no others
  std::int64_t staging_mib = 1024;  ///< of a rank's state that may wait for the disk

  bool operator==(const CheckpointConfig&) const = default;
};

/// [device]: the hardware of a rank.
struct DeviceConfig {
  DeviceKind kind = DeviceKind::kCpu;
  /// The device that each rank emulates: GFLOP/s and GB/s of its memory. 0 means that this takes no
  /// time; if both are 0, nothing is emulated.
  double gflops = 0;
  double gbytes_per_second = 0;
  /// The memory that the tensors of a rank may use, in GiB: a hard limit. 0 means its share of the
  /// free memory of its host, which is no limit, or the memory of its GPU.
  double memory_gib = 0;
  Bf16Sums bf16_sums = Bf16Sums::kExact;

  bool operator==(const DeviceConfig&) const = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimConfig optim;
  CheckpointConfig checkpoint;
  ParallelConfig parallel;
  OverlapConfig overlap;
  DeviceConfig device;

  bool operator==(const Config&) const = default;
};

}  // namespace fourfold::config
