// GroupNorm of images whose channels are split over ranks, with what follows it: a scale and a
// shift by sample, and SiLU. The statistics are those of whole groups, wherever these are cut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/kernels/group_numbers.hpp"
#include "fourfold/nn/conv.hpp"

namespace fourfold::nn {

struct GroupNormSpec {
  std::string name;
  /// The channels of each part of the input. The parts lie side by side, and groups may reach from
  /// one to the next. Each part is split over the ranks by itself.
  std::vector<std::int64_t> parts;
  std::int64_t groups = 32;
  bool transposed = false;  ///< channels are split over y and then x, instead of the reverse
  Activations activations = Activations::kSharded;
  bool silu = false;
  bool film = false;  ///< whether a scale and a shift by sample follow; only for one part
  double epsilon = 1e-5;
};

/// The axes that split the channels of an image between layers, coarse first.
grid::Axes channel_axes(bool transposed, Activations activations);

class GroupNorm final : public Layer {
 public:
  /// Why such a layer cannot be split over a grid; empty if it can.
  static std::string misfit(const GroupNormSpec& spec, const grid::Sizes& sizes);

  /// Throws ConfigError when the sizes do not divide.
  GroupNorm(const Mesh& mesh, const GroupNormSpec& spec, const Precision& precision,
            std::uint64_t seed);

  /// The parts after the norm. Differentiable. `samples` is the number of samples of this rank.
  /// With `film`, the columns of that matrix are [channel][scale|shift] for each of this rank's
  /// channels, and its rows are samples: the result is f(norm * (1 + scale) + shift). The pass must
  /// have gathered the vectors of the layer.
  Flow<std::vector<Tensor>> flow(std::vector<Tensor> parts, Tensor film, std::int64_t samples,
                                 const Pass& pass) const;

  const GroupNormSpec& spec() const { return spec_; }
  /// Whether a group lies on several ranks, so that ranks communicate.
  bool spans() const { return spans_; }
  /// The most segments of groups that a rank has.
  std::int64_t most_segments() const { return most_; }
  const Parameters& scales() const { return scales_; }
  const Parameters& shifts() const { return shifts_; }

 private:
  struct Call;

  void map_groups();
  tensor::Pending exchange(const Tensor& lines) const;
  Tensor new_lines(const Call& call) const;
  void start_forward(Call& call) const;
  std::vector<Tensor> end_forward(Call& call) const;
  std::vector<Tensor> start_backward(Call& call, const std::vector<Tensor>& upstream) const;
  std::vector<Tensor> end_backward(Call& call) const;

  GroupNormSpec spec_;
  grid::Axes axes_;
  kernels::GroupMap map_;
  bool spans_ = false;
  std::int64_t most_ = 0;
  Parameters scales_;
  Parameters shifts_;
};

}  // namespace fourfold::nn
