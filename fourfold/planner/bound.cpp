// SPDX-License-Identifier: Apache-2.0
#include "fourfold/planner/bound.hpp"

#include <algorithm>
#include <array>

#include "fourfold/config/strategy.hpp"

namespace fourfold::planner {

using grid::Axis;

namespace {

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

Seconds head_of_pass(const Workload& load, const Candidate& c, const cluster::Cluster& cluster) {
  double flops = 0;
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) flops += 3 * flops_of(product);
  }
  const double rate = cluster.device.peak(load.dtype).value() * highest_efficiency(cluster.device);
  return Seconds(flops * static_cast<double>(c.micro_batch) * c.sizes.pipe / (c.ranks() * rate));
}

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

}  // namespace fourfold::planner
