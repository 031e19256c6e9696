// A parameter: this rank's shard of a global tensor, how the shard is gathered for a use, and how
// its gradient is collected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/grid/layout.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/passes.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using at::Tensor;
using comm::LayerScope;
using tensor::Mesh;

/// The type in which the layers compute, and the type in which parameters and their gradients are
/// kept.
struct Precision {
  at::ScalarType compute = at::kFloat;
  at::ScalarType master = at::kFloat;

  static Precision float64() { return {at::kDouble, at::kDouble}; }
  static Precision float32() { return {at::kFloat, at::kFloat}; }
  static Precision bf16() { return {at::kBFloat16, at::kFloat}; }
};

/// Describes a parameter before it exists on any rank. Each of the axes x, y, z and data that has
/// more than one rank must be in one of `kept`, `gathered`, `columns` and `replicas`. This says
/// what the ranks along the axis have, and how their gradients are combined (docs/gradients.md).
struct ParameterSpec {
  std::string name;
  grid::Shape shape;     ///< the shape of the global tensor
  grid::Axes kept = {};  ///< axes that split the first dimension, also when the parameter is used
  grid::Axes gathered = {};  ///< axes that split it further, and are gathered for a use
  grid::Axes columns = {};   ///< axes that split the second dimension of a matrix
  grid::Axes summed = {};    ///< the axes of `gathered` over which the uses have different rows
  /// All ranks along these axes have the same shard, but their uses have different rows. The
  /// optimizer sums the gradients over these axes.
  grid::Axes replicas = grid::Axis::kData;
  double deviation = 0;  ///< of the initial values, which are normal around `mean`
  double mean = 0;

  grid::Layout layout() const;
  /// Throws InvariantError, with the name, unless layers and the optimizer can work with the
  /// parameter on that mesh.
  void check(const Mesh& mesh) const;
};

/// New values of parameters that are received in one operation. They count as arrived when a caller
/// has waited for them, whatever the network does. So every rank and every step sees the same.
struct Arrival {
  comm::Work work;
  bool waited = false;

  void wait() {
    work.wait();
    waited = true;
  }
};

/// A use of the parameter sees a fixed number of rows: those of the `kept` blocks. Each block is
/// split over `gathered`, nested, with padding at its end; `gather` leaves the padding out.
///
/// A new parameter has no memory. Its values are initialised in their final place: in the memory
/// that an optimizer provides (`live_in`), or else in memory of its own when they are first needed.
class Parameter final : public tensor::Gatherable, public std::enable_shared_from_this<Parameter> {
 public:
  /// Every element of the initial values is a function of (seed, name, global index). Throws
  /// InvariantError for a spec that cannot work on this mesh.
  Parameter(const Mesh& mesh, ParameterSpec spec, const Precision& precision, std::uint64_t seed);

  const ParameterSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  /// The layer that the parameter belongs to: "h.3.mlp.c_fc" of "h.3.mlp.c_fc.weight".
  std::string_view layer() const {
    return std::string_view(spec_.name).substr(0, spec_.name.rfind('.'));
  }
  const Mesh& mesh() const { return *mesh_; }
  const grid::Layout& layout() const { return layout_; }
  /// The shape of this rank's shard, with padding.
  const grid::Shape& shard_shape() const { return shard_shape_; }

  /// This rank's shard, with padding, in the type of computation. Waits for the shard if it is
  /// arriving.
  const Tensor& value() const {
    arrive();
    return leaf();
  }
  /// The same tensor as a leaf of the autograd graph. Its elements may not have arrived yet.
  const Tensor& leaf() const;

  /// Writes new values into `rows`, a tensor of the master type that is zero. It holds some rows of
  /// the shard; its elements from the first on are the block `here` of the global tensor. The
  /// remaining elements are padding.
  using Fill = std::function<void(Tensor& rows, const grid::Block& here)>;
  /// Replaces the values, some rows at a time, so that there is never a second copy of all values.
  void fill(const Fill& rows);
  /// Replaces the shard, including its padding, by `values` of its shape.
  void assign(const Tensor& values);

  /// From now on the value is stored in `home`, a tensor of its shape and type. Elements [first,
  /// first + n) are also stored in `master`, n elements of the master type that the caller owns;
  /// `master` is undefined if there are none. Existing values are copied to `home`; otherwise they
  /// are initialised there.
  void live_in(const Tensor& home, const Tensor& master, std::int64_t first);
  /// Says that new values are being received.
  void expect_values(std::shared_ptr<Arrival> arrival) { arrival_ = std::move(arrival); }

  /// The gradient of the shard, in the master type. Waits for all parts that are under way.
  /// Undefined before a backward pass has made one. Throws InvariantError when a part of the
  /// gradient waits for the backward pass of another graph.
  Tensor gradient() const;
  /// Lets the next gradient replace this one.
  void forget_gradient() {
    has_gradient_ = false;
    sum_ = Tensor();
  }
  bool has_gradient() const { return has_gradient_; }
  /// From now on the gradient is stored in `home`, a tensor of its shape and type.
  void move_gradient_to(const Tensor& home);
  /// Frees the gradient and its memory. For the next gradient, `on_gradient` is called to provide
  /// memory.
  void drop_gradient();
  void on_gradient(std::function<void()> call) { on_gradient_ = std::move(call); }

  /// Where the next part of the gradient is written, and whether it is added to the existing
  /// values.
  struct Slot {
    Tensor tensor;
    kernels::Into into;
  };
  Slot gradient_slot();

