// Weights of U-Nets in files: those of a network in PyTorch with improved-diffusion's names give
// the same prediction, and what is saved on one grid is loaded on another without a change.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/unet.hpp"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/checkpoint/model_config.hpp"

#include "tests/checkpoint/support.hpp"
#include "tests/model/compare.hpp"
#include "tests/model/unet_reference.hpp"

namespace fourfold::test {
namespace {

std::string golden_folder() {
  return std::string(GOLDEN_MODELS) + "/unet-theirs";
}

Tensor tensor_of(const nlohmann::json& values, const std::vector<std::int64_t>& shape) {
  Tensor result = at::empty(shape, at::kFloat);
  const auto numbers = values.get<std::vector<float>>();
  std::copy(numbers.begin(), numbers.end(), result.data_ptr<float>());
  return result;
}

TEST(UNetFiles, OfPyTorchGiveTheSamePrediction) {
  const auto golden = nlohmann::json::parse(std::ifstream(golden_folder() + "/prediction.json"));
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.y = 4}, grid::Sizes{.x = 2}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const at::NoGradGuard no_graph;
      const tensor::Mesh mesh(world, grid);
      const model::ModelPtr model = checkpoint::read_model_config(golden_folder());
      const auto part = model->make(mesh, 2, model->whole());
      checkpoint::load_weights(*model, *part, golden_folder());
      const auto& unet = dynamic_cast<const model::UNet&>(*part);
      const model::UNetSpec& spec = unet.spec();
      const Tensor images = tensor_of(golden["images"], {2, spec.pixels(), spec.colours});
      const Tensor expected = tensor_of(golden["prediction"], {2, spec.pixels(), spec.outputs()});
      tensor::InFlight in_flight(mesh);
      nn::Pass pass(in_flight);
      const Tensor ours =
          unet.predict({}, {images, tensor_of(golden["times"], {2})}, model->batch(2), pass)[0];
      const double error = relative_error(ours, expected, expected);
      expect_on_all_ranks(world, error <= 1e-5, concat(grid, ": ", error));
    });
  }
}

/// All bytes of the file.
std::string content(const std::string& folder) {
  std::ifstream file(folder + "/model.safetensors", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Loads the weights of `from` on a grid and saves them to `to`.
void pass_through(const model::ModelPtr& model, const grid::Sizes& sizes, const std::string& from,
                  const std::string& to) {
  const grid::Grid grid(sizes);
  on_threads(grid.ranks(), [&](comm::World& world) {
    const tensor::Mesh mesh(world, grid);
    const model::Stages stages(mesh, model, 12);
    for (int i = 0; i < stages.chunks(); ++i) checkpoint::load_weights(*model, stages[i], from);
    checkpoint::save_weights(mesh, stages, to);
  });
}

TEST(UNetFiles, AreTheSameOnEveryGrid) {
  const model::ModelPtr model = checkpoint::read_model_config(golden_folder());
  const Folder once;
  pass_through(model, {}, golden_folder(), once.path());
  for (const grid::Sizes& sizes :
       {grid::Sizes{.x = 2, .y = 2, .z = 2}, grid::Sizes{.y = 2, .data = 2, .pipe = 2},
        grid::Sizes{.z = 3}, grid::Sizes{.pipe = 4}}) {
    const Folder twice;
    pass_through(model, sizes, once.path(), twice.path());
    EXPECT_TRUE(content(twice.path()) == content(once.path())) << grid::to_string(sizes);
  }
}

/// Every tensor of PyTorch's file comes back as it was.
TEST(UNetFiles, ComeBackAsTheyWere) {
  const model::ModelPtr model = checkpoint::read_model_config(golden_folder());
  const Folder saved;
  pass_through(model, {.x = 2, .y = 2}, golden_folder(), saved.path());
  const formats::SafetensorsFolder theirs(golden_folder());
  const formats::SafetensorsFolder ours(saved.path());
  ASSERT_EQ(theirs.tensors().size(), ours.tensors().size());
  for (const auto& [name, file] : theirs.tensors()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_EQ(theirs.entry(name).shape, ours.entry(name).shape) << name;
    EXPECT_TRUE(std::ranges::equal(theirs.data(name), ours.data(name))) << name;
  }
}

TEST(UNetFiles, DescribeTheirModel) {
  model::UNetSpec spec = small_unet();
  spec.noise = {.schedule = model::NoiseSpec::Schedule::kLinear, .steps = 50};
  const auto model = std::make_shared<model::UNetModel>(spec);
  const Folder folder;
  std::ofstream(folder.path() + "/config.json") << checkpoint::model_config(*model, -1, -1);
  comm::World world = comm::self::open();
  const tensor::Mesh mesh(world, grid::Grid());
  checkpoint::save_weights(mesh, model::Stages(mesh, model, 1), folder.path());
  const model::ModelPtr found = checkpoint::read_model_config(folder.path());
  EXPECT_EQ(found->traits(), model->traits());
  EXPECT_EQ(dynamic_cast<const model::UNetModel&>(*found).spec().noise, spec.noise);
  spec.heads = 6;
  EXPECT_THROW(checkpoint::check_same_model(model::UNetModel(spec), folder.path()), ConfigError);
}

}  // namespace
}  // namespace fourfold::test
