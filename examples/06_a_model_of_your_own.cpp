// A model that Fourfold does not know: residual blocks that map vectors to vectors, trained with
// squared errors on data of its own kind. Because it is a model::Model, it is trained, cut into the
// stages of a pipeline, dry-run and saved like a GPT. The same steps on one rank, on x=2,y=2,data=2
// and on y=2,pipe=2 give the same losses.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <ATen/ATen.h>

#include "fourfold/base/check.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/comm/self/self.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/model/block.hpp"
#include "fourfold/nn/elementwise.hpp"
#include "fourfold/nn/rms_norm.hpp"
#include "fourfold/train/dry_run.hpp"

using namespace fourfold;
using at::Tensor;
using grid::Axis;

namespace {

constexpr std::int64_t kWidth = 16;

model::Execution execution() {
  model::Execution how;
  how.precision = nn::Precision::float64();  // so that grids can be compared
  return how;
}

nn::LinearSpec linear(const std::string& name, std::int64_t in, std::int64_t out, bool second) {
  return {.name = name, .in = in, .out = out, .transposed = second, .deviation = 0.1};
}

/// hidden + down(gelu(up(norm(hidden)))).
class Block final : public model::Block {
 public:
  Block(const tensor::Mesh& mesh, std::int64_t number)
      : model::Block(mesh, concat("blocks.", number)),
        norm_(mesh, name() + ".norm", kWidth, nn::Activations::kSharded, execution().precision, 1),
        up_(mesh, linear(name() + ".up", kWidth, 4 * kWidth, false), execution().precision, 1),
        down_(mesh, linear(name() + ".down", 4 * kWidth, kWidth, true), execution().precision, 1) {
    consists_of(norm_);
    consists_of(up_);
    consists_of(down_);
    bundle_vectors();
  }

  nn::Flow<Tensor> flow(Tensor hidden, nn::Batch, const nn::Pass& pass) const override {
    const Tensor normal = co_await norm_.flow(hidden, pass);
    const Tensor wide = co_await up_.flow(normal, pass);
    const Tensor more = co_await down_.flow(nn::gelu(*mesh_, wide, name()), pass);
    co_return nn::residual(*mesh_, hidden, more, name());
  }

 private:
  nn::RmsNorm norm_;
  nn::Linear up_;
  nn::Linear down_;
};

/// A stage of the model on a rank. Rows are split over data, z and y, and columns over x.
class Stage final : public model::Part {
 public:
  Stage(const tensor::Mesh& mesh, const model::Stage& stage) : Part(mesh, stage) {
    for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
      blocks_.push_back(std::make_unique<Block>(mesh, i));
      consists_of(*blocks_.back());
    }
  }

  std::vector<Tensor> run(const std::vector<Tensor>& hidden, const model::Input& input,
                          std::int64_t terms, nn::Pass& pass) const override {
    std::vector<nn::Flow<Tensor>> flows;  // the parts of the batch take turns
    for (int i = 0; i < parts_of(input.batch); ++i) {
      const nn::Batch part = nn::part_of(input.batch, i, parts_of(input.batch));
      const Tensor start = stage().first ? here(input.data[0], part) : hidden.at(std::size_t(i));
      const Tensor target = stage().last ? here(input.data[1], part) : Tensor();
      flows.push_back(flow(start, target, part, terms, pass));
    }
    std::vector<Tensor> results = nn::interleave(std::move(flows));
    if (stage().last && results.size() == 2) results = {results[0] + results[1]};
    return results;
  }

  int parts_of(const nn::Batch& batch) const override {
    const std::int64_t rows = nn::local_samples(*mesh_, batch);
    return mesh_->overlap().halves &&
                   rows % (2 * mesh_->size(Axis::kY) * mesh_->size(Axis::kX)) == 0
               ? 2
               : 1;
  }
  std::vector<Tensor> empty_hidden(const nn::Batch& part, model::End end) const override {
    if (end == model::End::kInput ? stage().first : stage().last) return {};
    const std::int64_t rows = nn::hidden_rows(*mesh_, part, nn::Activations::kSharded).size();
    return {at::empty({rows, kWidth / mesh_->size(Axis::kX)},
                      at::TensorOptions(at::kDouble).device(mesh_->device()))};
  }
  std::vector<nn::Parameters> groups() const override { return {parameters()}; }
  tensor::GatherOrder gatherables() const override {
    tensor::GatherOrder all;
    for (const auto& block : blocks_) {
      for (const tensor::Gatherable* one : block->gatherables()) all.push_back(one);
    }
    return all;
  }
  bool counts_loss() const override { return true; }  // no two ranks have the same elements
  double block_flops(std::int64_t, const nn::Batch& batch) const override {
    return blocks_[0]->flops(batch);  // all blocks are alike
  }

 private:
  /// This rank's rows and columns of the samples of its data and z.
  Tensor here(const Tensor& samples, const nn::Batch& part) const {
    const grid::Range rows = nn::hidden_rows(*mesh_, part, nn::Activations::kSharded);
    const std::int64_t first = nn::first_local_sample(*mesh_, nn::part_of(part, 0, 1));
    const std::int64_t columns = kWidth / mesh_->size(Axis::kX);
    return samples.narrow(0, rows.begin - first, rows.size())
        .narrow(1, mesh_->index(Axis::kX) * columns, columns)
        .contiguous();
  }

