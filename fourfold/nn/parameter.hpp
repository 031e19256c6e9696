// A parameter: this rank's shard of a global tensor, how it is brought together for its use, and
// where its gradient goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/grid/layout.hpp"
#include "fourfold/nn/passes.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/random.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using at::Tensor;
using comm::LayerScope;
using tensor::Mesh;

/// In which type the layers compute, and the parameters and their gradients are kept.
struct Precision {
  at::ScalarType compute = at::kFloat;
  at::ScalarType master = at::kFloat;

  static Precision float64() { return {at::kDouble, at::kDouble}; }
  static Precision float32() { return {at::kFloat, at::kFloat}; }
  static Precision bf16() { return {at::kBFloat16, at::kFloat}; }
};

/// What a parameter is, before it exists on any rank. Of the axes x, y, z and data each that has
/// more than one rank is in one of `kept`, `gathered`, `columns` and `replicas`: none else says
/// what the ranks along it have, and how their gradients become one (docs/gradients.md).
struct ParameterSpec {
  std::string name;
  grid::Shape shape;         ///< of the global tensor
  grid::Axes kept = {};      ///< split its first dimension at its use, too
  grid::Axes gathered = {};  ///< split its first dimension further, and are gathered for its use
  grid::Axes columns = {};   ///< split the second dimension of a matrix
  grid::Axes summed = {};    ///< of `gathered`, those over which its uses have different rows
  /// All ranks along these have the same shard, and its uses different rows: the optimizer sums the
  /// gradients over them.
  grid::Axes replicas = grid::Axis::kData;
  double deviation = 0;  ///< of its initial values, normal around `mean`
  double mean = 0;

  grid::Layout layout() const;
  /// Throws InvariantError, with the name, unless layers and the optimizer can work with it there.
  void check(const Mesh& mesh) const;
};

/// New values of parameters that travel together. Whether they have arrived is decided by who has
/// waited for them, never by the network: so every rank and every step sees the same.
struct Arrival {
  comm::Work work;
  bool waited = false;

  void wait() {
    work.wait();
    waited = true;
  }
};

/// The rows that a use of the parameter sees have a fixed number: those of the `kept` blocks. Each
/// of these is split over `gathered`, nested, with padding at its end; `gather` leaves it out.
///
/// A new parameter has no memory. Its values are made where they are to stay: in the memory that
/// an optimizer gives it (`live_in`), or else in its own when they are needed first.
class Parameter final : public tensor::Gatherable, public std::enable_shared_from_this<Parameter> {
 public:
  /// Every element of the initial values is a function of (seed, name, global index). Throws
  /// InvariantError for a spec that cannot work on this mesh.
  Parameter(const Mesh& mesh, ParameterSpec spec, const Precision& precision, std::uint64_t seed);

  const ParameterSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  /// Whose it is: "h.3.mlp.c_fc" of "h.3.mlp.c_fc.weight".
  std::string_view layer() const {
    return std::string_view(spec_.name).substr(0, spec_.name.rfind('.'));
  }
  const Mesh& mesh() const { return *mesh_; }
  const grid::Layout& layout() const { return layout_; }
  /// Of this rank's shard, with padding.
  const grid::Shape& shard_shape() const { return shard_shape_; }

  /// This rank's shard, with padding, in the type of computation. Waits for it if it is arriving.
  const Tensor& value() const {
    arrive();
    return leaf();
  }
  /// The same for the graph, of which it is a leaf; its elements may not be there yet.
  const Tensor& leaf() const;

  /// Writes new values into a tensor of the master type, which is zero: some rows of the shard,
  /// whose elements from the first on are the block `here` of the global tensor. The others are
  /// padding.
  using Fill = std::function<void(Tensor& rows, const grid::Block& here)>;
  /// Replaces the values, some rows at a time, so that no second copy of them ever exists.
  void fill(const Fill& rows);
  /// Replaces the shard, its padding too, by `values` of its shape.
  void assign(const Tensor& values);

  /// The value lives in `home` from now on, a tensor of its shape and type. Elements [first, first
  /// + n) of it live in `master` as well, n elements of the master type that somebody else keeps;
  /// it is undefined if there are none. Values that exist are copied there, others are made there.
  void live_in(const Tensor& home, const Tensor& master, std::int64_t first);
  /// New values are on their way.
  void expect_values(std::shared_ptr<Arrival> arrival) { arrival_ = std::move(arrival); }

  /// The gradient of the shard, in the master type, with all that was on its way. Undefined before
  /// a backward pass has made one. Throws InvariantError when a part of it waits for the backward
  /// pass of another graph.
  Tensor gradient() const;
  /// The next gradient replaces this one.
  void forget_gradient() {
    has_gradient_ = false;
    sum_ = Tensor();
  }
  bool has_gradient() const { return has_gradient_; }
  /// The gradient lives in `home` from now on, a tensor of its shape and type.
  void move_gradient_to(const Tensor& home);
  /// Lets go of the gradient and its memory. The next one has `on_gradient` provide for it.
  void drop_gradient();
  void on_gradient(std::function<void()> call) { on_gradient_ = std::move(call); }

