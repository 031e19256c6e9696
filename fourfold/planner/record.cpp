// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/record.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fourfold/model/stages.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

namespace {

std::int64_t sum_of(const Blocks& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
}

}  // namespace

Blocks stages_of(const model::Model& model, const Candidate& candidate, int places) {
  const int all = candidate.sizes.pipe;
  const int chunks = candidate.chunks;
  if (all * chunks == 1 || !model.alike()) return {model.blocks()};
  const Blocks cut = model::balanced(model.blocks(), all * chunks, 0, model.head_in_blocks());
  if (places == all) return cut;
  Blocks few;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const auto first = cut.begin() + std::ptrdiff_t{chunk} * all;
    const std::int64_t fullest = *std::max_element(first, first + all - 1);
    few.insert(few.end(), static_cast<std::size_t>(places - 1), fullest);
    few.push_back(*(first + all - 1));
  }
  return few;
}

Blocks shortened(Blocks blocks, std::int64_t smallest) {
  const std::int64_t less = *std::min_element(blocks.begin(), blocks.end()) - smallest;
  for (std::int64_t& count : blocks) count -= less;
  return blocks;
}

Reduced whole_step(const train::Recipe& recipe, const Candidate& candidate) {
  const Blocks stages = stages_of(*recipe.model, candidate, candidate.sizes.pipe);
  return {*std::min_element(stages.begin(), stages.end()), recipe.batch / recipe.micro_batch,
          candidate.sizes.pipe};
}

Recorded record(const config::Config& config, const Candidate& candidate, const Reduced& size,
                int first_places, Recorded known, const SharedNames& names) {
  Candidate small = candidate;
  small.sizes.pipe = size.places;
  train::Recipe recipe = train::recipe_of(apply(config, small));
  recipe.gather_names = names;
  const Blocks whole = stages_of(*recipe.model, candidate, size.places);
  const Blocks blocks = shortened(whole, size.blocks);
  // The same share of the weights of a rank can be kept, and its weights are as many segments
  // along data: what cannot overlap with compute is the last segment of the gradients and the first
  // one of the new weights, so both must be as large a part of the step as in the whole one.
  const double share = static_cast<double>(sum_of(blocks)) / static_cast<double>(sum_of(whole));
  const auto shared = [&](std::int64_t bytes) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(bytes) * std::min(1.0, share)));
  };
  recipe.overlap.keep = shared(recipe.overlap.keep);
  recipe.overlap.segment = shared(recipe.overlap.segment);
  if (recipe.model->alike()) {
    recipe.model = recipe.model->with_blocks(sum_of(blocks));
    if (blocks.size() > 1) recipe.stage_blocks = blocks;
  }
  recipe.batch = size.passes * recipe.micro_batch;
  const grid::Grid grid(small.sizes, small.placement);
  Recorded recorded = std::move(known);
  const int recorded_places = first_places > 0 ? first_places : size.places;
  for (int place = static_cast<int>(recorded.places.size()); place < recorded_places; ++place) {
    train::StepRecord step =
        train::dry_run(grid, train::typical_rank(grid, place, *recipe.model), recipe);
    recorded.places.push_back(std::move(step.schedule));
    if (step.peak() <= recorded.memory && place > 0) continue;
    recorded.memory = step.peak();
    recorded.by_class = step.at_peak;
  }
  return recorded;
}

}  // namespace fourfold::planner
