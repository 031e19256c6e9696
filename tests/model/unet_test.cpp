// A whole U-Net on every grid against one process with libtorch's own operations: prediction, loss
// and the gradients of all parameters.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/nn/loss.hpp"

#include "tests/model/compare.hpp"
#include "tests/model/unet_reference.hpp"
#include "tests/nn/images.hpp"

namespace fourfold::test {
namespace {

using grid::Axis;
using model::UNetSpec;
using nn::Activations;

struct UNetCase {
  grid::Sizes sizes;
  UNetSpec spec = small_unet();
  std::int64_t samples = 16;
  bool training = true;
  bool halves = true;
};

Tensor own_samples(const tensor::Mesh& mesh, const Tensor& all) {
  const grid::Axes axes = {Axis::kData, Axis::kZ};
  const std::int64_t local = all.size(0) / mesh.size(axes);
  return all.narrow(0, mesh.index(axes) * local, local).contiguous();
}

/// Compares with a floor: with few channels in a group the gradient of some biases is zero, and all
/// that remains of it are errors of rounding.
void see_gradient_above(Worst& worst, const tensor::Mesh& mesh, nn::Parameter& parameter,
                        const Tensor& whole, double floor) {
  const grid::Block block = block_here(mesh, parameter);
  const Tensor scale =
      at::full({1}, std::max(whole.abs().max().item<double>(), floor), at::kDouble);
  worst.see(
      relative_error(nn::real_part(parameter.gradient(), block), block_of(whole, block), scale),
      parameter.name());
}

constexpr std::uint64_t kStep = 3;

/// What the ranks of a case share: computed once, by the definition.
struct Expected {
  explicit Expected(const UNetCase& c)
      : initial(initial_weights(c.spec)),
        weights(perturbed(initial)),
        images(some_images(c.spec, 0, c.samples)),
        result(run_unet_reference(c.spec, weights, images, kStep, c.training)) {}