  /// Where the next part of the gradient goes, and whether it is added to what is there.
  struct Slot {
    Tensor tensor;
    tensor::Into into;
  };
  Slot gradient_slot();

  /// A use of the parameter in a graph. Uses add their gradients up, for instance those of both
  /// halves of a batch; when the last has ended, the sum is reduced and added to the gradient.
  class Use {
   public:
    explicit Use(std::shared_ptr<Parameter> parameter) : parameter_(std::move(parameter)) {
      ++parameter_->uses_;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    /// A graph that goes without a backward pass.
    ~Use();

    /// Where this use adds its gradient of the rows that it saw, before `end`. Gradients of several
    /// uses are added up in the master type, and their sum is rounded once to the type `wire` in
    /// which it is reduced over ranks, if it is.
    Slot slot(at::ScalarType wire) const { return parameter_->sum_slot(wire); }
    /// Its gradient is there.
    void end();
    /// Its gradient of the shard, `bytes` of memory, is on its way: `part` waits for it.
    void end_later(std::int64_t bytes, std::function<Tensor()> part);
    /// Its gradient of the shard is on its way, and the result is to be called with it.
    std::function<void(const Tensor& part)> ending();

   private:
    bool close();

    std::shared_ptr<Parameter> parameter_;  // a graph may outlive its model
    bool open_ = true;
  };
  /// Null while no graph is made.
  std::shared_ptr<Use> use();

  /// Where it is in the step of its optimizer, which is the one to change that.
  Passes& passes() { return passes_; }
  /// Before a backward pass of the step that its optimizer has begun.
  void begin_pass() { passes_.begin_pass(uses_); }
  /// Throws InvariantError unless the passes of the step have completed the gradient.
  void check_passes_done() const { passes_.check_done(uses_); }
  /// Called when a pass has completed the gradient, with whether it was the last of its step.
  void on_complete(std::function<void(bool last)> call) { on_complete_ = std::move(call); }

  /// Rows at the parameter's use.
  std::int64_t rows() const { return rows_; }

  /// The rows, brought together: ahead of time in a planned pass. Without padding.
  Tensor whole() const { return trim(mesh_->gathers().take(*this)[0]); }
  /// Takes gathered rows, and leaves out the padding.
  Tensor trim(const Tensor& gathered) const;

  std::string gather_name() const override { return spec_.name; }
  bool is_whole() const override { return mesh_->size(spec_.gathered) == 1; }
  std::int64_t gathered_bytes() const override;
  bool arriving() const override { return arrival_ != nullptr && !arrival_->waited; }
  tensor::Gathered start_gather() const override;

  /// Elements of the shard, with padding.
  std::int64_t size() const { return size_; }
  const Precision& precision() const { return precision_; }

  /// The shape of what `pad` gives and the reduction of the gradient takes.
  std::int64_t padded_rows() const;
  /// The inverse of `trim`: padding is zero. No copy where there is none.
  Tensor pad(const Tensor& rows) const;

  /// The part of a padded gradient that this rank has a say in: the ranks along axes that are
  /// gathered but not summed all have the same, and each keeps its own part.
  Tensor own_part(const Tensor& padded) const;
  /// The communicator to reduce it over.
  const comm::Communicator& gradient_comm() const;
  const comm::Communicator& weight_comm() const;

  /// Adds to the gradient.
  void accumulate(const Tensor& part);

 private:
  void arrive() const {
    if (arriving()) arrival_->wait();
  }
  /// Some rows of the shard, and the block that they hold.
  struct Rows {
    grid::Range range;
    grid::Block block;
  };
  std::vector<Rows> pieces() const;
  void allocate() const;
  /// Has each piece of the values written, in the master type, and rounded where it belongs.
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
  mutable Tensor value_;           // undefined until it is needed or has a place to live in
  Tensor master_;                  // where its type differs: a part of the values, kept elsewhere
  std::int64_t master_first_ = 0;  // the element that this begins with
  Tensor gradient_;                // memory for it
  bool has_gradient_ = false;
  int uses_ = 0;  // that have not ended
  Tensor sum_;    // of the uses' gradients, of all rows, where it is to be reduced
  at::ScalarType wire_ = at::kFloat;  // in which it is
  Passes passes_;
  std::function<void(bool)> on_complete_;
  std::function<void()> on_gradient_;
  std::shared_ptr<Arrival> arrival_;
};

/// The part of a shard that is not padding.
Tensor real_part(const Tensor& shard, const grid::Block& block);

using ParameterPtr = std::shared_ptr<Parameter>;
using Parameters = std::vector<ParameterPtr>;

/// Throws InvariantError, in the name of `who`, for a list with null, with a parameter or a name
/// twice, or with a parameter of another mesh.
void check_parameters(const Mesh& mesh, const Parameters& parameters, const char* who);

}  // namespace fourfold::nn
