// Images that a U-Net draws: those of one process on every grid.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/draw.hpp"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fourfold/comm/self/self.hpp"

#include "tests/model/compare.hpp"
#include "tests/model/unet_reference.hpp"

namespace fourfold::test {
namespace {

using model::Drawing;
using model::Sampler;
using model::UNetSpec;

constexpr std::int64_t kImages = 5;  // does not divide

UNetSpec small_spec() {
  UNetSpec spec = small_unet();
  spec.noise.steps = 40;
  return spec;
}

Drawing drawing_of(Sampler sampler) {
  return {.images = kImages, .steps = 4, .sampler = sampler, .seed = 9};
}

Tensor draw_on(comm::World& world, const grid::Sizes& sizes, const Drawing& drawing,
               const Weights& weights) {
  const tensor::Mesh mesh(world, grid::Grid(sizes));
  const model::UNet net(mesh, small_spec(), mesh.size({grid::Axis::kData, grid::Axis::kZ}));
  for (const nn::ParameterPtr& parameter : net.parameters()) {
    load(mesh, *parameter, weights.at(parameter->name()));
  }
  return model::draw_images(mesh, net, drawing);
}

/// The network of libtorch's own operations, and DDIM as its paper has it.
TEST(Draw, FollowsDdimStepByStep) {
  const UNetSpec spec = small_spec();
  const Weights weights = perturbed(initial_weights(spec));
  const model::Noise noise(spec.noise);
  Tensor images = model::draw_noise(at::empty({kImages, spec.pixels(), spec.colours}, at::kDouble),
                                    0, kernels::key_of(9, "drawing"));
  const at::NoGradGuard no_graph;
  for (const std::int64_t t : {39, 29, 19, 9}) {
    const Tensor times = at::full({kImages}, static_cast<double>(t), at::kDouble);
    const Tensor predicted =
        unet_prediction(spec, weights, images, times, 0, false).narrow(2, 0, spec.colours);
    const double abar = noise.alpha_cumprod(t);
    const double next = noise.alpha_cumprod(t == 9 ? -1 : t - 10);
    const Tensor image =
        images.sub(predicted, std::sqrt(1 - abar)).div(std::sqrt(abar)).clamp(-1, 1);
    const Tensor rest = images.sub(image, std::sqrt(abar)).div(std::sqrt(1 - abar));
    images = image.mul(std::sqrt(next)).add(rest, std::sqrt(1 - next));
  }
  comm::World world = comm::self::open();
  const Tensor found = draw_on(world, {}, drawing_of(Sampler::kDdim), weights);
  EXPECT_EQ(found.scalar_type(), at::kFloat);
  EXPECT_LT(found.sub(images).abs().max().item<double>(), 1e-6);
}

TEST(Draw, IsTheSameOnEveryGrid) {
  const Weights weights = perturbed(initial_weights(small_spec()));
  for (const Sampler sampler : {Sampler::kDdim, Sampler::kDdpm}) {
    comm::World alone = comm::self::open();
    const Tensor expected = draw_on(alone, {}, drawing_of(sampler), weights);
    for (const std::int64_t at_once : {0, 2}) {
      Drawing drawing = drawing_of(sampler);
      drawing.at_once = at_once;
      for (const grid::Sizes& sizes :
           {grid::Sizes{.x = 2}, grid::Sizes{.y = 2}, grid::Sizes{.z = 2}, grid::Sizes{.data = 3},
            grid::Sizes{.x = 2, .y = 2, .data = 2}, grid::Sizes{.y = 2, .z = 2, .data = 2}}) {
        on_threads(grid::Grid(sizes).ranks(), [&](comm::World& world) {
          const Tensor found = draw_on(world, sizes, drawing, weights);
          const double worst = found.sub(expected).abs().max().item<double>();
          expect_on_all_ranks(world, worst < 1e-6, concat(grid::to_string(sizes), ": ", worst));
        });
      }
    }
  }
}

TEST(Draw, AnotherSeedOrSamplerDrawsOtherImages) {
  const Weights weights = perturbed(initial_weights(small_spec()));
  comm::World world = comm::self::open();
  Drawing drawing = drawing_of(Sampler::kDdim);
  const Tensor first = draw_on(world, {}, drawing, weights);
  EXPECT_TRUE(at::equal(draw_on(world, {}, drawing, weights), first));
  drawing.images = 2;
  EXPECT_LT(
      draw_on(world, {}, drawing, weights).sub(first.narrow(0, 0, 2)).abs().max().item<double>(),
      1e-6)
      << "an image does not depend on how many there are";
  drawing.seed = 10;
  EXPECT_GT(
      draw_on(world, {}, drawing, weights).sub(first.narrow(0, 0, 2)).abs().max().item<double>(),
      0.1);
  EXPECT_GT(
      draw_on(world, {}, drawing_of(Sampler::kDdpm), weights).sub(first).abs().max().item<double>(),
      0.1);
}

TEST(Draw, SaysWhatIsDoneAndRefusesTooManySteps) {
  const Weights weights = perturbed(initial_weights(small_spec()));
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  const model::UNet net(mesh, small_spec(), 1);
  std::vector<double> shown;
  Drawing drawing{.images = 3, .steps = 2, .at_once = 2};
  model::draw_images(mesh, net, drawing, [&](double done) { shown.push_back(done); });
  EXPECT_EQ(shown, (std::vector<double>{0.25, 0.5, 0.75, 1}));
  drawing.steps = 41;
  EXPECT_THROW(model::draw_images(mesh, net, drawing), ConfigError);
  EXPECT_EQ(model::drawing_misfit(small_spec(), drawing),
            "the model was trained with 40 steps of noise, so that images are drawn in 1 to 40 "
            "steps, not 41");
}

}  // namespace
}  // namespace fourfold::test
