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

/// The bytes that a rank sends along each axis for one linear layer in a step.
using AxisBytes = std::array<double, grid::kAxisCount>;

struct Shape {
  double samples;  ///< of a rank's data and z, in a step
  double passes;
  int contract;
  int produce;
};

/// Forward: the input is gathered over p and the output summed over c. Backward: the gradient of
/// the output is gathered over c and that of the input summed over p. Weights are gathered over z
/// once a pass and their gradients summed; then they are summed over data and new weights gathered.
void add_linear(AxisBytes& bytes, const ForwardProduct& product, const Candidate& c,
                const Shape& shape, bool transposed) {
  const auto size = static_cast<double>(schedule::size_of(product.dtype));
  const double rows = static_cast<double>(product.extent.m) * shape.samples;
  const auto in = static_cast<double>(product.extent.k);
  const auto out = static_cast<double>(product.extent.n);
  const auto times = static_cast<double>(product.times) * size / c.sizes.pipe;
  const Axis contract = transposed ? Axis::kY : Axis::kX;
  const Axis produce = transposed ? Axis::kX : Axis::kY;
  bytes[grid::index_of(produce)] += times * 2 * share(shape.produce) * rows * in / shape.contract;
  bytes[grid::index_of(contract)] += times * 2 * share(shape.contract) * rows * out / shape.produce;
  const double weight = in * out / (shape.contract * shape.produce);
  bytes[grid::index_of(Axis::kZ)] += times * shape.passes * 2 * share(c.sizes.z) * weight;
  bytes[grid::index_of(Axis::kData)] += times * 2 * share(c.sizes.data) * weight / c.sizes.z;
}

/// The time that the bytes of all axes need on the links that they share.
double on_links(const AxisBytes& bytes, const grid::Grid& grid, const cluster::Cluster& cluster) {
  double inside = 0;
  double nics = 0;
  for (const Axis axis : grid::kAllAxes) {
    const double sent = bytes[grid::index_of(axis)];
    if (sent == 0 || grid.size(axis) == 1) continue;
    const cluster::Link link = cluster.link(cluster::shape_of(grid, axis, cluster.gpus_per_host));
    const double alone = sent / link.bandwidth.value();
    inside += alone * link.inside_load;
    nics += alone * link.nic_load;
  }
  return std::max(inside, nics);
}

/// Both ways to lay out a layer: only the shorter one is a bound.
double shortest_links(const Workload& load, const Candidate& c, std::int64_t batch,
                      const cluster::Cluster& cluster) {
  if (config::strategy_of(c.strategy).summa) return 0;
  const auto split = static_cast<double>(c.sizes.data) * c.sizes.z;
  const double passes = static_cast<double>(batch) / static_cast<double>(c.micro_batch);
  AxisBytes least{};
  for (const ForwardProduct& product : load.products) {
    if (!product.linear) continue;
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
  return on_links(least, grid::Grid(c.sizes, c.placement), cluster);
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

double compute_of_rank(const Workload& load, const Candidate& c, std::int64_t batch,
                       const cluster::Cluster& cluster) {
  const cluster::Device& device = cluster.device;
  const double peak = device.peak(load.dtype).value();
  const auto split = static_cast<double>(c.sizes.data) * c.sizes.z;
  const double per_pass = static_cast<double>(c.micro_batch) / split;
  double seconds = 0;
  for (const ForwardProduct& product : load.products) {
    const double forward =
        2.0 * static_cast<double>(product.extent.m) * static_cast<double>(product.extent.k) *
        static_cast<double>(product.extent.n) * static_cast<double>(product.times);
    // Backward there are two products of the same size. Products outside the blocks are not
    // computed again.
    const double times = c.checkpoint && product.linear ? 4 : 3;
    const double efficiency =
        product.linear
            ? best_efficiency(product, c, per_pass, device)
            : std::max_element(
                  device.product_efficiency.begin(), device.product_efficiency.end(),
                  [](const auto& a, const auto& b) { return a.efficiency < b.efficiency; })
                  ->efficiency;
    seconds += times * forward / (peak * efficiency);
  }
  const double attention = load.attention_flops + (c.checkpoint ? load.forward_attention_flops : 0);
  seconds += attention / (peak * device.attention_efficiency);
  return seconds * static_cast<double>(batch) / c.ranks();
}

}  // namespace

Seconds lower_bound(const Workload& load, const Candidate& c, std::int64_t batch,
                    const cluster::Cluster& cluster) {
  const double passes = static_cast<double>(batch) / static_cast<double>(c.micro_batch);
  const double idle = (c.sizes.pipe - 1) / (passes * c.chunks);
  const double compute = compute_of_rank(load, c, batch, cluster) * (1 + idle);
  return Seconds(std::max(compute, shortest_links(load, c, batch, cluster)));
}

Bytes least_memory(const Workload& load, const Candidate& c) {
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
  return Bytes(static_cast<std::int64_t>(static_cast<double>(load.parameters) / shards *
                                         (size + gradients + moments)));
}

}  // namespace fourfold::planner