  Weights initial;
  Weights weights;
  Tensor images;
  UNetResult result;
};

/// Checks the initial values, and replaces them.
void load_all(Worst& worst, const tensor::Mesh& mesh, const model::UNet& unet,
              const Expected& expected) {
  for (const nn::ParameterPtr& parameter : unet.parameters()) {
    const grid::Block block = block_here(mesh, *parameter);
    const bool same = at::equal(nn::real_part(parameter->value(), block),
                                block_of(expected.initial.at(parameter->name()), block));
    worst.see(same ? 0 : INFINITY, parameter->name() + " initial value");
    load(mesh, *parameter, expected.weights.at(parameter->name()));
  }
}

void check_unet(comm::World& world, const UNetCase& c, const Expected& expected) {
  const model::UNetModel model(c.spec);
  const UNetResult& reference = expected.result;
  tensor::Overlap overlap;
  overlap.halves = c.halves;
  const tensor::Mesh mesh(world, grid::Grid(c.sizes), overlap);
  const model::UNet unet(mesh, c.spec, c.samples);
  Worst worst;
  load_all(worst, mesh, unet, expected);
  nn::Batch batch = model.batch(c.samples);
  batch.step = kStep;
  tensor::InFlight in_flight(mesh);
  {
    const at::NoGradGuard no_graph;
    nn::Pass reading(in_flight, c.training);
    const Tensor prediction =
        unet.predict({}, {own_samples(mesh, reference.noised), own_samples(mesh, reference.times)},
                     batch, reading)[0];
    worst.see(
        relative_error(prediction, own_samples(mesh, reference.prediction), reference.prediction),
        "prediction");
  }
  nn::Pass pass(in_flight, c.training);
  const Tensor loss =
      unet.loss({batch, {own_samples(mesh, expected.images)}}, model.terms(c.samples), pass);
  const double total = nn::total_loss(mesh, loss).item<double>();
  worst.see(std::abs(total / reference.loss - 1), "loss");
  loss.backward();
  in_flight.sums().drain();
  sum_over_replicas(mesh, unet.parameters());
  for (const nn::ParameterPtr& parameter : unet.parameters()) {
    see_gradient_above(worst, mesh, *parameter, reference.gradients.at(parameter->name()),
                       1e-6 * reference.largest);
  }
  expect_on_all_ranks(world, reference.gradients.size() == unet.parameters().size(), "parameters");
  expect_on_all_ranks(world, worst.error <= 1e-10,
                      concat(grid::Grid(c.sizes), ": error ", worst.error, " of ", worst.where));
}

void run_unet(const UNetCase& c) {
  const Expected expected(c);
  on_threads(grid::Grid(c.sizes).ranks(),
             [&](comm::World& world) { check_unet(world, c, expected); });
}

class UNetOnGrids : public testing::TestWithParam<grid::Sizes> {
 protected:
  /// As many that a rank has two samples.
  static UNetCase small_case() {
    const grid::Sizes& sizes = GetParam();
    return {.sizes = sizes, .samples = 2 * sizes.data * sizes.z};
  }
};

TEST_P(UNetOnGrids, ShardedEqualsSerial) {
  UNetCase c = small_case();
  c.spec.dropout = 0.2;
  run_unet(c);
}

TEST_P(UNetOnGrids, ReplicatedEqualsSerial) {
  UNetCase c = small_case();
  c.spec.execution.activations = Activations::kReplicated;
  c.spec.colours = 3;
  c.training = false;
  run_unet(c);
}

/// Every second grid with halves and replicated activations.
TEST_P(UNetOnGrids, CheckpointedEqualsSerial) {
  static bool halves = false;
  halves = !halves;
  UNetCase c = small_case();
  c.spec.execution.checkpoint = true;
  c.spec.execution.activations = halves ? Activations::kReplicated : Activations::kSharded;
  c.spec.dropout = 0.2;
  c.halves = halves;
  run_unet(c);
}

INSTANTIATE_TEST_SUITE_P(UNet, UNetOnGrids, testing::ValuesIn(image_grids()), name_of_grid);

/// Images of 12, 6 and 3 pixels, two blocks a level, attention at odd and even levels, samples that
/// cannot be halved evenly.
TEST(UNet, OddImagesEqualSerial) {
  for (const grid::Sizes& sizes : {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2},
                                   grid::Sizes{.x = 3, .y = 2}, grid::Sizes{.y = 2, .z = 2}}) {
    UNetCase c{.sizes = sizes, .samples = 3 * sizes.z};
    c.spec.image = 12;
    c.spec.channels = 12;
    c.spec.blocks = 2;
    c.spec.attention = {6, 3};
    c.spec.heads = 6;
    c.spec.multipliers = {1, 2, 3};
    c.spec.noise.schedule = model::NoiseSpec::Schedule::kLinear;
    run_unet(c);
  }
}

/// Heads that only one axis divides: attention is computed by several ranks alike.
TEST(UNet, FewHeadsEqualSerial) {
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.x = 2, .y = 2, .z = 2}}) {
    for (const Activations activations : {Activations::kSharded, Activations::kReplicated}) {
      UNetCase c{.sizes = sizes, .samples = 2 * sizes.z};
      c.spec.heads = 2;
      c.spec.execution.activations = activations;
      run_unet(c);
    }
  }
}

// --- sizes

UNetSpec paper_spec(std::int64_t channels) {
  UNetSpec spec;
  spec.channels = channels;
  spec.blocks = 3;
  spec.learn_sigma = true;
  return spec;
}

