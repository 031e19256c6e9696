// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/amount.hpp"

#include <algorithm>

#include "fourfold/model/stages.hpp"

namespace fourfold::planner {

Amount::Amount(const Workload& load, const config::Config& config, const Candidate& c)
    : passes(static_cast<double>(config.train.batch / c.micro_batch)),
      places(static_cast<std::size_t>(c.sizes.pipe), 0.0) {
  const std::vector<std::int64_t> stages =
      load.alike ? model::balanced(load.blocks, c.sizes.pipe * c.chunks, 0, load.head_in_blocks)
                 : std::vector<std::int64_t>{load.blocks};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    places[i % places.size()] += static_cast<double>(stages[i]);
    if (i < places.size()) first_chunks.push_back(static_cast<double>(stages[i]));
    if (i % places.size() == 0) chunks_of_first.push_back(static_cast<double>(stages[i]));
  }
}

double Amount::blocks() const {
  return *std::max_element(places.begin(), places.end());
}

double Amount::fewest() const {
  return *std::min_element(places.begin(), places.end());
}

double part_of(const Profile& profile, const Candidate& c) {
  const double split = static_cast<double>(c.sizes.data) * c.sizes.z;
  return static_cast<double>(c.micro_batch) / (split * static_cast<double>(profile.samples()));
}

}  // namespace fourfold::planner
