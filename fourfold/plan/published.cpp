// SPDX-License-Identifier: Apache-2.0
#include "fourfold/plan/published.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include "fourfold/base/check.hpp"

namespace fourfold::plan {

namespace {

constexpr double kBytes = 2;  // of a number in bf16

/// The share of its data that a member of a ring sends.
double ring(int size) {
  return static_cast<double>(size - 1) / size;
}

/// A product from `in` widths to `out` widths. A transposed product contracts over rows.
struct Product {
  double in;
  double out;
  bool transposed;
};
constexpr std::array<Product, 4> kProducts = {{
    {1, 3, false},  // queries, keys and values
    {1, 1, true},
    {1, 4, false},
    {4, 1, true},
}};

/// Bytes that a rank sends for one product in a step.
struct Volumes {
  double row = 0;
  double column = 0;
  double depth = 0;
  double data = 0;
};

Volumes volumes_of(const PublishedModel& model, const PublishedGrid& grid, const Product& product,
                   Published variant) {
  const auto width = static_cast<double>(model.width);
  const double weights = product.in * product.out * width * width / (grid.column * grid.row);
  Volumes volumes;
  // An all_reduce of f32. Two all_gathers and a reduce_scatter of each pass.
  volumes.data = 2 * ring(grid.data) * weights / grid.depth * 2 * kBytes;
  volumes.depth = 3 * ring(grid.depth) * weights * kBytes * static_cast<double>(model.accumulation);

  const double rows = static_cast<double>(model.batch) * static_cast<double>(model.context) /
                      (grid.data * grid.depth);
  // The forward reduction is repeated when the layer is computed again.
  double forward = 2 * 2 * rows * product.out * width * kBytes;
  double backward = 2 * rows * product.in * width * kBytes;
  const bool swapped = product.transposed && variant == Published::kAsPublished;
  if (swapped) {
    forward = 2 * 2 * rows * product.in * width * kBytes;
    backward = 2 * rows * product.out * width * kBytes;
  }
  if (product.transposed) {
    volumes.row = ring(grid.row) * forward / grid.column;
    volumes.column = ring(grid.column) * backward / grid.row;
  } else {
    volumes.column = ring(grid.column) * forward / grid.row;
    volumes.row = ring(grid.row) * backward / grid.column;
  }
  return volumes;
}

}  // namespace

std::string to_string(const PublishedGrid& grid) {
  return concat("r", grid.row, " c", grid.column, " d", grid.depth, " dp", grid.data);
}

std::ostream& operator<<(std::ostream& out, const PublishedGrid& grid) {
  return out << to_string(grid);
}

BytesPerSecond published_bandwidth(const cluster::Cluster& cluster, int inner, int size) {
  FOURFOLD_CHECK(inner >= 1 && size >= 1);
  const int gpus = cluster.gpus_per_host;
  if (inner * size <= gpus) {
    return cluster
        .link({.members = size, .per_host = size, .siblings = gpus / size, .stride = inner})
        .bandwidth;
  }
  return cluster.network.between() * (1.0 / std::min(gpus, inner));
}

Seconds published_time(const PublishedModel& model, const PublishedGrid& grid,
                       const cluster::Cluster& cluster, Published variant) {
  Volumes sum;
  for (const Product& product : kProducts) {
    const Volumes volumes = volumes_of(model, grid, product, variant);
    sum.row += volumes.row;
    sum.column += volumes.column;
    sum.depth += volumes.depth;
    sum.data += volumes.data;
  }
  // The authors divide GiB by 10^9 bytes per second.
  constexpr double kGib = 1 << 30;
  constexpr double kGigabyte = 1e9;
  const auto seconds = [&](double volume, int inner, int size) {
    if (size == 1) return 0.0;
    return volume / kGib / (published_bandwidth(cluster, inner, size).value() / kGigabyte);
  };
  const double layer = seconds(sum.column, 1, grid.column) +
                       seconds(sum.row, grid.column, grid.row) +
                       seconds(sum.depth, grid.column * grid.row, grid.depth) +
                       seconds(sum.data, grid.column * grid.row * grid.depth, grid.data);
  return Seconds(layer * static_cast<double>(model.layers));
}

std::vector<PublishedChoice> published_search(const PublishedModel& model, int gpus,
                                              int least_tensor, const cluster::Cluster& cluster,
                                              Published variant) {
  std::vector<PublishedChoice> choices;
  for (int row = 1; row <= gpus; row *= 2) {
    for (int column = 1; row * column <= gpus; column *= 2) {
      for (int depth = 1; row * column * depth <= gpus; depth *= 2) {
        const int tensor = row * column * depth;
        const int data = gpus / tensor;
        const bool powers_of_two = tensor * data == gpus && (data & (data - 1)) == 0;
        if (!powers_of_two || tensor < least_tensor ||
            model.batch % (std::int64_t{data} * depth) != 0)
          continue;
        const PublishedGrid grid{row, column, depth, data};
        choices.push_back({published_time(model, grid, cluster, variant), grid});
      }
    }
  }
  std::stable_sort(
      choices.begin(), choices.end(),
      [](const PublishedChoice& a, const PublishedChoice& b) { return a.time < b.time; });
  return choices;
}

}  // namespace fourfold::plan
