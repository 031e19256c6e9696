// Predictions of candidates, kept for later searches of the same configuration on the same cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "fourfold/planner/evaluate.hpp"
#include "fourfold/planner/profile.hpp"

namespace fourfold::planner {

/// What is known of a configuration on a cluster. Searches for other numbers of ranks or other
/// strategies share it. All functions may be called by several threads.
class Predictions {
 public:
  Predictions(const config::Config& config, const cluster::Cluster& cluster)
      : config_(config), cluster_(cluster), profiles_(config) {}

  const config::Config& config() const { return config_; }
  const cluster::Cluster& cluster() const { return cluster_; }
  Profiles& profiles() { return profiles_; }

  /// A candidate that is looked at: its dry runs are made when they are first needed.
  class Of {
   public:
    Of(Predictions& all, const Candidate& candidate);

    /// If it is more than `limit`, it may be that of the first place of a pipeline alone.
    Bytes memory(Bytes limit);
    /// The step with another placement than that of the candidate.
    Predicted price(const grid::Placement& placement);
    /// Whether dry runs were made here.
    bool ran_dry() const { return evaluation_.has_value(); }

   private:
    const Evaluation& evaluation(Bytes limit);

    Predictions* all_;
    Candidate candidate_;
    std::string key_;
    std::optional<Evaluation> evaluation_;
  };

 private:
  struct Entry {
    std::optional<Bytes> memory;
    Bytes at_least;  ///< memory, as far as it is known
    std::map<grid::Placement, Predicted> prices;
  };

  config::Config config_;
  cluster::Cluster cluster_;
  Profiles profiles_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace fourfold::planner
