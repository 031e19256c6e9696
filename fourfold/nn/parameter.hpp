// A parameter: this rank's shard of a global tensor, how the shard is gathered for a use, and how
// its gradient is collected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fourfold/comm/layer_scope.hpp"
#include "fourfold/kernels/random.hpp"
#include "fourfold/nn/gathering.hpp"
#include "fourfold/nn/gradient_collector.hpp"
#include "fourfold/nn/parameter_spec.hpp"
#include "fourfold/nn/shard.hpp"
#include "fourfold/tensor/collectives.hpp"
#include "fourfold/tensor/in_flight.hpp"
#include "fourfold/tensor/mesh.hpp"
#include "fourfold/tensor/product.hpp"
#include "fourfold/tensor/torch.hpp"

namespace fourfold::nn {

using comm::LayerScope;

class Parameter final : public tensor::Gatherable, public std::enable_shared_from_this<Parameter> {
 public:
  /// Joins the groups that the spec names. Throws InvariantError for a spec that cannot work on
  /// this mesh.
  Parameter(const Mesh& mesh, ParameterSpec spec, const Precision& precision, std::uint64_t seed);

  const ParameterSpec& spec() const { return shard_.spec(); }
  const std::string& name() const { return spec().name; }
  /// The layer that the parameter belongs to: "h.3.mlp.c_fc" of "h.3.mlp.c_fc.weight".
  std::string_view layer() const { return std::string_view(name()).substr(0, name().rfind('.')); }
  const Mesh& mesh() const { return shard_.mesh(); }
  const Precision& precision() const { return shard_.precision(); }
  const grid::Layout& layout() const { return shard_.layout(); }

  // --- the values (nn/shard)

  const grid::Shape& shard_shape() const { return shard_.shape(); }
  std::int64_t size() const { return shard_.size(); }
  const Tensor& value() const { return shard_.value(); }
  void wait_for_values() const { shard_.wait_for_values(); }
  const Tensor& leaf() const { return shard_.leaf(); }
  using Fill = Shard::Fill;
  void fill(const Fill& rows) { shard_.fill(rows); }
  void assign(const Tensor& values) { shard_.assign(values); }
  void live_in(const Tensor& home, const Tensor& master, std::int64_t first) {
    shard_.live_in(home, master, first);
  }
  void expect_values(std::shared_ptr<Arrival> arrival) { shard_.expect_values(std::move(arrival)); }

  // --- the rows that a use sees (nn/gathering)

  /// Gathers the rows, without padding. In a planned pass they are gathered ahead of time.
  Tensor gather(tensor::InFlight& in_flight) const {
    return trim(in_flight.weights().take(*this)[0]);
  }
  std::int64_t rows() const { return gathering_.rows(); }
  std::int64_t padded_rows() const { return gathering_.padded_rows(); }
  Tensor trim(const Tensor& gathered) const {
    const comm::LayerScope scope(layer());
    return gathering_.trim(gathered);
  }
  Tensor pad(const Tensor& rows) const { return gathering_.pad(rows); }
  const comm::Communicator& weight_comm() const { return gathering_.comm(); }

  std::string gather_name() const override { return name(); }
  bool is_whole() const override { return gathering_.is_whole(); }
  std::int64_t gathered_bytes() const override { return gathering_.bytes(); }
  bool arriving() const override { return shard_.arriving(); }
  tensor::Gathered start_gather() const override {
    const LayerScope issuer(layer());
    return gathering_.start();
  }

  // --- the gradient (nn/gradient_collector)

  GradientCollector& collector() { return collector_; }
  Tensor gradient() const { return collector_.gradient(); }
  bool has_gradient() const { return collector_.has_gradient(); }
  void forget_gradient() { collector_.forget(); }
  void drop_gradient() { collector_.drop(); }
  void move_gradient_to(const Tensor& home) { collector_.move_to(home); }
  void accumulate(const Tensor& part) { collector_.accumulate(part); }
  using Slot = GradientCollector::Slot;
  Slot gradient_slot() { return collector_.slot(); }
  using Use = GradientCollector::Use;
  std::shared_ptr<Use> use(tensor::InFlight& in_flight) { return collector_.use(in_flight); }
  Tensor own_part(const Tensor& padded) const { return collector_.own_part(padded); }
  const comm::Communicator& gradient_comm() const { return collector_.comm(); }

 private:
  Shard shard_;
  Gathering gathering_;
  GradientCollector collector_;
};

using ParameterPtr = std::shared_ptr<Parameter>;
using Parameters = std::vector<ParameterPtr>;

/// Throws InvariantError, with the name `who`, for a list that contains null, that contains a
/// parameter or a name twice, or that contains a parameter of another mesh.
void check_parameters(const Mesh& mesh, const Parameters& parameters, const char* who);

}  // namespace fourfold::nn
