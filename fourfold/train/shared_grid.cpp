// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/shared_grid.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "fourfold/base/check.hpp"
#include "fourfold/config/strategy.hpp"
#include "fourfold/train/all_ranks.hpp"

namespace fourfold::train {

namespace {

using Words = std::vector<std::int64_t>;

/// What the first rank sends to the others before its text.
struct Decision {
  std::int64_t refused = 0;
  std::int64_t letters = 0;
  std::int64_t given = 0;
  std::array<std::int64_t, grid::kAxisCount> sizes{};
  std::array<std::int64_t, grid::kAxisCount> placement{};
  std::int64_t micro_batch = 0;
  std::int64_t strategy = 0;  ///< its place in config::strategies()
  std::int64_t replicated = 0;
  std::int64_t zero = 0;
  std::int64_t chunks = 1;
  std::int64_t checkpoint = 0;

  static constexpr std::int64_t kWords = 9 + 2 * grid::kAxisCount;
};
static_assert(sizeof(Decision) == Decision::kWords * sizeof(std::int64_t));

std::int64_t place_of(std::string_view name) {
  const std::vector<config::Strategy>& all = config::strategies();
  return std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == name; }) -
         all.begin();
}

Decision decision_of(const config::Config& config, bool refused, const std::string& text) {
  const config::ParallelConfig& parallel = config.parallel;
  const grid::Sizes& s = parallel.sizes;
  Decision decision = {
      .refused = refused ? 1 : 0,
      .letters = static_cast<std::int64_t>(text.size()),
      .given = config.parallel.given ? 1 : 0,
      .sizes = {s.x, s.y, s.z, s.data, s.pipe},
      .micro_batch = config.train.micro_batch,
      .strategy = place_of(parallel.strategy),
      .replicated = parallel.activations == config::Activations::kReplicated ? 1 : 0,
      .zero = parallel.zero,
      .chunks = parallel.chunks,
      .checkpoint = config.train.checkpoint_activations ? 1 : 0};
  for (std::size_t i = 0; i < decision.placement.size(); ++i) {
    decision.placement[i] = static_cast<std::int64_t>(parallel.placement[i]);
  }
  return decision;
}

void apply(const Decision& decision, config::Config& config) {
  const auto size = [&](std::size_t i) { return static_cast<int>(decision.sizes[i]); };
  config.parallel.sizes = {
      .x = size(0), .y = size(1), .z = size(2), .data = size(3), .pipe = size(4)};
  config.parallel.given = decision.given != 0;
  config.train.micro_batch = decision.micro_batch;
  config.train.checkpoint_activations = decision.checkpoint != 0;
  config::ParallelConfig& parallel = config.parallel;
  const auto place = static_cast<std::size_t>(decision.strategy);
  if (place < config::strategies().size()) parallel.strategy = config::strategies()[place].name;
  parallel.activations =
      decision.replicated != 0 ? config::Activations::kReplicated : config::Activations::kSharded;
  parallel.zero = static_cast<int>(decision.zero);
  parallel.chunks = static_cast<int>(decision.chunks);
  for (std::size_t i = 0; i < decision.placement.size(); ++i) {
    parallel.placement[i] = static_cast<grid::Axis>(decision.placement[i]);
  }
}

/// Sends the first rank's text to all ranks, which know its length.
void share(const comm::Communicator& everyone, std::string& text) {
  Words letters(text.begin(), text.end());
  everyone.broadcast(comm::view(letters), 0).wait();
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(letters[i]);
}

}  // namespace

std::string settle_on_all_ranks(comm::World& world, config::Config& config,
                                const SettleGrid& settle) {
  const comm::Communicator everyone =
      world.communicator(grid::Grid({.x = world.size()}).everyone(world.rank()));
  const RankMemory memory = memory_for_training(config, world, everyone);
  if (world.size() == 1) return settle(config, memory);
  Decision decision;
  std::string text;
  if (world.rank() == 0) {
    const comm::LongWork long_work = world.long_work("choosing a grid");
    bool refused = false;
    try {
      text = settle(config, memory);
    } catch (const ConfigError& error) {
      text = error.what();
      refused = true;
    }
    decision = decision_of(config, refused, text);
  }
  everyone
      .broadcast(
          {reinterpret_cast<std::int64_t*>(&decision), Decision::kWords, schedule::DType::kI64}, 0)
      .wait();
  text.resize(static_cast<std::size_t>(decision.letters));
  share(everyone, text);
  if (decision.refused != 0) throw ConfigError(text);
  apply(decision, config);
  return text;
}

}  // namespace fourfold::train
