// The vectors of a block (biases, scales, shifts). Each rank has a part of each vector, and the
// vectors are communicated together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fourfold/nn/parameter.hpp"

namespace fourfold::nn {

class Vectors final : public tensor::Gatherable {
 public:
  /// All vectors must belong to `mesh`. Throws InvariantError unless the list consists of different
  /// vectors of this mesh. In particular, the missing bias of a layer must not be in the list.
  Vectors(const Mesh& mesh, Parameters parameters);

  /// The vectors as their layers use them, in the order given, gathered in one operation for each
  /// group of ranks. Differentiable: when the last of their gradients is complete, all gradients
  /// are reduced in one operation for each group, and added to the parameters.
  std::vector<Tensor> gather(tensor::InFlight& in_flight) const;

  const Parameters& parameters() const { return parameters_; }

  std::string gather_name() const override { return "vectors of " + parameters_.at(0)->name(); }
  bool is_whole() const override;
  std::int64_t gathered_bytes() const override;
  bool arriving() const override;
  tensor::Gathered start_gather() const override;

 private:
  using Uses = std::vector<std::shared_ptr<Parameter::Use>>;
  void reduce(const std::vector<Tensor>& gradients, const Uses& uses) const;
  /// The common beginning of all names: "h.3".
  std::string_view layer() const;

  const Mesh* mesh_;
  Parameters parameters_;
};

}  // namespace fourfold::nn