  nn::Flow<Tensor> flow(Tensor hidden, Tensor target, nn::Batch batch, std::int64_t terms,
                        nn::Pass& pass) const {
    for (const auto& block : blocks_) {
      pass.gather(block->bundle());
      hidden = co_await block->flow(hidden, batch, pass);
    }
    if (!stage().last) co_return hidden;
    co_return (hidden - target).square().sum() / double(terms);
  }

  std::vector<std::unique_ptr<Block>> blocks_;
};

class Regressor final : public model::Model {
 public:
  explicit Regressor(std::int64_t blocks) : blocks_(blocks) {}

  std::string_view kind() const override { return "regressor"; }
  std::string sizes() const override { return concat("width ", kWidth, ", ", blocks_, " blocks"); }
  const model::Execution& execution() const override { return how_; }
  std::vector<std::pair<std::string, std::string>> traits() const override { return {}; }
  std::int64_t blocks() const override { return blocks_; }
  model::ModelPtr with_blocks(std::int64_t blocks) const override {
    return std::make_shared<Regressor>(blocks);
  }
  std::string misfit(const grid::Sizes& sizes, std::int64_t samples) const override {
    std::string reason = nn::batch_misfit(sizes, batch(samples), nn::Activations::kSharded);
    for (const nn::LinearSpec& layer : {linear("blocks.0.up", kWidth, 4 * kWidth, false),
                                        linear("blocks.0.down", 4 * kWidth, kWidth, true)}) {
      if (reason.empty()) reason = nn::Linear::misfit(layer, sizes);
    }
    return reason;
  }
  std::unique_ptr<model::Part> make(const tensor::Mesh& mesh, std::int64_t,
                                    const model::Stage& stage) const override {
    return std::make_unique<Stage>(mesh, stage);
  }
  nn::Batch batch(std::int64_t samples) const override {
    return {.samples = samples, .context = 1};
  }
  std::vector<Tensor> empty_data(std::int64_t samples, c10::Device device) const override {
    const auto options = at::TensorOptions(at::kDouble).device(device);
    return {at::empty({samples, kWidth}, options), at::empty({samples, kWidth}, options)};
  }
  std::int64_t terms(std::int64_t samples) const override { return samples * kWidth; }
  model::FileTensor file_tensor(const std::string& name, const grid::Shape& shape) const override {
    return {.pieces = {{.name = name, .shape = shape}}};
  }
  std::string block_prefix(std::int64_t block) const override {
    return concat("blocks.", block, ".");
  }

 private:
  model::Execution how_ = ::execution();
  std::int64_t blocks_;
};

/// A sample is a function of its number: a wave, and the same wave a little later.
void read(std::int64_t sample, std::span<const Tensor> data) {
  for (std::int64_t i = 0; i < kWidth; ++i) {
    const double phase = double(sample) + double(i) / 4;
    data[0].data_ptr<double>()[i] = std::sin(phase);
    data[1].data_ptr<double>()[i] = std::sin(phase + 0.5);
  }
}

train::Recipe recipe() {
  train::Recipe recipe;
  recipe.model = std::make_shared<Regressor>(4);
  recipe.batch = 32;
  recipe.micro_batch = 16;
  recipe.learning_rate = {.largest = 1e-2, .smallest = 1e-3, .warmup = 3, .steps = 30};
  return recipe;
}

std::vector<double> losses(comm::World& world, const grid::Grid& grid, const std::string& folder) {
  const tensor::Mesh mesh(world, grid, recipe().overlap);
  train::Trainer trainer(mesh, recipe());
  std::vector<double> all;
  for (std::int64_t step = 1; step <= 30; ++step) all.push_back(trainer.step(step, read).loss);
  trainer.finish();
  if (!folder.empty()) checkpoint::save_weights(mesh, trainer.stages(), folder);
  return all;
}

}  // namespace

int main() {
  try {
    comm::World world = comm::self::open();
    const std::vector<double> alone = losses(world, grid::Grid(), "");
    const std::string folder = std::filesystem::temp_directory_path() / "a_model_of_your_own";
    std::filesystem::create_directories(folder);
    double worst = 0;
    for (const grid::Sizes& sizes :
         {grid::Sizes{.x = 2, .y = 2, .data = 2}, grid::Sizes{.y = 2, .pipe = 2}}) {
      const grid::Grid grid(sizes);
      comm::thread::run(grid.ranks(), [&](comm::World& ranks) {
        const std::vector<double> here = losses(ranks, grid, folder);
        for (std::size_t i = 0; ranks.rank() == 0 && i < here.size(); ++i) {
          worst = std::max(worst, std::abs(here[i] / alone[i] - 1));
        }
      });
    }
    std::printf(
        "The loss falls from %.4f to %.4f. On 8 and on 4 ranks it differs by %.1e at most.\n",
        alone.front(), alone.back(), worst);
    // What a step of a larger one needs, on a grid that does not exist.
    train::Recipe large = recipe();
    large.model = std::make_shared<Regressor>(32);
    large.batch = large.micro_batch = 4096;
    const train::StepRecord step =
        train::dry_run(grid::Grid({.x = 4, .y = 4, .data = 64}), 0, large);
    std::printf("A rank of 1024 holds %s in a step.\n", to_string(step.peak()).c_str());
    std::filesystem::remove_all(folder);
    return worst < 1e-8 && alone.back() < 0.1 * alone.front() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", describe(error).c_str());
    return 1;
  }
}
