// Finds the configurations that train a model fastest on a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/planner/evaluate.hpp"
#include "fourfold/planner/workload.hpp"

namespace fourfold::planner {

struct SearchSpec {
  int ranks = 1;
  std::vector<std::string> strategies = {"4d", "summa2d", "summa2.5d"};
  Freedom freedom;
  Bytes memory;          ///< that the tensors of a rank may use
  std::size_t top = 10;  ///< how many plans are wanted
  int threads = 2;
  /// Called now and then with the share of the work that is done, from 0 to 1.
  std::function<void(double done, const std::string& text)> progress;
};

struct SearchResult {
  std::vector<Predicted> plans;  ///< the fastest first, one for each grid of a strategy
  std::map<std::string, std::int64_t> rejected;
  std::int64_t considered = 0;  ///< candidates that the model fits
  std::int64_t dominated = 0;   ///< of these: others are as good, and need not save memory
  std::int64_t evaluated = 0;   ///< of these, by dry runs
  std::int64_t priced = 0;      ///< replays, of several placements each
  /// Of the candidates that need too much memory, the one that needs the least.
  std::optional<Candidate> smallest;
  Bytes smallest_memory;
};

/// The result does not depend on the number of threads. Throws ConfigError when the model fits no
/// grid of so many ranks at all; where only the memory is missing, `plans` is empty.
SearchResult search(const config::Config& config, const cluster::Cluster& cluster,
                    const SearchSpec& spec);

/// The placements of a grid that differ in what crosses hosts, the given one first.
std::vector<grid::Placement> placements_of(const grid::Sizes& sizes, const grid::Placement& first,
                                           int gpus_per_host);

}  // namespace fourfold::planner
