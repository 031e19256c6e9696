// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/profile.hpp"

#include <algorithm>

#include "fourfold/plan/compute_time.hpp"
#include "fourfold/plan/operation_time.hpp"
#include "fourfold/plan/program.hpp"
#include "fourfold/plan/replay.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

using grid::Axis;
using schedule::Compute;
using schedule::Issue;
using schedule::Schedule;
using schedule::Step;
using schedule::Wait;

namespace {

/// The updates of weights alone.
Schedule updates_of(const Schedule& step) {
  Schedule result;
  for (const Step& one : step.steps()) {
    const auto* compute = std::get_if<Compute>(&one);
    if (compute != nullptr && compute->arithmetic.work == schedule::Work::kOptimizer) {
      result.compute(*compute);
    }
  }
  return result;
}

bool along_replicas(const Issue& issue) {
  return issue.axes.contains(Axis::kData) || issue.axes.contains(Axis::kPipe);
}

/// A pipeline sums the gradients of several passes once, and gathers vectors once a step.
bool not_in_every_pass(const Issue& issue) {
  const bool gathers = issue.collective.op == schedule::Op::kAllGather && issue.axes == Axis::kZ;
  return along_replicas(issue) || (issue.axes.contains(Axis::kZ) && !gathers);
}

bool along_z(const Issue& issue) {
  return along_replicas(issue) || issue.axes.contains(Axis::kZ);
}

/// Seconds of compute.
struct Sums {
  double all = 0;
  double forward = 0;
};

Sums compute_of(const Schedule& step, const cluster::Cluster& cluster) {
  Sums sums;
  for (const Step& one : step.steps()) {
    const auto* compute = std::get_if<Compute>(&one);
    if (compute == nullptr) continue;
    const double seconds = plan::seconds_of(*compute, cluster).value();
    sums.all += seconds;
    if (compute->phase == schedule::Phase::kForward) sums.forward += seconds;
  }
  return sums;
}

}  // namespace

Schedule without(const Schedule& step, const std::function<bool(const Issue&)>& leaves_out) {
  constexpr std::int64_t kDropped = -1;
  std::vector<std::int64_t> numbers;  // by old number
  std::int64_t kept = 0;
  for (const Step& one : step.steps()) {
    if (const auto* issue = std::get_if<Issue>(&one)) {
      numbers.push_back(leaves_out(*issue) ? kDropped : kept++);
    }
  }
  Schedule result;
  for (const Step& one : step.steps()) {
    if (const auto* compute = std::get_if<Compute>(&one)) {
      if (compute->phase != schedule::Phase::kUpdate) result.compute(*compute);
    } else if (const auto* issue = std::get_if<Issue>(&one)) {
      if (leaves_out(*issue)) continue;
      result.issue(issue->collective, issue->axes, issue->group_size, issue->index, issue->lane,
                   issue->reach);
    } else {
      const std::int64_t waited = std::get<Wait>(one).number;
      const std::int64_t index = waited < 0 ? waited + step.operations() : waited;
      const std::int64_t number = numbers[static_cast<std::size_t>(index)];
      if (number != kDropped) result.wait(waited < 0 ? number - kept : number);
    }
  }
  return result;
}

Profile::Profile(const config::Config& config, const ProfileKey& key,
                 const std::shared_ptr<train::GatherNames>& names)
    : checkpoint_(key.checkpoint), samples_(key.samples), pipeline_(key.pipeline) {
  Candidate candidate;
  candidate.strategy = key.summa ? "summa2.5d" : "4d";
  // The middle one of three places has blocks only.
  const int places = pipeline_ ? 3 : 1;
  candidate.sizes = {.x = key.x, .y = key.y, .z = key.z, .data = 1, .pipe = places};
  candidate.activations = key.activations;
  candidate.checkpoint = key.checkpoint;
  candidate.micro_batch = key.samples * key.z;
  candidate.zero = key.zero;
  train::Recipe recipe = train::recipe_of(apply(config, candidate));
  recipe.batch = recipe.micro_batch;
  recipe.gather_names = names;
  const grid::Grid grid(candidate.sizes);
  const model::ModelPtr model = recipe.model;
  const int rank = train::typical_rank(grid, places / 2, *model);
  double memory[2] = {};
  double weights[2] = {};
  for (const std::int64_t blocks : {1, 2}) {
    if (model->alike()) {
      recipe.model = model->with_blocks(pipeline_ ? blocks + 2 : blocks);
      if (pipeline_) recipe.stage_blocks = {1, blocks, 1};
      recipe.overlap.keep = key.keep * blocks;
    } else if (blocks == 1) {  // nothing is outside of the block that is the whole model
      passes_.emplace_back();
      if (key.z > 1) kept_.emplace_back();
      updates_.emplace_back();
      continue;
    }
    const train::StepRecord step = train::dry_run(grid, rank, recipe);
    passes_.push_back(without(step.schedule, pipeline_ ? not_in_every_pass : along_replicas));
    if (pipeline_ || key.z > 1) kept_.push_back(without(step.schedule, along_z));
    updates_.push_back(updates_of(step.schedule));
    using tensor::MemoryClass;
    const tensor::MemoryUse& peak = step.at_peak;
    const auto i = static_cast<std::size_t>(blocks - 1);
    memory[i] = static_cast<double>(peak[MemoryClass::kActivations].value());
    weights[i] = static_cast<double>(peak[MemoryClass::kParameters].value());
  }
  const double size =
      static_cast<double>(c10::elementSize(recipe.model->execution().precision.compute));
  const double more = std::max(0.0, memory[1] - memory[0]);
  memory_ = {model->alike() ? memory[0] : more, more, (weights[1] - weights[0]) / size};
  for (const Step& one : passes_.back().steps()) {
    const auto* issue = std::get_if<Issue>(&one);
    if (issue == nullptr || issue->group_size == 1) continue;
    const Groups groups{issue->axes, issue->group_size};
    if (std::find(groups_.begin(), groups_.end(), groups) == groups_.end()) {
      groups_.push_back(groups);
    }
  }
}

