// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "fourfold/config/strategy.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/plan/operation_time.hpp"
#include "fourfold/planner/pipeline_memory.hpp"

namespace fourfold::planner {

using grid::Axis;

namespace {

/// A step is predicted from parts of it, which may make it this much shorter than it is. So bounds
/// of whole steps must be shorter, too.
constexpr double kInexact = 0.98;

/// The share of all bytes that a member of a group of p sends in a gather or a reduce_scatter.
double share(int p) {
  return static_cast<double>(p - 1) / p;
}

/// The bytes of the tensors that are gathered or summed along each axis in a step.
using AxisBytes = std::array<double, grid::kAxisCount>;

struct Shape {
  double samples;  ///< of a rank's data and z, in a step
  double passes;
  int contract;
  int produce;
};

/// Forward: the input is gathered over p and the output summed over c. Backward: the gradient of
/// the output is gathered over c and that of the input summed over p. Weights are gathered over z
/// and their gradients summed, without a pipeline once a pass; then they are summed over data and
/// new weights gathered.
void add_linear(AxisBytes& bytes, const ForwardProduct& product, const Candidate& c,
                const Shape& shape, bool transposed) {
  const auto size = static_cast<double>(schedule::size_of(product.dtype));
  const double rows = static_cast<double>(product.extent.m) * shape.samples;
  const auto in = static_cast<double>(product.extent.k);
  const auto out = static_cast<double>(product.extent.n);
  const auto times = static_cast<double>(product.times) * size / c.sizes.pipe;
  const Axis contract = transposed ? Axis::kY : Axis::kX;
  const Axis produce = transposed ? Axis::kX : Axis::kY;
  bytes[grid::index_of(produce)] += times * 2 * rows * in / shape.contract;
  bytes[grid::index_of(contract)] += times * 2 * rows * out / shape.produce;
  const double weight = in * out / (shape.contract * shape.produce);
  // A pipeline may keep gathered weights from pass to pass, and sum their gradients once.
  bytes[grid::index_of(Axis::kZ)] += times * (c.sizes.pipe > 1 ? 1 : shape.passes) * 2 * weight;
  bytes[grid::index_of(Axis::kData)] += times * 2 * weight / c.sizes.z;
}

/// The weights of a convolution as those of a linear layer; its activations are counted for the
/// whole model.
void add_weights(AxisBytes& bytes, const ForwardProduct& product, const Candidate& c,
                 double passes) {
  const auto size = static_cast<double>(schedule::size_of(product.dtype));
  const auto times = static_cast<double>(product.times) * size / c.sizes.pipe;
  const double weight = static_cast<double>(product.extent.k) *
                        static_cast<double>(product.extent.n) / (c.sizes.x * c.sizes.y);
  bytes[grid::index_of(Axis::kZ)] += times * (c.sizes.pipe > 1 ? 1 : passes) * 2 * weight;
  bytes[grid::index_of(Axis::kData)] += times * 2 * weight / c.sizes.z;
}

/// The rate of the products of a layer, at the better of its two layouts.
double best_efficiency(const ForwardProduct& product, const Candidate& c, double samples,
                       const cluster::Device& device) {
  double best = 0;
  for (const bool transposed : {false, true}) {
    const int contract = transposed ? c.sizes.y : c.sizes.x;
    const int produce = transposed ? c.sizes.x : c.sizes.y;
    const auto part = [](double extent, int parts) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(extent / parts));
    };
    const auto m = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(product.extent.m) * samples));
    best = std::max(
        best, device.efficiency_of_product(m, part(static_cast<double>(product.extent.k), contract),
                                           part(static_cast<double>(product.extent.n), produce)));
  }
  return best;
}

double highest_efficiency(const cluster::Device& device) {
  double highest = 0;
  for (const cluster::ProductPoint& point : device.product_efficiency) {
    highest = std::max(highest, point.efficiency);
  }
  return highest;
}

/// The flops of a product for one sample, forward.
double flops_of(const ForwardProduct& product) {
  return 2.0 * static_cast<double>(product.extent.m) * static_cast<double>(product.extent.k) *
         static_cast<double>(product.extent.n) * static_cast<double>(product.times);
}

/// The products outside of blocks, of a rank that has them in a pass.
double head_of_pass(const Workload& load, const Candidate& c, const cluster::Cluster& cluster) {
  double flops = 0;
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) flops += 3 * flops_of(product);
  }
  const double rate = cluster.device.peak(load.dtype).value() * highest_efficiency(cluster.device);
  return flops * static_cast<double>(c.micro_batch) * c.sizes.pipe / (c.ranks() * rate);
}

