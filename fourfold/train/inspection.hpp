// Finds the first result of a layer in a step that is infinite or not a number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/node_watch.hpp"

namespace fourfold::train {

using at::Tensor;
using tensor::Mesh;

/// Looks at what every layer of this thread's rank computes in the passes of a step, as long as it
/// lives.
class Inspection final : public tensor::NodeWatch {
 public:
  Inspection();

  /// Says which layer of which rank was the first, in which micro-batch and sample; empty if all
  /// results were finite. `samples_before` is the number of samples of the steps before. The same
  /// on all ranks; collective.
  std::string first_bad(const Mesh& mesh, std::int64_t samples_before) const;

  void results(std::string_view layer, const tensor::variable_list& results) override;
  void gradients(std::string_view layer, const tensor::variable_list& gradients) override;
  void rows(const Tensor& tensor, std::int64_t first_row, std::int64_t rows_per_sample) override;

 private:
  /// The place of a result in the order of a step, which compares results of all ranks:
  /// micro-batch, forward before backward, stage, and the number of the result on its rank. Ranks
  /// of a stage compute the same results in the same order.
  using Place = std::array<std::int64_t, 4>;

  Place next_place();
  void look(const char* what, std::string_view layer, const tensor::variable_list& tensors);

  std::int64_t count_ = 0;
  Place bad_;  // the first one; later than all where there is none
  std::string bad_result_;
  Place bad_rows_;  // the first tensor between blocks with a bad row
  std::int64_t sample_ = 0;
};

}  // namespace fourfold::train