  /// A use of the parameter in a graph. The gradients of several uses, for instance those of both
  /// halves of a batch, are added up. When the last use has ended, the sum is reduced and added to
  /// the gradient.
  class Use {
   public:
    explicit Use(std::shared_ptr<Parameter> parameter) : parameter_(std::move(parameter)) {
      ++parameter_->uses_;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    /// Also handles a graph that is destroyed without a backward pass.
    ~Use();

    /// Where this use adds its gradient of the rows that it saw, before `end`. Gradients of several
    /// uses are added up in the master type. If the sum is reduced over ranks, it is rounded once
    /// to the type `wire` in which it is sent.
    Slot slot(at::ScalarType wire) const { return parameter_->sum_slot(wire); }
    /// Says that the gradient of this use is complete.
    void end();
    /// Says that the gradient of the shard, `bytes` of memory, is under way: `part` waits for it.
    void end_later(std::int64_t bytes, std::function<Tensor()> part);
    /// Says that the gradient of the shard is under way. The caller must call the result with it.
    std::function<void(const Tensor& part)> ending();

   private:
    bool close();

    std::shared_ptr<Parameter> parameter_;  // shared: a graph may outlive its model
    bool open_ = true;
  };
  /// A new use, or null while no graph is made.
  std::shared_ptr<Use> use();

  /// The state of the parameter in the step of its optimizer. Only the optimizer changes it.
  Passes& passes() { return passes_; }
  /// Must be called before each backward pass of a step that the optimizer has begun.
  void begin_pass() { passes_.begin_pass(uses_); }
  /// Throws InvariantError unless the passes of the step have completed the gradient.
  void check_passes_done() const { passes_.check_done(uses_); }
  /// `call` is called when a pass has completed the gradient. `last` says whether the pass is the
  /// last of its step.
  void on_complete(std::function<void(bool last)> call) { on_complete_ = std::move(call); }

  /// The number of rows that a use sees.
  std::int64_t rows() const { return rows_; }

  /// The gathered rows, without padding. In a planned pass they are gathered ahead of time.
  Tensor whole() const { return trim(mesh_->gathers().take(*this)[0]); }
  /// Removes the padding from gathered rows.
  Tensor trim(const Tensor& gathered) const;

  std::string gather_name() const override { return spec_.name; }
  bool is_whole() const override { return mesh_->size(spec_.gathered) == 1; }
  std::int64_t gathered_bytes() const override;
  bool arriving() const override { return arrival_ != nullptr && !arrival_->waited; }
  tensor::Gathered start_gather() const override;

  /// The number of elements of the shard, with padding.
  std::int64_t size() const { return size_; }
  const Precision& precision() const { return precision_; }

  /// The number of rows that `pad` returns and that the reduction of the gradient expects.
  std::int64_t padded_rows() const;
  /// The inverse of `trim`: padding is zero. Makes no copy where there is no padding.
  Tensor pad(const Tensor& rows) const;

  /// The part of a padded gradient that this rank reduces. The ranks along axes that are gathered
  /// but not summed all have the same gradient, and each keeps its own part.
  Tensor own_part(const Tensor& padded) const;
  /// The communicator over which the gradient is reduced.
  const comm::Communicator& gradient_comm() const;
  const comm::Communicator& weight_comm() const;

  /// Adds `part` to the gradient.
  void accumulate(const Tensor& part);

 private:
  void arrive() const {
    if (arriving()) arrival_->wait();
  }
  /// Some rows of the shard, and the block of the global tensor that they hold.
  struct Rows {
    grid::Range range;
    grid::Block block;
  };
  std::vector<Rows> pieces() const;
  void allocate() const;
  /// Calls `write_rows` for each piece of the values, in the master type, and rounds the piece into
  /// its place.
  void write(const std::function<void(Tensor&, const Rows&)>& write_rows) const;
  void initialise() const;
  void complete(bool last) {
    if (on_complete_) on_complete_(last);
  }
  Slot sum_slot(at::ScalarType wire);
  void reduce_sum();
  std::int64_t outer_blocks() const;

  const Mesh* mesh_;
  ParameterSpec spec_;
  Precision precision_;
  std::uint64_t seed_;
  grid::Layout layout_;
  grid::Shape shard_shape_;
  std::int64_t size_ = 1;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 1;
  mutable Tensor value_;           // undefined until it is needed or `live_in` is called
  Tensor master_;                  // if its type differs: part of the values, kept elsewhere
  std::int64_t master_first_ = 0;  // the element that `master_` begins with
  Tensor gradient_;                // the memory of the gradient
  bool has_gradient_ = false;
  int uses_ = 0;  // uses that have not ended
  Tensor sum_;    // the sum of the uses' gradients of all rows, if it is to be reduced
  at::ScalarType wire_ = at::kFloat;  // the type in which it is sent
  Passes passes_;
  std::function<void(bool)> on_complete_;
  std::function<void()> on_gradient_;
  std::shared_ptr<Arrival> arrival_;
};

/// The part of a shard that is not padding.
Tensor real_part(const Tensor& shard, const grid::Block& block);

using ParameterPtr = std::shared_ptr<Parameter>;
using Parameters = std::vector<ParameterPtr>;

/// Throws InvariantError, with the name `who`, for a list that contains null, that contains a
/// parameter or a name twice, or that contains a parameter of another mesh.
void check_parameters(const Mesh& mesh, const Parameters& parameters, const char* who);

}  // namespace fourfold::nn
