// What ranks of a grid compute, held against whole tensors of one process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "tests/model/reference.hpp"
#include "tests/support/ranks.hpp"

namespace fourfold::test {

using nn::real_part;

/// The largest error of this rank's parts, and where.
struct Worst {
  double error = 0;
  std::string where;
  void see(double found, const std::string& place) {
    if (found <= error) return;
    error = std::isnan(found) ? INFINITY : found;  // nothing is worse, so that it stays
    where = place;
  }
};

grid::Block block_here(const tensor::Mesh& mesh, const nn::Parameter& parameter);

/// Replaces this rank's part of a parameter by that of `whole`.
void load(const tensor::Mesh& mesh, nn::Parameter& parameter, const Tensor& whole);

/// Sums the gradients over the ranks that have the same shard, as the optimizer does.
void sum_over_replicas(const tensor::Mesh& mesh, const nn::Parameters& parameters);

/// Compares the gradient with this rank's part of `whole`; padding must be zero.
void see_gradient(Worst& worst, const tensor::Mesh& mesh, nn::Parameter& parameter,
                  const Tensor& whole);

/// The norm of the whole gradients, of which each rank has a part and some have the same.
double gradient_norm(const tensor::Mesh& mesh, const nn::Parameters& parameters);

/// One training step of a model, on a grid.
template <class Spec>
struct CaseOf {
  grid::Sizes sizes;
  Spec spec;
  std::int64_t samples = 8;
  bool training = true;
  std::int64_t passes = 1;        ///< that the samples are divided into; gradients add up
  double tolerance = 1e-10;       ///< of logits and gradients
  double loss_tolerance = 1e-10;  ///< of the loss and of the gradients' norm
};
using Case = CaseOf<model::GptSpec>;
using LlamaCase = CaseOf<model::LlamaSpec>;

/// Runs the step on this world and expects logits, loss and the gradients of all parameters of the
/// reference, on all ranks. The reference computes in float64, with the values that the parameters
/// have in their types: so a tolerance is that of the arithmetic alone.
void check_case(comm::World& world, const Case& c);
void check_case(comm::World& world, const LlamaCase& c);

/// The same with ranks as threads.
void run_case(const Case& c);
void run_case(const LlamaCase& c);

}  // namespace fourfold::test
