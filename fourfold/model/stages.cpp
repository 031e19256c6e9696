// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/stages.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::model {

using grid::Axis;

std::string stages_misfit(std::int64_t layers, int places, int chunks) {
  if (chunks < 1 || (places == 1 && chunks > 1)) {
    return concat("parallel.chunks must be 1 where parallel.pipe is 1, not ", chunks);
  }
  const std::int64_t stages = std::int64_t{places} * chunks;
  if (stages <= layers) return {};
  return concat("the pipeline has ", stages, " stages and the model only ", layers,
                " layers; choose a smaller parallel.pipe or parallel.chunks");
}

void check_stages(std::int64_t layers, int places, int chunks) {
  const std::string reason = stages_misfit(layers, places, chunks);
  if (!reason.empty()) throw ConfigError(reason);
}

std::vector<std::int64_t> balanced(std::int64_t blocks, int stages, double embedding, double head) {
  check_stages(blocks, stages, 1);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), 1);
  std::vector<double> costs(counts.size(), 1);
  costs.front() += embedding;
  costs.back() += head;
  for (std::int64_t left = blocks - stages; left > 0; --left) {
    // The cheapest stage gets one more block. Of several such stages it is the last, since earlier
    // stages hold more passes.
    const auto cheapest = std::min_element(costs.rbegin(), costs.rend());
    *cheapest += 1;
    counts[static_cast<std::size_t>(costs.rend() - cheapest - 1)] += 1;
  }
  return counts;
}

std::vector<std::int64_t> balanced(const std::vector<double>& costs, int stages) {
  const auto blocks = static_cast<std::int64_t>(costs.size());
  check_stages(blocks, stages, 1);
  std::vector<double> sums(costs.size() + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), sums.begin() + 1);
  const auto cost = [&](std::int64_t begin, std::int64_t end) {
    return sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
  };
  // best[n][b]: the largest cost of a stage when the last n stages begin with block b.
  const auto rows = static_cast<std::size_t>(stages) + 1;
  std::vector<std::vector<double>> best(rows, std::vector<double>(costs.size() + 1, INFINITY));
  best[0].back() = 0;
  const auto rest = [&](int count, std::int64_t begin) -> double& {
    return best[static_cast<std::size_t>(count)][static_cast<std::size_t>(begin)];
  };
  for (int count = 1; count <= stages; ++count) {
    for (std::int64_t begin = 0; begin < blocks; ++begin) {
      for (std::int64_t end = begin + 1; end <= blocks; ++end) {
        const double largest = std::max(cost(begin, end), rest(count - 1, end));
        rest(count, begin) = std::min(rest(count, begin), largest);
      }
    }
  }
  std::vector<std::int64_t> counts;
  std::int64_t begin = 0;
  for (int left = stages; left > 0; --left) {
    // Of equally good cuts the first: earlier stages hold more passes.
    std::int64_t end = begin + 1;
    while (std::max(cost(begin, end), rest(left - 1, end)) > rest(stages, 0)) ++end;
    counts.push_back(end - begin);
    begin = end;
  }
  return counts;
}

Stages::Stages(const Mesh& mesh, ModelPtr model, std::int64_t samples, int chunks,
               const std::vector<std::int64_t>& blocks)
    : mesh_(&mesh), model_(std::move(model)), samples_(samples) {
  const int places = mesh.size(Axis::kPipe);
  check_stages(model_->blocks(), places, chunks);
  if (places * chunks == 1) {
    cut_ = {model_->whole()};
  } else {
    cut_ = blocks.empty() ? model_->cut(places * chunks) : model_->cut(blocks);
  }
  FOURFOLD_CHECK_EQ(cut_.size(), static_cast<std::size_t>(places * chunks));
  for (std::size_t s = static_cast<std::size_t>(mesh.coord()[Axis::kPipe]); s < cut_.size();
       s += static_cast<std::size_t>(places)) {
    parts_.push_back(model_->make(mesh, samples, cut_[s]));
  }
}

const Part& Stages::whole() const {
  FOURFOLD_CHECK(is_whole(), "the model is cut into ", cut_.size(), " stages");
  return *parts_[0];
}

int Stages::place_of(std::size_t stage) const {
  return static_cast<int>(stage) % mesh_->size(Axis::kPipe);
}

std::vector<nn::Parameters> Stages::groups() const {
  std::vector<nn::Parameters> all;
  for (const auto& part : parts_) {
    const std::vector<nn::Parameters> more = part->groups();
    all.resize(std::max(all.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) {
      all[i].insert(all[i].end(), more[i].begin(), more[i].end());
    }
  }
  return all;
}

nn::Parameters Stages::parameters() const {
  nn::Parameters all;
  for (const auto& part : parts_) {
    const nn::Parameters more = part->parameters();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

tensor::GatherOrder Stages::gatherables() const {
  tensor::GatherOrder all;
  for (const auto& part : parts_) {
    const tensor::GatherOrder more = part->gatherables();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<Owned> owners(const Mesh& mesh, const Stages& stages) {
  const tensor::MemoryMeter aside;  // the model made here does not count as this rank's memory
  const tensor::MemoryMeter::Counting counting(aside);
  comm::World world = comm::recording::open(mesh.world().rank(), mesh.world().size());
  const Mesh dry(world, mesh.grid());
  std::vector<Owned> all;
  for (std::size_t s = 0; s < stages.all().size(); ++s) {
    const auto part = stages.model().make(dry, stages.samples(), stages.all()[s]);
    for (const nn::ParameterPtr& p : part->parameters()) {
      all.push_back({p->spec(), p->precision().compute, stages.place_of(s)});
    }
  }
  return all;
}

void check_owners(const Mesh& mesh, const Stages& stages) {
  if (stages.is_whole() || mesh.dry()) return;
  const nn::Parameters own = stages.parameters();
  const std::vector<Owned> all = owners(mesh, stages);
  std::vector<double> counts(all.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    counts[i] = static_cast<double>(std::count_if(
        own.begin(), own.end(), [&](const auto& p) { return p->name() == all[i].spec.name; }));
  }
  mesh.join(Axis::kPipe)
      .all_reduce({counts.data(), static_cast<std::int64_t>(counts.size()), schedule::DType::kF64})
      .wait();
  for (std::size_t i = 0; i < all.size(); ++i) {
    FOURFOLD_CHECK(counts[i] == 1, all[i].spec.name, " has ", counts[i], " owners");
  }
}

}  // namespace fourfold::model
