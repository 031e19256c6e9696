// Causal self-attention in which several query heads share a head of keys and values, with rotary
// position embedding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fourfold/kernels/attention.hpp"
#include "fourfold/kernels/rotary.hpp"
#include "fourfold/nn/head_split.hpp"
#include "fourfold/nn/layer.hpp"
#include "fourfold/nn/pass.hpp"

namespace fourfold::nn {

/// The heads of a model, and the order of their columns in the product that makes them. The order
/// is a function of the model alone, and the ranks that share a head of keys and values each make
/// an equal part of it.
struct GroupedHeads {
  std::int64_t heads = 0;     ///< of queries
  std::int64_t kv_heads = 0;  ///< divides `heads`
  std::int64_t head_size = 0;

  /// The query heads that share a head of keys and values.
  std::int64_t group() const { return heads / kv_heads; }
  /// Whether keys and values are cut into a slice for each query head of the group. Then the
  /// columns are ordered [query head][q | slice of k | slice of v], and otherwise
  /// [group][q of all its heads | k | v].
  bool sliced() const { return head_size % group() == 0; }
  /// All columns.
  std::int64_t columns() const { return (heads + 2 * kv_heads) * head_size; }
  /// Columns of queries, of keys and of values, one after the other as files of other programs have
  /// them: for each of our columns the place there.
  std::vector<std::int64_t> order() const;

  /// Why `ranks` ranks cannot share the heads; empty if they can.
  std::string misfit(int ranks) const;
};

/// Why attention cannot be split over a grid (see attention_misfit).
std::string grouped_misfit(ProductKind product, const GroupedHeads& heads, const grid::Sizes& sizes,
                           std::int64_t samples);
/// By heads if the ranks can share them, else by samples; with SUMMA the square.
HeadSplit grouped_split(ProductKind product, const GroupedHeads& heads, const grid::Sizes& sizes);

struct Rotary {
  double theta = 10000;
  std::optional<kernels::RotaryScaling> scaling;
};

class GroupedAttention final : public Layer {
 public:
  GroupedAttention(const Mesh& mesh, const std::string& name, const GroupedHeads& heads,
                   HeadSplit split, const Rotary& rotary);

  /// `qkv` is the output of the product, with this rank's heads and whole samples. The result has a
  /// column for each element of its query heads. Differentiable. Overwrites the memory of `qkv`.
  Flow<Tensor> flow(Tensor qkv, Batch batch, const Pass& pass) const;

  double flops(const Batch& batch) const override;

 private:
  struct Call;

  kernels::AttentionShape shape_of(const Batch& batch) const;
  /// The columns of a query head and what follows it.
  std::int64_t pitch() const;
  kernels::HeadColumns query_columns() const;
  kernels::RotaryHeads query_rotation(const Batch& batch) const;
  kernels::RotaryHeads key_rotation(const Batch& batch) const;
  bool shares() const { return sharing_ != nullptr; }
  const Tensor& table(const Batch& batch, const Tensor& like) const;

  Tensor own_slices(const Tensor& qkv) const;
  Tensor assemble(const Tensor& qkv, const Tensor& gathered) const;
  void put_slices(const Tensor& from_kv, Tensor& dqkv) const;
  void rotate(Call& call) const;
  Tensor attend(Call& call) const;
  void backward_attention(Call& call, const Tensor& gradient) const;
  Tensor end_backward(Call& call) const;
  void record(const char* name, const kernels::AttentionShape& shape, int products,
              at::ScalarType type, at::ScalarType wide, std::int64_t bytes) const;

  GroupedHeads heads_;
  HeadSplit split_;
  Rotary rotary_;
  grid::Axes over_;                              // the axes that split the heads
  std::int64_t local_;                           // query heads of this rank
  std::int64_t kv_local_;                        // kv heads that they use
  const comm::Communicator* sharing_ = nullptr;  // of the ranks that share a kv head, if several do
  mutable Tensor table_;  // cosines and sines, made for the longest context so far
};

}  // namespace fourfold::nn
