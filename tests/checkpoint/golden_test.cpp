// Models of Hugging Face's transformers read by us, and ours read by it: the same logits. The
// golden files are made by scripts/make_model_golden.py.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/model/transformer.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

using at::Tensor;

/// The largest difference of this rank's logits from those of the file, over the largest of these.
double error_on(comm::World& world, const grid::Grid& grid, const std::string& folder) {
  const auto golden = nlohmann::json::parse(std::ifstream(folder + "/logits.json"));
  const auto rows = golden["tokens"].get<std::vector<std::vector<std::int64_t>>>();
  const auto expected = golden["logits"].get<std::vector<std::vector<double>>>();
  const auto samples = static_cast<std::int64_t>(rows.size());
  const auto context = static_cast<std::int64_t>(rows[0].size());
  Tensor tokens = at::empty({samples, context}, at::kLong);
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto& row = rows[static_cast<std::size_t>(i)];
    std::copy(row.begin(), row.end(), tokens.data_ptr<std::int64_t>() + i * context);
  }
  const at::NoGradGuard no_graph;
  const tensor::Mesh mesh(world, grid);
  const model::ModelPtr model = checkpoint::read_model_config(folder, nn::Activations::kReplicated);
  const auto part = model->make(mesh, samples, model->whole());
  checkpoint::load_weights(*model, *part, folder);
  const auto& transformer = dynamic_cast<const model::Transformer&>(*part);
  tensor::InFlight in_flight(mesh);
  nn::Pass pass(in_flight);
  const Tensor logits =
      transformer.logits(tokens, {.samples = samples, .context = context}, pass).to(at::kDouble);
  const grid::Range here = grid::range_along(transformer.frame().vocabulary,
                                             transformer.logit_axes(), mesh.grid(), mesh.coord());
  double worst = logits.size(0) == static_cast<std::int64_t>(expected.size()) ? 0 : INFINITY;
  double largest = 0;
  for (std::int64_t row = 0; std::isfinite(worst) && row < logits.size(0); ++row) {
    for (std::int64_t column = here.begin; column < here.end; ++column) {
      const double theirs =
          expected[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      const double ours = logits[row][column - here.begin].item<double>();
      worst = std::max(worst, std::abs(ours - theirs));
      largest = std::max(largest, std::abs(theirs));
    }
  }
  return worst / largest;
}

class Transformers : public testing::TestWithParam<std::string> {};

TEST_P(Transformers, ComputesTheSameLogits) {
  const std::string folder = std::string(GOLDEN_MODELS) + "/" + GetParam();
  for (const grid::Sizes& sizes :
       {grid::Sizes{}, grid::Sizes{.x = 2, .y = 2}, grid::Sizes{.y = 4}}) {
    const grid::Grid grid(sizes);
    on_threads(grid.ranks(), [&](comm::World& world) {
      const double error = error_on(world, grid, folder);
      expect_on_all_ranks(world, error <= 1e-5, concat(GetParam(), " on ", grid, ": ", error));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Transformers,
                         testing::Values("gpt2-theirs", "gpt2-ours", "llama-theirs", "llama-ours"),
                         [](const auto& chosen) {
                           std::string name = chosen.param;
                           name[name.find('-')] = '_';
                           return name;
                         });

}  // namespace
}  // namespace fourfold::test
