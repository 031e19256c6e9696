// AdamW for a model's parameters. Along data every rank has the same shard of a parameter; each
// keeps the moments of one part of it, updates that part and gathers the others' (ZeRO-1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
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
/// of kAlignment elements, and their gradients in another: what travels along data at once.
class FlatGroup {
 public:
  /// Elements; a whole number of cache lines in every type.
  static constexpr std::int64_t kAlignment = 32;

  FlatGroup(const Mesh& mesh, nn::Parameters parameters, double decay);
  FlatGroup(const FlatGroup&) = delete;
  FlatGroup& operator=(const FlatGroup&) = delete;
  ~FlatGroup();

  /// Forgets the gradients. When each of the parameters has been completed by so many passes, their
  /// sum over data begins by itself.
  void begin_step(std::int64_t passes);
  /// Of this rank's part of the sum over data, which it waits for; the others' parts keep what this
  /// rank had.
  double sum_of_squares();
  /// Begins the sum if it has not begun.
  void reduce_gradients();

  void update(AdamStep step);
  /// Brings the new values together. The parameters wait for them when they are used next, or with
  /// `overlap.data` off here.
  void gather_values();

  const nn::Parameters& parameters() const { return parameters_; }
  /// The number of the first parameter's element in the memory of all.
  std::int64_t begin_of(std::size_t index) const { return begins_[index]; }
  /// This rank's part of it.
  grid::Range own_range() const;

 private:
  Tensor own(const Tensor& all) const;
  void expect_values(comm::Work work);
  void place_values();
  void place_gradients();

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
  std::int64_t incomplete_ = 0;  // passes of parameters that are still to come in this step
  bool reducing_ = false;
  comm::Work reduction_;
  std::shared_ptr<nn::Arrival> arrival_;  // of the newest values
};

class AdamW {
 public:
  /// Takes over the memory of the parameters and their gradients. The parameters are given in the
  /// order of use, so that gradients are complete in about the reverse order: those of the first
  /// stage, which the backward pass reaches last, do not travel with others.
  AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& stages, const AdamWSpec& spec);
  AdamW(const Mesh& mesh, const nn::Parameters& parameters, const AdamWSpec& spec)
      : AdamW(mesh, std::vector<nn::Parameters>{parameters}, spec) {}

  /// Before the first of so many backward passes of a step: what was summed up is forgotten.
  void begin_step(std::int64_t passes = 1);

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
  const Mesh* mesh_;
  AdamWSpec spec_;
  std::deque<FlatGroup> groups_;  // in the order of use
};

/// What clipping leaves of gradients of this norm: at most `largest` of norm; 0 means no limit.
double clip_scale(double norm, double largest);

}  // namespace fourfold::optim
