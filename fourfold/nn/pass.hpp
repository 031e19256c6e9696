// One pass of a batch through layers: what the layers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "fourfold/nn/kv_cache.hpp"
#include "fourfold/nn/vectors.hpp"
#include "fourfold/tensor/in_flight.hpp"

namespace fourfold::nn {

/// Lives as long as the forward pass. The graph that the pass makes may live longer.
class Pass {
 public:
  /// `in_flight` takes the communication that outlives a layer. It must outlive the graph that the
  /// pass makes. `training` switches dropout on.
  explicit Pass(tensor::InFlight& in_flight, bool training = false)
      : in_flight_(&in_flight), training_(training) {}
  /// A pass in which all vectors of `vectors` are gathered.
  Pass(tensor::InFlight& in_flight, const Vectors& vectors, bool training = false)
      : Pass(in_flight, training) {
    gather(vectors);
  }

  tensor::InFlight& in_flight() const { return *in_flight_; }
  bool training() const { return training_; }

  /// Continues texts whose earlier positions are in `cache`, which must outlive the pass.
  void continue_from(KvCache& cache) { cache_ = &cache; }
  /// Null in a pass over whole texts.
  KvCache* cache() const { return cache_; }

  /// Gathers the vectors, unless this pass has done so. The parts of a batch share them.
  void gather(const Vectors& vectors);
  /// Takes `gathered` for the gathered `vectors`.
  void take(const Vectors& vectors, const std::vector<Tensor>& gathered);

  /// The gathered vector of a layer; undefined for null, which is the bias of a layer without one.
  /// Throws InvariantError when nobody has gathered it in this pass.
  Tensor vector(const ParameterPtr& parameter) const;

 private:
  tensor::InFlight* in_flight_;
  bool training_;
  KvCache* cache_ = nullptr;
  std::map<const Parameter*, Tensor> gathered_;
};

}  // namespace fourfold::nn