TEST(UNet, HasAsManyParametersAsThePapersNetworks) {
  for (const auto& [channels, count] :
       {std::pair{416, 554'281'318L}, std::pair{576, 1'062'470'598L},
        std::pair{800, 2'049'272'806L}, std::pair{1120, 4'016'220'326L},
        std::pair{1600, 8'195'825'606L}}) {
    EXPECT_EQ(model::UNetModel(paper_spec(channels)).parameter_count(), count);
  }
}

TEST(UNet, CountsTheFlopsOfThePapersNetworks) {
  // Forward passes of one sample, in units of 10^12.
  for (const auto& [channels, flops] : {std::pair{416, 0.173}, std::pair{1600, 2.544}}) {
    const double forward = model::UNetModel(paper_spec(channels)).flops(1).value() / 3e12;
    EXPECT_NEAR(forward, flops, 0.0005 + 0.001 * flops);
  }
}

// --- what does not fit

std::string complaint(const UNetSpec& spec) {
  try {
    const model::UNetModel model(spec);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(UNet, RefusesSizesThatNoNetworkCanHave) {
  UNetSpec spec = small_unet();
  EXPECT_EQ(complaint(spec), "");
  spec.image = 6;
  EXPECT_NE(complaint(spec).find("images of 6"), std::string::npos) << complaint(spec);
  spec = small_unet();
  spec.attention = {3};
  EXPECT_NE(complaint(spec).find("those of 4, 2, 1"), std::string::npos) << complaint(spec);
  spec = small_unet();
  spec.groups = 5;
  EXPECT_NE(complaint(spec).find("model.groups"), std::string::npos) << complaint(spec);
  spec = small_unet();
  spec.heads = 7;
  EXPECT_NE(complaint(spec).find("model.heads"), std::string::npos) << complaint(spec);
  spec = small_unet();
  spec.execution.product = nn::ProductKind::kSumma;
  EXPECT_NE(complaint(spec).find("SUMMA"), std::string::npos) << complaint(spec);
}

TEST(UNet, SaysWhyAGridDoesNotFit) {
  const model::UNetModel model(small_unet());
  EXPECT_EQ(model.misfit({.x = 2, .y = 4}, 1), "");
  EXPECT_NE(model.misfit({.x = 5}, 4).find("x times y"), std::string::npos)
      << model.misfit({.x = 5}, 4);
  EXPECT_NE(model.misfit({.data = 3}, 4).find("4 samples"), std::string::npos);
  EXPECT_NE(model.misfit({.pipe = 100}, 4).find("pipe=100"), std::string::npos);
  UNetSpec few = small_unet();
  few.heads = 2;
  EXPECT_NE(model::UNetModel(few).misfit({.x = 8}, 4).find("heads"), std::string::npos);
  // 36 channels divide by x and by y, but the swap of a skip's inputs cuts them into 8 blocks.
  UNetSpec odd = small_unet();
  odd.channels = 36;
  odd.groups = 12;
  odd.heads = 8;
  for (const auto activations : {nn::Activations::kSharded, nn::Activations::kReplicated}) {
    odd.execution.activations = activations;
    const std::string reason = model::UNetModel(odd).misfit({.x = 4, .y = 2}, 4);
    EXPECT_NE(reason.find("x times y = 8"), std::string::npos) << reason;
  }
}

TEST(UNet, NamesTheGridsThatWork) {
  on_threads(4, [](comm::World& world) {
    UNetSpec spec = small_unet();
    spec.channels = 6;
    spec.groups = 6;
    spec.heads = 6;
    std::string message;
    try {
      const tensor::Mesh mesh(world, grid::Grid({.x = 4}));
      const model::UNet unet(mesh, spec, 4);
    } catch (const ConfigError& error) {
      message = error.what();
    }
    expect_on_all_ranks(world,
                        message.find("these grids work: ") != std::string::npos &&
                            message.find("data=4") != std::string::npos,
                        message);
  });
}

TEST(UNet, WithLearnedVariancesIsDryRunOnly) {
  on_threads(1, [](comm::World& world) {
    UNetSpec spec = small_unet();
    spec.learn_sigma = true;
    const model::UNetModel model(spec);
    const tensor::Mesh mesh(world, grid::Grid());
    const model::UNet unet(mesh, spec, 1);
    tensor::InFlight in_flight(mesh);
    nn::Pass pass(in_flight, true);
    std::string message;
    try {
      unet.loss({model.batch(1), {some_images(spec, 0, 1)}}, 1, pass);
    } catch (const ConfigError& error) {
      message = error.what();
    }
    expect_on_all_ranks(world, message.find("learn_sigma") != std::string::npos, message);
  });
}

// --- stages

TEST(UNet, IsCutIntoStagesOfEvenCost) {
  const model::UNetModel model(paper_spec(416));
  const std::vector<double> flops = model.block_flops();
  double all = 0;
  for (const double one : flops) all += one;
  for (const int stages : {2, 4, 8}) {
    std::int64_t next = 0;
    for (const model::Stage& stage : model.cut(stages)) {
      EXPECT_EQ(stage.blocks.begin, next);
      next = stage.blocks.end;
      double cost = 0;
      for (std::int64_t i = stage.blocks.begin; i < next; ++i) cost += flops[std::size_t(i)];
      EXPECT_LT(cost, 1.35 * all / stages) << stages;
    }
    EXPECT_EQ(next, model.blocks());
  }
}

}  // namespace
}  // namespace fourfold::test
