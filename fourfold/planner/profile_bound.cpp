// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "fourfold/config/strategy.hpp"
#include "fourfold/plan/operation_time.hpp"
#include "fourfold/planner/amount.hpp"
#include "fourfold/planner/bound.hpp"

namespace fourfold::planner {

using grid::Axis;

namespace {

/// All passes of a place take as long as it takes for each of them. The place idles until the first
/// pass arrives, and after the last one has left: both go through the first chunks of all places
/// before it.
double time_of_places(const Amount& amount, const Candidate& c, double block, double outside,
                      double head) {
  double longest = 0;
  double before = 0;
  for (std::size_t i = 0; i < amount.places.size(); ++i) {
    const bool last = i + 1 == amount.places.size();
    const double place = amount.places[i] * block + c.chunks * outside + (last ? head : 0);
    longest = std::max(longest, amount.passes * place + before);
    before += amount.first_chunks[i] * block + outside;
  }
  return longest;
}

/// The time that an operation along data takes if nothing else is under way, and how much of that
/// it uses the links.
struct OnLinks {
  double seconds = 0;
  double inside = 0;
  double nics = 0;
};

/// What is done along data once a step, or the sum once a pass with ZeRO 2.
struct AlongData {
  OnLinks sum;     ///< of gradients
  OnLinks gather;  ///< of new weights
};

AlongData along_data(double weights, const config::Config& config, const Candidate& c,
                     const cluster::Cluster& cluster) {
  if (c.sizes.data == 1 || config::strategy_of(c.strategy).summa) return {};
  const cluster::GroupShape shape =
      cluster::shape_of(grid::Grid(c.sizes, c.placement), Axis::kData, cluster.gpus_per_host);
  const auto time = [&](schedule::Op op, schedule::DType dtype) -> OnLinks {
    const plan::OperationTime one = plan::time_of(
        {.op = op, .dtype = dtype, .count = static_cast<std::int64_t>(weights)}, shape, cluster);
    const double seconds = one.transfer.value();
    return {seconds, seconds * one.inside_load, seconds * one.nic_load};
  };
  const bool bf16 = config.train.precision == config::Precision::kBf16;
  const schedule::DType master = config.train.precision == config::Precision::kFloat64
                                     ? schedule::DType::kF64
                                     : schedule::DType::kF32;
  if (c.zero == 0) return {time(schedule::Op::kAllReduce, master), {}};
  return {time(schedule::Op::kReduceScatter, master),
          time(schedule::Op::kAllGather, bf16 ? schedule::DType::kBF16 : master)};
}

/// The bytes of a block's weights, gathered along z.
double bytes_of_block(const PassMemory& memory, const config::Config& config, const Candidate& c) {
  const double size = config.train.precision == config::Precision::kBf16      ? 2
                      : config.train.precision == config::Precision::kFloat64 ? 8
                                                                              : 4;
  return memory.weights * c.sizes.z * size;
}

constexpr double kMib = 1 << 20;

/// A pipeline keeps gathered weights from one use to the next as far as `overlap.keep_mib` allows,
/// and those of a few layers besides. Other weights are gathered for each use.
double time_of_block(const PassTime& pass, double block, double blocks,
                     const config::Config& config) {
  const double keep = static_cast<double>(config.overlap.keep_mib) * kMib + 2 * block;
  const double gathered = std::max(0.0, 1 - keep / (block * blocks));
  return pass.kept + gathered * std::max(0.0, pass.block - pass.kept);
}

/// The share of a block's weights that its largest layer has.
double largest_layer(const Workload& load) {
  double largest = 0;
  double all = 0;
  std::int64_t blocks = 0;
  for (const ForwardProduct& product : load.products) {
    if (product.linear) blocks = std::gcd(blocks, product.times);
  }
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) continue;
    const auto weight = static_cast<double>(product.extent.k * product.extent.n);
    largest = std::max(largest, weight);
    all += weight * static_cast<double>(product.times / blocks);
  }
  return all > 0 ? largest / all : 1;
}

/// Weights for the next pass are gathered ahead during the end of a pass, and gradients are summed
/// during the beginning of the next, as far as `overlap.window_mib` allows, or for one layer. A
/// profile, which has one pass, does not know this: so much shorter may the pass of a chunk be.
double overlap_of_passes(double block, double blocks, double largest, const config::Config& config,
                         const Candidate& c, const cluster::Cluster& cluster) {
  const double window = static_cast<double>(config.overlap.window_mib) * kMib;
  const cluster::GroupShape shape =
      cluster::shape_of(grid::Grid(c.sizes, c.placement), Axis::kZ, cluster.gpus_per_host);
  const double bytes = std::min(std::max(window, largest * block), block * blocks);
  return 2 * bytes / cluster.link(shape).bandwidth.value();
}

/// A profile of blocks that are not computed again gives a bound for those that are: waits do not
/// become shorter, except that more compute may hide what is done along z.
void compute_again(PassTime& pass) {
  pass.kept = std::min(pass.block, pass.kept) + pass.forward;
  pass.block = pass.kept;
  pass.backward += pass.forward;
}