PassTime Profile::time(const grid::Grid& grid, const cluster::Cluster& cluster) {
  std::vector<cluster::GroupShape> shapes;
  for (const Groups& groups : groups_) {
    shapes.push_back(cluster::part_shape(grid, groups.axes, groups.size, cluster.gpus_per_host));
  }
  // Groups that use the NICs of a host in turn are faster than those that use them at once.
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const int apart = plan::groups_in_turn(grid, groups_[i].axes, cluster.gpus_per_host);
    cluster::GroupShape alone = shapes[i];
    if (apart == 1 || !alone.spans_hosts() || alone.siblings % apart != 0) continue;
    alone.siblings /= apart;
    if (cluster.link(alone).bandwidth > cluster.link(shapes[i]).bandwidth) shapes.push_back(alone);
  }
  {
    const std::lock_guard lock(mutex_);
    const auto found = times_.find(shapes);
    if (found != times_.end()) return found->second;
  }
  const PassTime time = priced(grid, cluster);
  const std::lock_guard lock(mutex_);
  return times_.emplace(std::move(shapes), time).first->second;
}

PassTime Profile::priced(const grid::Grid& grid, const cluster::Cluster& cluster) const {
  double steps[2];
  double kept[2];
  Sums sums[2];
  double inside[2] = {};
  double nics[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    const plan::ReplayOptions bound{.never_in_the_way = true};
    const auto replayed = [&](const Schedule& pass) {
      return pass.steps().empty() ? 0 : plan::replay({pass}, grid, cluster, bound).step.value();
    };
    steps[i] = replayed(passes_[i]);
    kept[i] = kept_.empty() ? steps[i] : replayed(kept_[i]);
    sums[i] = compute_of(passes_[i], cluster);
    for (const Step& one : (pipeline_ ? kept_ : passes_)[i].steps()) {
      const auto* issue = std::get_if<Issue>(&one);
      if (issue == nullptr || issue->group_size == 1) continue;
      const plan::OperationTime time = plan::time_of(
          issue->collective,
          cluster::part_shape(grid, issue->axes, issue->group_size, cluster.gpus_per_host),
          cluster);
      inside[i] += time.transfer.value() * time.inside_load;
      nics[i] += time.transfer.value() * time.nic_load;
    }
  }
  PassTime result;
  const double compute = sums[1].all - sums[0].all;
  result.block = std::max(steps[1] - steps[0], compute);
  result.kept = std::max(kept[1] - kept[0], compute);
  result.forward = sums[1].forward - sums[0].forward;
  result.backward = compute - result.forward;
  result.outside = pipeline_
                       ? std::max(0.0, std::min(steps[0] - result.block, kept[0] - result.kept))
                       : std::max(0.0, 2 * sums[0].all - sums[1].all);
  result.update = compute_of(updates_[1], cluster).all - compute_of(updates_[0], cluster).all;
  result.inside_load = inside[1] - inside[0];
  result.nic_load = nics[1] - nics[0];
  return result;
}

Profiles::Profiles(const config::Config& config) : config_(config) {
  Candidate plain;
  plain.micro_batch = config.train.batch;
  alike_ = train::recipe_of(apply(config, plain)).model->alike();
}

Profile& Profiles::of(const Candidate& candidate) {
  const bool summa = config::strategy_of(candidate.strategy).summa;
  const grid::Sizes& s = candidate.sizes;
  ProfileKey key{.summa = summa,
                 .x = s.x,
                 .y = s.y,
                 .z = s.z,
                 .activations = candidate.activations,
                 .checkpoint = candidate.checkpoint,
                 .samples = candidate.micro_batch / (std::int64_t{s.data} * s.z),
                 .pipeline = s.pipe > 1 && alike_,
                 .zero = summa ? candidate.zero : 1};
  if (s.z > 1 && !summa && !key.pipeline) {
    constexpr std::int64_t kMib = std::int64_t{1} << 20;
    key.keep = config_.overlap.keep_mib * kMib / (alike_ ? config_.model.layers : 1);
  }
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = &profiles_[key];
  }
  std::call_once(entry->made,
                 [&] { entry->profile = std::make_unique<Profile>(config_, key, names_); });
  return *entry->profile;
}

}  // namespace fourfold::planner
