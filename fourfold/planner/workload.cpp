// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/workload.hpp"

#include <algorithm>

#include "fourfold/planner/candidate.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/setup.hpp"

namespace fourfold::planner {

using schedule::Compute;
using schedule::Phase;
using schedule::Work;

namespace {

/// The arithmetic of one sample.
Workload sample_of(train::Recipe recipe) {
  recipe.batch = recipe.micro_batch = 1;
  recipe.chunks = 1;
  const train::StepRecord record = train::dry_run(grid::Grid(), 0, recipe);
  Workload load;
  load.parameters = recipe.model->parameter_count();
  for (const schedule::Step& step : record.schedule.steps()) {
    const auto* compute = std::get_if<Compute>(&step);
    if (compute == nullptr || compute->phase == Phase::kRecompute) continue;
    const schedule::Arithmetic& done = compute->arithmetic;
    const bool forward = compute->phase == Phase::kForward;
    const double flops = done.flops.value();
    if (done.work == Work::kAttention) {
      load.attention_flops += flops;
      if (forward) load.forward_attention_flops += flops;
    }
    if (done.work != Work::kProduct) continue;
    load.product_flops += flops;
    load.dtype = done.dtype;
    if (!forward) continue;
    load.forward_product_flops += flops;
    const ForwardProduct product{done.extent, done.dtype, compute->name == "linear",
                                 compute->name == "conv"};
    const auto same = std::find_if(load.products.begin(), load.products.end(), [&](const auto& p) {
      return p.extent == product.extent && p.linear == product.linear;
    });
    if (same == load.products.end()) {
      load.products.push_back(product);
    } else {
      ++same->times;
    }
  }
  return load;
}

/// The bytes that a rank of a square of 2 x 2 gathers and sums along an axis for so many samples.
double bytes_along(grid::Axis axis, train::Recipe recipe, std::int64_t samples) {
  recipe.batch = recipe.micro_batch = samples;
  recipe.chunks = 1;
  const train::StepRecord record = train::dry_run(grid::Grid({.x = 2, .y = 2}), 0, recipe);
  double bytes = 0;
  for (const schedule::Step& step : record.schedule.steps()) {
    const auto* issue = std::get_if<schedule::Issue>(&step);
    if (issue == nullptr || issue->axes != axis) continue;
    const schedule::Collective& c = issue->collective;
    const auto size =
        static_cast<double>(c.count) * static_cast<double>(schedule::size_of(c.dtype));
    if (c.op == schedule::Op::kAllReduce) bytes += 2 * size;
    if (c.op == schedule::Op::kAllGather || c.op == schedule::Op::kReduceScatter) bytes += size;
  }
  return bytes;
}

/// What grows with the samples are activations. Those that travel along one of the two axes are
/// split over the other.
void add_bytes(Workload& load, const train::Recipe& recipe) {
  if (!recipe.model->misfit({.x = 2, .y = 2}, 1).empty()) return;
  const auto of_sample = [&](grid::Axis axis) {
    return 2 * (bytes_along(axis, recipe, 2) - bytes_along(axis, recipe, 1));
  };
  load.bytes_along_x = of_sample(grid::Axis::kX);
  load.bytes_along_y = of_sample(grid::Axis::kY);
}

/// The same of a model with so many blocks.
Workload sample_of(train::Recipe recipe, std::int64_t blocks) {
  recipe.model = recipe.model->with_blocks(blocks);
  return sample_of(std::move(recipe));
}

template <class Number>
Number at(std::int64_t blocks, Number one, Number two) {
  return one + static_cast<Number>(blocks - 1) * (two - one);
}

}  // namespace

Workload workload_of(const config::Config& config) {
  Candidate plain;
  plain.micro_batch = config.train.batch;
  // Replicated activations travel no more than sharded ones, which may be gathered once more in the
  // backward pass.
  plain.activations = config::Activations::kReplicated;
  const train::Recipe recipe = train::recipe_of(apply(config, plain));
  if (!recipe.model->alike()) {
    Workload whole = sample_of(recipe);
    whole.alike = false;
    add_bytes(whole, recipe);
    return whole;
  }
  const std::int64_t blocks = recipe.model->blocks();
  Workload one = sample_of(recipe, 1);
  one.head_in_blocks = recipe.model->head_in_blocks();
  if (blocks == 1) return one;
  const Workload two = sample_of(recipe, 2);
  Workload all = two;
  all.head_in_blocks = one.head_in_blocks;
  all.blocks = blocks;
  for (ForwardProduct& product : all.products) {
    const auto before =
        std::find_if(one.products.begin(), one.products.end(), [&](const ForwardProduct& p) {
          return p.extent == product.extent && p.linear == product.linear;
        });
    const std::int64_t first = before == one.products.end() ? 0 : before->times;
    product.times = at(blocks, first, product.times);
  }
  all.product_flops = at(blocks, one.product_flops, two.product_flops);
  all.attention_flops = at(blocks, one.attention_flops, two.attention_flops);
  all.forward_product_flops = at(blocks, one.forward_product_flops, two.forward_product_flops);
  all.forward_attention_flops =
      at(blocks, one.forward_attention_flops, two.forward_attention_flops);
  all.parameters = at(blocks, one.parameters, two.parameters);
  return all;
}

}  // namespace fourfold::planner
