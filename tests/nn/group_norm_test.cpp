// GroupNorm with what follows it against libtorch's own, with groups that are cut by ranks and by
// parts of the input.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/nn/group_norm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"

#include "tests/nn/images.hpp"

namespace fourfold::test {
namespace {

using nn::Activations;
using nn::GroupNormSpec;

constexpr double kTolerance = 1e-10;
constexpr std::int64_t kSamples = 8;
constexpr std::int64_t kHeight = 3;
constexpr std::int64_t kWidth = 5;

/// What ranks must agree with.
struct Serial {
  explicit Serial(const GroupNormSpec& spec) {
    for (std::size_t i = 0; i < spec.parts.size(); ++i) {
      const std::int64_t channels = spec.parts[i];
      inputs.push_back((normal({kSamples * kHeight * kWidth, channels}, concat("input ", i)) + 3)
                           .set_requires_grad(true));
      scales.push_back((normal({channels}, concat("scale ", i)) + 1).set_requires_grad(true));
      shifts.push_back(normal({channels}, concat("shift ", i)).set_requires_grad(true));
    }
    const Tensor picture = picture_of(at::cat(inputs, 1), kHeight, kWidth);
    Tensor result =
        at::group_norm(picture, spec.groups, at::cat(scales), at::cat(shifts), spec.epsilon);
    if (spec.film) {
      film = normal({kSamples, 2 * spec.parts[0]}, "film", 0.5).set_requires_grad(true);
      const Tensor pairs = film.view({kSamples, -1, 2, 1, 1});
      result = result * (1 + pairs.select(2, 0)) + pairs.select(2, 1);
    }
    if (spec.silu) result = at::silu(result);
    const Tensor rows = rows_of(result);
    upstream = normal(rows.sizes().vec(), "upstream");
    rows.backward(upstream);
    output = rows.detach();
  }

  /// The columns of a part.
  static Tensor columns(const Tensor& rows, const GroupNormSpec& spec, std::size_t part) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < part; ++i) first += spec.parts[i];
    return rows.narrow(1, first, spec.parts[part]).contiguous();
  }

  std::vector<Tensor> inputs;
  std::vector<Tensor> scales;
  std::vector<Tensor> shifts;
  Tensor film;
  Tensor output;
  Tensor upstream;
};

void see_layer(Worst& worst, const tensor::Mesh& mesh, const GroupNormSpec& spec,
               const Serial& serial, const std::string& name) {
  const grid::Layout layout = image_layout(nn::channel_axes(spec.transposed, spec.activations));
  const nn::GroupNorm layer(mesh, spec, nn::Precision::float64(), 7);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < spec.parts.size(); ++i) {
    load(mesh, *layer.scales()[i], serial.scales[i].detach());
    load(mesh, *layer.shifts()[i], serial.shifts[i].detach());
    parts.push_back(leaf_of(mesh, serial.inputs[i].detach(), layout));
  }
  const Tensor film = spec.film ? leaf_of(mesh, serial.film.detach(), layout) : Tensor();
  const nn::Vectors vectors(mesh, layer.parameters());
  tensor::InFlight in_flight(mesh);
  const nn::Pass pass(in_flight, vectors);
  const std::int64_t samples = kSamples / mesh.size({grid::Axis::kData, grid::Axis::kZ});
  const std::vector<Tensor> outputs = nn::run(layer.flow(parts, film, samples, pass));
  Worst here;
  Tensor sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor whole = Serial::columns(serial.output, spec, i);
    here.see(relative_error(outputs[i].detach(), part_of(mesh, whole, layout), whole), "output");
    const Tensor upstream = Serial::columns(serial.upstream, spec, i);
    const Tensor one = (outputs[i] * part_of(mesh, upstream, layout)).sum();
    sum = sum.defined() ? sum + one : one;
  }
  sum.backward();
  in_flight.sums().drain();
  sum_over_replicas(mesh, layer.parameters());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Tensor& whole = serial.inputs[i].grad();
    here.see(relative_error(parts[i].grad(), part_of(mesh, whole, layout), whole),
             "input gradient");
    see_gradient(here, mesh, *layer.scales()[i], serial.scales[i].grad());
    see_gradient(here, mesh, *layer.shifts()[i], serial.shifts[i].grad());
  }
  if (spec.film) {
    const Tensor& whole = serial.film.grad();
    here.see(relative_error(film.grad(), part_of(mesh, whole, layout), whole), "film gradient");
  }
  worst.see(here.error, name + here.where);
}

class GroupNormOnGrid : public testing::TestWithParam<grid::Sizes> {};

TEST_P(GroupNormOnGrid, EqualsSerial) {
  std::vector<std::pair<GroupNormSpec, Serial>> cases;
  for (const std::int64_t groups : {1, 4, 9, 24}) {
    for (const bool silu : {false, true}) {
      const auto add = [&](std::vector<std::int64_t> parts, bool film) {
        const GroupNormSpec spec{.name = "norm",
                                 .parts = std::move(parts),
                                 .groups = groups,
                                 .silu = silu,
                                 .film = film};
        cases.emplace_back(spec, Serial(spec));
      };
      add({72}, false);
      add({72}, true);
      add({48, 24}, false);
    }
  }
  const grid::Grid grid(GetParam());
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    Worst worst;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      for (const bool transposed : {false, true}) {
        for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
          GroupNormSpec spec = cases[i].first;
          spec.transposed = transposed;
          spec.activations = activations;
          see_layer(worst, mesh, spec, cases[i].second,
                    concat(spec.groups, " groups of ", spec.parts.size(), " parts",
                           transposed ? ", transposed: " : ": "));
        }
      }
    }
    expect_on_all_ranks(world, worst.error <= kTolerance,
                        concat(grid, ": error ", worst.error, " of ", worst.where));
  });
}

INSTANTIATE_TEST_SUITE_P(Grids, GroupNormOnGrid, testing::ValuesIn(image_grids()), name_of_grid);

TEST(GroupNorm, CommunicatesOnlyWhereGroupsAreCut) {
  const grid::Sizes sizes{.x = 4};
  comm::World world = comm::recording::open(0, 4);
  const tensor::Mesh mesh(world, grid::Grid(sizes));
  const auto spans = [&](std::int64_t groups) {
    return nn::GroupNorm(mesh, {.name = "norm", .parts = {72}, .groups = groups},
                         nn::Precision::float64(), 7)
        .spans();
  };
  EXPECT_FALSE(spans(4));
  EXPECT_FALSE(spans(8));
  EXPECT_TRUE(spans(2));
  EXPECT_TRUE(spans(9));
}

TEST(GroupNorm, RefusesWhatDoesNotDivide) {
  EXPECT_EQ(nn::GroupNorm::misfit({.name = "norm", .parts = {24, 10}, .groups = 4}, {}),
            "norm: 34 channels cannot be divided into 4 groups; choose model.groups that divides "
            "them");
  EXPECT_EQ(
      nn::GroupNorm::misfit({.name = "norm", .parts = {24, 10}, .groups = 2}, {.x = 2, .y = 2}),
      "norm: 10 channels cannot be split over x times y = 4; choose sizes that divide them");
}

}  // namespace
}  // namespace fourfold::test
