// The sizes of a diffusion U-Net, and the blocks that it consists of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/model/model.hpp"
#include "fourfold/model/noise.hpp"

namespace fourfold::model {

struct UNetSpec {
  std::int64_t image = 32;  ///< height and width of the images
  std::int64_t colours = 3;
  std::int64_t channels = 128;  ///< of the first level
  /// The channels of each level, in units of `channels`. Each level has images of half the size.
  std::vector<std::int64_t> multipliers = {1, 2, 2, 2};
  std::int64_t blocks = 2;                        ///< residual blocks of a level on the way down
  std::vector<std::int64_t> attention = {16, 8};  ///< sizes of images that have attention
  std::int64_t heads = 4;
  std::int64_t groups = 32;  ///< of channels that are normalised together
  double dropout = 0;
  bool learn_sigma = false;  ///< twice as many outputs: also variances
  NoiseSpec noise = {};
  Execution execution = {};

  std::int64_t pixels() const { return image * image; }
  std::int64_t outputs() const { return learn_sigma ? 2 * colours : colours; }
  /// The width of the time embedding.
  std::int64_t embedding() const { return 4 * channels; }
  /// Throws ConfigError that names the first value that no network can have.
  void check() const;
};

/// Images between blocks.
struct UNetImages {
  std::int64_t channels = 0;
  std::int64_t size = 0;  ///< height and width
  /// Of a level with an odd number: channels lie over y and then x, instead of the reverse.
  bool transposed = false;

  bool operator==(const UNetImages&) const = default;
};

/// One block of the network. A residual block of the way up takes the images of the block before,
/// and beside them those that a block of the way down has left for it.
struct UNetBlockSpec {
  enum class Kind { kResidual, kAttention, kDown, kUp };

  Kind kind = Kind::kResidual;
  std::string name;                ///< "input_blocks.1.0"
  std::vector<UNetImages> inputs;  ///< one, or two with those that were left
  UNetImages output;
  bool leaves = false;  ///< its output is left for a block of the way up

  bool takes_left() const { return inputs.size() == 2; }
  std::int64_t in_channels() const;
};

/// What goes from one block to the next.
struct UNetHandover {
  UNetImages images;
  /// What has been left and not been taken, the last one last. If `is_left`, the last one is
  /// `images` itself.
  std::vector<UNetImages> left;
  bool is_left = false;
  bool embedding = false;  ///< whether a block that follows uses the time embedding
};

/// The blocks of a network in the order of use.
class UNetPlan {
 public:
  explicit UNetPlan(const UNetSpec& spec);

  const std::vector<UNetBlockSpec>& blocks() const { return blocks_; }
  /// What the block with this number gets from those before it; for the number of all blocks, what
  /// the last one leaves.
  UNetHandover before(std::int64_t block) const;

 private:
  void go_down(const UNetSpec& spec);
  void go_up(const UNetSpec& spec);
  void add_residual(const std::string& name, std::int64_t out, bool takes);
  void add_attention(const std::string& name);
  void add_resampling(UNetBlockSpec::Kind kind, const std::string& name);
  void leave();

  std::vector<UNetBlockSpec> blocks_;
  UNetImages first_;  // what the first block gets
  // These change while the plan is made.
  UNetImages now_;
  std::vector<UNetImages> left_;
};

}  // namespace fourfold::model
