// AdamW for a model's parameters. Ranks that have the same shard of a parameter (along data,
// mostly) share the work and the memory of its update as `Zero` says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "fourfold/optim/flat_group.hpp"

namespace fourfold::optim {

struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double decay = 0.1;  ///< of matrices and embeddings
  Zero zero = Zero::kMoments;
};

class AdamW {
 public:
  /// Takes over the memory of the parameters and their gradients. The parameters are given in the
  /// order of use, so that gradients are complete in about the reverse order: those of the first
  /// stage, which the backward pass reaches last, do not travel with others.
  AdamW(const Mesh& mesh, const std::vector<nn::Parameters>& stages, const AdamWSpec& spec);
  AdamW(const Mesh& mesh, const nn::Parameters& parameters, const AdamWSpec& spec)
      : AdamW(mesh, std::vector<nn::Parameters>{parameters}, spec) {}

  /// Before the first backward pass of a step: what was summed up is forgotten. Before the last one
  /// reaches them, the parameters must be told to expect it (Parameter::expect_last).
  void begin_step();
  /// After each of them.
  void end_pass();

  /// After the last backward pass: sums the gradients over the replicas. Returns this rank's share
  /// of the square of their global norm: the sum over all ranks counts every element once.
  double reduce_gradients();

  /// After `reduce_gradients`.
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
