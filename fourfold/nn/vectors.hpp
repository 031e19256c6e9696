// The vectors of a block (biases, scales, shifts): each rank has a part of each, and they travel
// together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

class Vectors final : public tensor::Gatherable {
 public:
  /// All vectors of one mesh. Throws InvariantError for a list that is not of different vectors of
  /// this mesh: a layer without a bias has none to give.
  Vectors(const Mesh& mesh, Parameters parameters);

  /// The vectors as their layers use them, in the order given, brought together in one operation
  /// for each group of ranks. Differentiable: when the last of their gradients is there, all are
  /// reduced in one operation for each group, and added to the parameters.
  std::vector<Tensor> gather() const;

  const Parameters& parameters() const { return parameters_; }

  std::string gather_name() const override { return "vectors of " + parameters_.at(0)->name(); }
  bool is_whole() const override;
  std::int64_t gathered_bytes() const override;
  bool arriving() const override;
  tensor::Gathered start_gather() const override;

 private:
  friend class GatherVectors;
  using Uses = std::vector<std::shared_ptr<Parameter::Use>>;
  void reduce(const std::vector<Tensor>& gradients, const Uses& uses) const;
  /// What the names of all have in common: "h.3".
  std::string_view layer() const;

  const Mesh* mesh_;
  Parameters parameters_;
};

}  // namespace fourfold::nn
