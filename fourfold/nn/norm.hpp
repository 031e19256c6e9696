// What all norms have in common. The hidden dimension may be split; the statistics are those of
// whole rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fourfold/nn/linear.hpp"

namespace fourfold::nn {

/// Normalises each row of a hidden state whose columns are split over x (the input of a linear
/// layer that is not transposed), and multiplies its columns by a scale. Differentiable. The pass
/// must have gathered the vectors of the layer.
///
/// A kind of norm derives from this class and says what is computed, and how the statistics of the
/// ranks along x become those of whole rows. Memory, nodes and the schedule are the same for all.
class Norm : public Layer {
 public:
  Flow<Tensor> flow(Tensor input, const Pass& pass) const;
  Tensor forward(const Tensor& input, const Pass& pass) const { return run(flow(input, pass)); }

  const ParameterPtr& scale() const { return vectors_.front(); }

 protected:
  /// Flops for each element of the input.
  struct Flops {
    double statistics, apply, backward_sums, backward_apply;  ///< of rows that are split over x
    double whole, backward_whole;                             ///< of rows that are whole here
  };
  struct Kind {
    bool shift;               ///< whether a shift is added to the columns
    std::int64_t statistics;  ///< how many numbers for each row the backward pass needs
    Flops flops;
  };

  Norm(const Mesh& mesh, const std::string& name, const Kind& kind, std::int64_t width,
       double epsilon, Activations activations, const Precision& precision, std::uint64_t seed);

  /// What the backward pass knows of the forward pass.
  struct Rows {
    Tensor input;
    Tensor scale;
    Tensor statistics;
  };

  // Kernels: they write into memory that is there, and return at once for meta tensors. Statistics
  // and sums are matrices of (Kind::statistics, rows). `vectors` are the scale and the shift, if
  // there is one, and `gradients` are theirs, to which a kernel adds.

  virtual void whole(const Tensor& input, const variable_list& vectors, Tensor& statistics,
                     Tensor& out) const = 0;
  virtual void backward_whole(const Tensor& upstream, const Rows& rows, variable_list& gradients,
                              Tensor& result) const = 0;

  // The same in two steps each, for rows that are split. Ranks communicate between the steps.

  /// The statistics of this rank's columns.
  virtual void statistics(const Tensor& input, Tensor& own) const = 0;
  /// Starts to bring the statistics of all ranks along x together.
  virtual tensor::Pending exchange(const Tensor& own) const = 0;
  /// Sets the statistics of whole rows, from what has arrived, and the output.
  virtual void apply(const Tensor& input, const Tensor& arrived, const variable_list& vectors,
                     Tensor& statistics, Tensor& out) const = 0;
  /// This rank's summands of the numbers that the gradient of a whole row needs.
  virtual void backward_sums(const Tensor& upstream, const Rows& rows, Tensor& sums,
                             variable_list& gradients) const = 0;
  virtual void backward_apply(const Tensor& upstream, const Rows& rows, const Tensor& sums,
                              Tensor& result) const = 0;

  const ParameterPtr& shift() const { return vectors_.at(1); }
  std::int64_t width() const { return width_; }
  double epsilon() const { return epsilon_; }

 private:
  struct Call;

  Tensor new_statistics(const Tensor& input) const;
  /// Reports compute that goes over memory of the size of `rows` several times.
  void record(const char* what, const Tensor& rows, double flops, int passes) const;

  Tensor forward_whole(Call& call, const variable_list& in) const;
  variable_list backward_whole(const Call& call, const Tensor& upstream) const;
  void start_forward(Call& call, const Tensor& input) const;
  Tensor end_forward(Call& call, const variable_list& in) const;
  variable_list start_backward(Call& call, const Tensor& upstream) const;
  Tensor end_backward(Call& call) const;

  Kind kind_;
  std::int64_t width_;
  double epsilon_;
  Parameters vectors_;
};

}  // namespace fourfold::nn