double compute_of_rank(const Workload& load, const Candidate& c, std::int64_t batch,
                       const cluster::Cluster& cluster) {
  const cluster::Device& device = cluster.device;
  const double peak = device.peak(load.dtype).value();
  const auto split = static_cast<double>(c.sizes.data) * c.sizes.z;
  const double per_pass = static_cast<double>(c.micro_batch) / split;
  double seconds = 0;
  for (const ForwardProduct& product : load.products) {
    const double forward = flops_of(product);
    // Backward there are two products of the same size. Products outside the blocks are not
    // computed again.
    const bool in_block = product.linear || product.conv;
    const double times = c.checkpoint && in_block ? 4 : 3;
    const double efficiency =
        in_block ? best_efficiency(product, c, per_pass, device) : highest_efficiency(device);
    seconds += times * forward / (peak * efficiency);
  }
  const double attention = load.attention_flops + (c.checkpoint ? load.forward_attention_flops : 0);
  seconds += attention / (peak * device.attention_efficiency);
  return seconds * static_cast<double>(batch) / c.ranks();
}

}  // namespace

AxisLinks links_of(const grid::Grid& grid, const cluster::Cluster& cluster) {
  const auto& algorithms = cluster.network.algorithms;
  const bool two_level = cluster.network.library == cluster::Library::kNccl &&
                         std::find(algorithms.begin(), algorithms.end(),
                                   cluster::NcclAlgorithm::kTwoLevel) != algorithms.end();
  AxisLinks links;
  for (const Axis axis : grid::kAllAxes) {
    if (grid.size(axis) == 1) continue;
    const cluster::GroupShape shape = cluster::shape_of(grid, axis, cluster.gpus_per_host);
    const cluster::Link link = cluster.link(shape);
    const double all = share(shape.members) / link.bandwidth.value();
    links.inside[grid::index_of(axis)] = all * link.inside_load;
    links.nics[grid::index_of(axis)] = all * link.nic_load;
    if (!two_level || !shape.spans_hosts()) continue;
    // A ring inside each host and one between the hosts send less than one ring over all members.
    links.inside[grid::index_of(axis)] *= share(shape.per_host) / share(shape.members);
    links.nics[grid::index_of(axis)] *= share(shape.hosts()) / share(shape.members);
  }
  return links;
}

/// Both ways to lay out a layer: only the shorter one is a bound. Where blocks are not alike,
/// layers are laid out as the model's dry run shows.
Seconds link_bound(const Workload& load, const Candidate& c, std::int64_t batch,
                   const AxisLinks& links) {
  if (config::strategy_of(c.strategy).summa) return {};
  const auto split = static_cast<double>(c.sizes.data) * c.sizes.z;
  const double passes = static_cast<double>(batch) / static_cast<double>(c.micro_batch);
  AxisBytes least{};
  const double activations = static_cast<double>(batch) / split / c.sizes.pipe;
  least[grid::index_of(Axis::kX)] += activations * load.bytes_along_x / c.sizes.y;
  least[grid::index_of(Axis::kY)] += activations * load.bytes_along_y / c.sizes.x;
  for (const ForwardProduct& product : load.products) {
    if (product.conv) add_weights(least, product, c, passes);
    if (!product.linear || !load.alike) continue;
    std::array<AxisBytes, 2> ways{};
    for (const bool transposed : {false, true}) {
      const Shape shape{static_cast<double>(batch) / split, passes,
                        transposed ? c.sizes.y : c.sizes.x, transposed ? c.sizes.x : c.sizes.y};
      add_linear(ways[transposed ? 1 : 0], product, c, shape, transposed);
    }
    for (std::size_t axis = 0; axis < least.size(); ++axis) {
      least[axis] += std::min(ways[0][axis], ways[1][axis]);
    }
  }
  double inside = 0;
  double nics = 0;
  for (std::size_t axis = 0; axis < least.size(); ++axis) {
    inside += least[axis] * links.inside[axis];
    nics += least[axis] * links.nics[axis];
  }
  return Seconds(kInexact * std::max(inside, nics));
}

Seconds compute_bound(const Workload& load, const Candidate& c, std::int64_t batch,
                      const cluster::Cluster& cluster) {
  const double passes = static_cast<double>(batch) / static_cast<double>(c.micro_batch);
  const double idle = (c.sizes.pipe - 1) / (passes * c.chunks);
  return Seconds(compute_of_rank(load, c, batch, cluster) * (1 + idle));
}

