// Finds the configurations that train a model fastest on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/planner/predictions.hpp"

namespace fourfold::planner {

struct SearchSpec {
  int ranks = 1;
  std::vector<std::string> strategies = {"4d", "summa2d", "summa2.5d"};
  Freedom freedom;
  Bytes memory;          ///< that the tensors of a rank may use
  std::size_t top = 10;  ///< how many plans are wanted
  int threads = 2;
  /// Of earlier searches with the same configuration and cluster; may be null.
  std::shared_ptr<Predictions> known;
  /// Called now and then with the share of the work that is done, from 0 to 1.
  std::function<void(double done, const std::string& text)> progress;
};

struct SearchResult {
  std::vector<Predicted> plans;  ///< the fastest first, one for each grid of a strategy
  std::map<std::string, std::int64_t> rejected;  ///< by reason
  std::int64_t considered = 0;                   ///< candidates that the model fits
  // These three depend on how fast each thread is, and so does how many are rejected for their
  // memory, and which of these is the smallest.
  std::int64_t refined = 0;    ///< of these, whose bounds were found by shared dry runs
  std::int64_t evaluated = 0;  ///< of these, by dry runs of their own
  std::int64_t priced = 0;     ///< placements of these that were replayed
  /// Predictions of time or memory that are below their bounds: there should be none.
  std::int64_t below_bound = 0;
  /// Of the candidates that need too much memory, the one that needs the least.
  std::optional<Candidate> smallest;
  Bytes smallest_memory;
};

/// The plans do not depend on the number of threads; counts do. Throws ConfigError when the model
/// fits no grid of so many ranks at all; where only the memory is missing, `plans` is empty.
SearchResult search(const config::Config& config, const cluster::Cluster& cluster,
                    const SearchSpec& spec);

}  // namespace fourfold::planner
