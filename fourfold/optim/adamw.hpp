// AdamW for a model's parameters. Along data every rank has the same shard of a parameter; each
// keeps the moments of one part of it, updates that part and gathers the others' (ZeRO-1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/nn/parameter.hpp"
#include "fourfold/optim/adamw_kernel.hpp"

namespace fourfold::optim {

using at::Tensor;
using tensor::Mesh;

struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;  ///< of matrices and embeddings
};

/// Parameters of one type that lie one after the other in one piece of memory, each at a multiple
/// of kAlignment elements, and their gradients in another.
class FlatGroup {
 public:
  /// Elements; a whole number of cache lines in every type.
  static constexpr std::int64_t kAlignment = 32;

  FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay);

  /// This rank's part of the sum over data; the others' parts keep what this rank had.
  comm::Work reduce_gradients();
  /// Of this rank's part.
  double sum_of_squares() const;
  void update(AdamStep step);
  comm::Work gather_values();

  const nn::Parameters& parameters() const { return parameters_; }
  /// The number of the first parameter's element in the memory of all.
  std::int64_t begin_of(std::size_t index) const { return begins_[index]; }
  /// This rank's part of it.
  grid::Range own_range() const;

 private:
  Tensor own(const Tensor& all) const;

  const Mesh* mesh_;
  nn::Parameters parameters_;
  std::vector<std::int64_t> begins_;
  double decay_;
  Tensor values_;     // in the type of computation
  Tensor gradients_;  // in the master type
  // Of this rank's part only, in the master type.
  Tensor own_values_;  // a part of values_ if the types are the same
  Tensor mean_;
  Tensor square_;
};

class AdamW {
 public:
  /// Takes over the memory of the parameters and their gradients.
  AdamW(const Mesh& mesh, const nn::Parameters& parameters, const AdamWSpec& spec);

  /// Before the first backward pass of a step: what was summed up is forgotten.
  void begin_step();

  /// After the last backward pass: sums the gradients over data. Returns this rank's share of the
  /// square of their global norm: the sum over all ranks counts every element once.
  double reduce_gradients();

  /// After `reduce_gradients`, whether a parameter's gradient is finite on this rank. In this
  /// rank's part it has the others' contributions in it: what is bad there only, others may have
  /// caused.
  enum class Health { kFinite, kBadInOwnPart, kBad };
  Health gradient_health(const nn::Parameter& parameter) const;

  /// Changes the parameters; `step` counts from 1. The gradient is multiplied by `gradient_scale`.
  void update(std::int64_t step, double rate, double gradient_scale);

 private:
  AdamWSpec spec_;
  std::vector<FlatGroup> groups_;
};

/// What clipping leaves of gradients of this norm: at most `largest` of norm; 0 means no limit.
double clip_scale(double norm, double largest);

}  // namespace fourfold::optim