Seconds lower_bound(const Workload& load, const Candidate& c, std::int64_t batch,
                    const cluster::Cluster& cluster) {
  const AxisLinks links = links_of(grid::Grid(c.sizes, c.placement), cluster);
  return std::max(compute_bound(load, c, batch, cluster), link_bound(load, c, batch, links));
}

namespace {

/// The passes of a rank, and the blocks of the places of the pipeline.
struct Amount {
  Amount(const Workload& load, const config::Config& config, const Candidate& c)
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
  /// The most and the fewest of a place.
  double blocks() const { return *std::max_element(places.begin(), places.end()); }
  double fewest() const { return *std::min_element(places.begin(), places.end()); }

  double passes;
  std::vector<double> places;           ///< blocks of all stages of a place
  std::vector<double> first_chunks;     ///< blocks of its first stage
  std::vector<double> chunks_of_first;  ///< blocks of each stage of the first place
};

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

/// The samples of a rank in a pass of the candidate, relative to those of the profile.
double part_of(const Profile& profile, const Candidate& c) {
  const double split = static_cast<double>(c.sizes.data) * c.sizes.z;
  return static_cast<double>(c.micro_batch) / (split * static_cast<double>(profile.samples()));
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
  const double head = places > 1 ? head_of_pass(load, c, cluster) : 0;
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

namespace {

/// Of weights, gradients and the optimizer's state.
double weights_of_rank(const Workload& load, const Candidate& c) {
  const double size = static_cast<double>(schedule::size_of(load.dtype));
  const double master = std::max(size, 4.0);
  const grid::Sizes& s = c.sizes;
  const bool summa = config::strategy_of(c.strategy).summa;
  const double shards = static_cast<double>(s.x) * s.y * s.pipe * (summa ? 1 : s.z);
  const double replicas = static_cast<double>(s.data) * (summa ? s.z : 1);
  const double gradients = c.zero == 2 ? master / replicas : master;
  const double copy = size < master ? master : 0;  // of the weights, in the master type
  const double moments = (2 * master + copy) / (c.zero == 0 ? 1 : replicas);
  // Stages of a pipeline need not be even: the embedding may be on one of them alone.
  return static_cast<double>(load.parameters) / shards * (size + gradients + moments);
}

}  // namespace

Bytes least_memory(const Workload& load, const Candidate& c) {
  const double weights = weights_of_rank(load, c);
  if (c.checkpoint) return Bytes(static_cast<std::int64_t>(weights));
  // The backward pass of a linear layer needs its input.
  const double size = static_cast<double>(schedule::size_of(load.dtype));
  double inputs = 0;
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) continue;
    inputs += size * static_cast<double>(product.extent.m) * static_cast<double>(product.extent.k) *
              static_cast<double>(product.times);
  }
  const double held = inputs * static_cast<double>(c.micro_batch) / c.ranks();
  return Bytes(static_cast<std::int64_t>(weights + held));
}

bool holds_sums(const Candidate& c, std::int64_t passes) {
  return c.sizes.pipe > 1 && c.sizes.z > 1 && !c.checkpoint && passes > 1 &&
         !config::strategy_of(c.strategy).summa;
}

Bytes least_memory(const Profile& profile, const Workload& load, const config::Config& config,
                   const Candidate& c) {
  const PassMemory& pass = profile.memory();
  if (!load.alike) {
    // The place that needs the most needs at least as much as all need on average.
    const double held = part_of(profile, c) * pass.first / c.sizes.pipe;
    return Bytes(static_cast<std::int64_t>(weights_of_rank(load, c) + held));
  }
  const Amount amount(load, config, c);
  double held = pass.first + (amount.blocks() - 1) * pass.block;
  if (c.sizes.pipe > 1) {
    const auto passes = static_cast<std::int64_t>(amount.passes);
    const double size = config.train.precision == config::Precision::kFloat64 ? 8 : 4;
    const double sums = holds_sums(c, passes) ? pass.weights * c.sizes.z * size : 0;
    std::vector<ChunkMemory> chunks;
    for (const double blocks : amount.chunks_of_first) {
      chunks.push_back({blocks * pass.block, blocks * sums});
    }
    held = most_held(c.sizes.pipe, passes, chunks) + std::max(0.0, pass.first - pass.block);
  }
  return Bytes(static_cast<std::int64_t>(weights_of_rank(load, c) + held));
}

}  // namespace fourfold::planner
