// One pass of a batch through layers: what the layers share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "fourfold/nn/kv_cache.hpp"
#include "fourfold/nn/vectors.hpp"

namespace fourfold::nn {

/// Lives as long as the forward pass. The graph that the pass makes may live longer.
class Pass {
 public:
  /// `training` switches dropout on.
  explicit Pass(bool training = false) : training_(training) {}
  /// A pass in which all vectors of `vectors` are gathered.
  explicit Pass(const Vectors& vectors, bool training = false) : training_(training) {
    gather(vectors);
  }

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
  bool training_;
  KvCache* cache_ = nullptr;
  std::map<const Parameter*, Tensor> gathered_;
};

}  // namespace fourfold::nn
