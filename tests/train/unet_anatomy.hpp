// The operations of the blocks of a U-Net, written down by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/model/unet.hpp"

#include "tests/train/operations.hpp"

namespace fourfold::test {

/// A parameter as a rank of a grid has it.
struct UNetParameter {
  std::string name;
  grid::Axes gathered;
  std::int64_t elements = 0;  ///< when it is gathered, with padding
  std::int64_t summed = 0;    ///< of what is summed over z

  std::int64_t own(const grid::Grid& grid) const { return elements / grid.size(gathered); }
};

/// An operation on activations of all samples of a rank.
struct UNetOperation {
  schedule::Op op = schedule::Op::kAllGather;
  grid::Axes axes;
  std::int64_t elements = 0;
  bool statistics = false;  ///< in the type of statistics
};

/// What a block has and does. Parameters are in the order of use.
struct UNetAnatomy {
  std::vector<UNetParameter> vectors;
  std::vector<UNetParameter> forward_weights;
  std::vector<UNetParameter> backward_weights;  ///< that are needed once more
  std::vector<UNetOperation> forward;
  std::vector<UNetOperation> backward;
};

/// For `samples` samples of a rank.
class UNetAnatomist {
 public:
  UNetAnatomist(const grid::Grid& grid, const model::UNetSpec& spec, std::int64_t samples,
                int rank);

  UNetAnatomy entry() const;
  UNetAnatomy block(const model::UNetBlockSpec& block) const;
  UNetAnatomy exit() const;
  /// The elements of images between blocks on this rank.
  std::int64_t images(const model::UNetImages& images) const;

 private:
  /// The axes of a level: the one that a block's first layer contracts over, and the other one.
  struct Level {
    grid::Axis a;
    grid::Axis b;
    Level turned() const { return {b, a}; }
  };
  static Level level_of(const model::UNetImages& images);

  struct Term {
    std::string name;
    std::int64_t in;
    std::int64_t taps;
    std::int64_t pixels;  ///< of its input
  };
  struct Conv {
    std::string name;
    std::vector<Term> terms;
    std::int64_t out;
    std::int64_t pixels;  ///< of the output
    bool columns_in;
    bool columns_out;
    int biases = 1;
  };

  std::int64_t size(const grid::Axes& axes) const { return grid_->size(axes); }
  std::int64_t padded(std::int64_t rows, const grid::Axes& axes) const;
  UNetParameter parameter(const std::string& name, std::int64_t rows, std::int64_t each,
                          const grid::Axes& gathered) const;
  void add_vector(UNetAnatomy& to, std::int64_t length, const Level& level, bool columns) const;
  void add_conv(UNetAnatomy& to, const Conv& conv, const Level& level) const;
  void add_norm(UNetAnatomy& to, const std::vector<std::int64_t>& parts, const Level& level) const;
  void add_linear(UNetAnatomy& to, const std::string& name, std::int64_t out, std::int64_t in,
                  bool needs_input_gradient) const;
  void add_swap(UNetAnatomy& to, std::int64_t elements, const Level& level) const;
  UNetAnatomy residual(const model::UNetBlockSpec& block) const;
  UNetAnatomy attention(const model::UNetBlockSpec& block) const;
  UNetAnatomy resampling(const model::UNetBlockSpec& block) const;

  const grid::Grid* grid_;
  const model::UNetSpec* spec_;
  std::int64_t samples_;
  int rank_;
  std::int64_t both_;  // ranks along x and y
  bool sharded_;
};

}  // namespace fourfold::test