/// The times of a pass of the candidate, or less: a pass of fewer samples than the profile's takes
/// at least its share of the time, since latency, weights and smaller products only add to it.
PassTime pass_of(Profile& profile, const Candidate& c, const cluster::Cluster& cluster) {
  PassTime pass = profile.time(grid::Grid(c.sizes, c.placement), cluster);
  if (c.checkpoint && !profile.checkpoint()) compute_again(pass);
  const double part = part_of(profile, c);
  for (double* time : {&pass.block, &pass.kept, &pass.forward, &pass.backward, &pass.outside,
                       &pass.inside_load, &pass.nic_load}) {
    *time *= part;
  }
  return pass;
}

/// Where blocks are not alike, a profile is one of all of them. A place of a pipeline runs its part
/// of all passes, and waits for the parts of one pass of all places before it: before its first
/// unit forward, and after its last one backward. The longest such time is shortest if all of them
/// are equal, so that each place has 1 - 1/passes of the place before it. Stages of several chunks
/// may be as short as one likes, so there only the mean of all places is sure.
Seconds bound_of_unlike(Profile& profile, const config::Config& config, const Candidate& c,
                        const cluster::Cluster& cluster) {
  const PassTime pass = pass_of(profile, c, cluster);
  const auto passes = static_cast<double>(config.train.batch / c.micro_batch);
  const double places = c.sizes.pipe;
  const double turns = c.chunks > 1 ? passes / places : 1 / (1 - std::pow(1 - 1 / passes, places));
  return Seconds(kInexact * turns * std::min(pass.block, pass.kept));
}

}  // namespace

Seconds lower_bound(Profile& profile, const Workload& load, const config::Config& config,
                    const Candidate& c, const cluster::Cluster& cluster) {
  if (!load.alike && c.sizes.pipe > 1) {
    return bound_of_unlike(profile, config, c, cluster);
  }
  const Amount amount(load, config, c);
  const double blocks = amount.blocks();
  const double passes = amount.passes;
  const int places = c.sizes.pipe;
  const PassTime pass = pass_of(profile, c, cluster);
  const bool along_z = c.sizes.z > 1 && !config::strategy_of(c.strategy).summa;
  const double bytes = bytes_of_block(profile.memory(), config, c);
  const double block =
      places > 1 && along_z ? time_of_block(pass, bytes, blocks, config) : pass.block;
  // Without a pipeline, what is done along z in one pass may overlap with the next pass: only the
  // waits of one pass for it are sure, and where the block is the whole model, with a beginning and
  // an end, not even these.
  const double other = std::min(block, pass.kept);
  const double head = places > 1 ? head_of_pass(load, c, cluster).value() : 0;
  const double sure = load.alike || passes == 1 ? 1 : 0;
  const double whole = c.sizes.z > 1 && places == 1 ? sure : passes;
  double step = places > 1 ? time_of_places(amount, c, block, pass.outside, head)
                           : whole * (blocks * block + pass.outside) +
                                 (passes - whole) * (blocks * other + pass.outside);
  step += pass.update * amount.fewest() / (c.zero == 0 ? 1 : c.sizes.data);
  if (along_z && places > 1) {
    // At most, all waits for gathers disappear.
    const double waits = blocks * (block - pass.kept);
    const double ahead =
        c.chunks * overlap_of_passes(bytes, blocks, largest_layer(load), config, c, cluster);
    step -= passes * std::min(waits, ahead);
  }
  // The first place begins when the weights of its first chunk are there, and ends with the
  // gradients of that chunk, which are complete in its last backward pass. Or, for all chunks of
  // the place: what is done along data can only overlap with the passes that the places take in
  // turn after the first gradient is complete, or before the last weight is used.
  const double own = amount.places.front();
  const AlongData data = along_data(profile.memory().weights * own, config, c, cluster);
  const double backward = own * (block - pass.forward) + pass.outside;
  const double forward = own * (block - pass.backward) + pass.outside;
  const double turns = c.chunks == 1 ? 0 : (c.chunks - 1) * places + (places - 1);
  const double turn = (blocks * block + c.chunks * pass.outside + head) / c.chunks;
  const auto exposed = [&](double seconds, double overlap) {
    const double first_chunk = (seconds - overlap) / c.chunks;
    return std::max({0.0, first_chunk, seconds - overlap / c.chunks - turns * turn});
  };
  const double sums = c.zero == 2 ? passes : 1;
  step += sums * exposed(data.sum.seconds, backward);
  step += exposed(data.gather.seconds, forward);
  const double inside =
      whole * own * pass.inside_load + sums * data.sum.inside + data.gather.inside;
  const double nics = whole * own * pass.nic_load + sums * data.sum.nics + data.gather.nics;
  return Seconds(kInexact * std::max({step, inside, nics}));
}

}  // namespace fourfold::planner
