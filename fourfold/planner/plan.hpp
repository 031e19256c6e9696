// The answer of the planner: the best configurations with what follows from their predicted steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "fourfold/planner/search.hpp"

namespace fourfold::planner {

/// What was asked.
struct Question {
  config::Config config;
  cluster::Cluster cluster;
  int ranks = 1;
  double tokens = 0;                   ///< to train on; 0: not asked
  SearchSpec search;                   ///< `ranks` and `memory` are filled in from the others
  std::optional<grid::Sizes> explain;  ///< a grid to say everything about
};

/// What a plan means for its user.
struct Figures {
  double mfu = 0;             ///< model flops over the peak rate of all devices
  double units_a_second = 0;  ///< tokens or images
  double days = 0;            ///< to train on `Question::tokens`
  double price = 0;           ///< of these days; 0 where the cluster has no price
};

struct Answer {
  Question question;
  std::int64_t parameters = 0;
  Flops model_flops;       ///< of a step
  std::int64_t units = 0;  ///< tokens or images of a step
  /// "tokens" or "images".
  std::string unit() const { return question.config.model.has_images() ? "images" : "tokens"; }
  SearchResult found;  ///< the best plans, whatever their strategy
  /// The best of each strategy that was asked for by name, or why there is none.
  struct ByName {
    std::string strategy;
    std::optional<Predicted> plan;
    std::string why;
  };
  std::vector<ByName> by_name;
  std::optional<Predicted> explained;  ///< the best plan on `Question::explain`

  Figures figures_of(const Predicted& plan) const;
};

/// More devices than there are in any cluster.
inline constexpr std::int64_t kMostRanks = 1 << 20;

/// Throws ConfigError that names --gpus if there are none or more than kMostRanks.
void check_ranks(std::int64_t ranks);

/// "perlmutter has 6144 devices (1536 hosts with 4 each); this is for a larger one of its kind", or
/// nothing if the cluster has so many devices.
std::string larger_than_it_is(const cluster::Cluster& cluster, std::int64_t ranks);

/// Searches. `names` are strategies whose best plans are wanted too; they may be empty. Throws
/// ConfigError before the search if the model cannot be split over the grid to explain.
Answer answer(Question question, const std::vector<std::string>& names = {});

/// Throws ConfigError that says how much memory is missing and what would help, if nothing fits.
void check_found(const Answer& answer);

/// Why the second plan is slower than the first, in one line: "0.12 s slower: 0.10 s more exposed
/// along z, 0.02 s more compute"; or "as fast".
std::string difference(const Predicted& first, const Predicted& second);

}  // namespace fourfold::planner
