// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/trainer.hpp"

#include <array>
#include <cmath>
#include <map>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/not_finite.hpp"

namespace fourfold::train {

using grid::Axis;

namespace {

const Recipe& checked(const Recipe& recipe) {
  if (recipe.micro_batch < 1 || recipe.batch % recipe.micro_batch != 0) {
    throw ConfigError(concat("a batch of ", recipe.batch, " is not a multiple of the micro-batch, ",
                             recipe.micro_batch));
  }
  return recipe;
}

/// The parameters, after they have got their values: the optimizer takes over what they have.
std::vector<nn::Parameters> filled(const model::Gpt& model,
                                   const std::function<void(const model::Gpt&)>& fill) {
  if (fill) fill(model);
  return {model.embedding_parameters(), model.block_parameters()};
}

/// What a pass brings together, in its order: learned from a dry pass of the same model.
tensor::GatherOrder gather_order(const model::Gpt& model, const Mesh& mesh, const Recipe& recipe) {
  std::vector<std::string> names;
  {
    const tensor::MemoryMeter aside;  // it is no part of this rank's memory
    const tensor::MemoryMeter::Counting counting(aside);
    comm::World world = comm::recording::open(mesh.world().rank(), mesh.world().size());
    const Mesh dry(world, mesh.grid(), mesh.overlap());
    const model::Gpt twin(dry, recipe.model, recipe.micro_batch);
    const nn::Batch batch{.samples = recipe.micro_batch, .context = recipe.model.context};
    const Tensor tokens = at::empty({nn::local_samples(dry, batch), batch.context},
                                    at::TensorOptions(at::kLong).device(dry.device()));
    dry.gathers().learn(&names);
    twin.loss(tokens, tokens, batch, 1, true).backward();
    dry.backlog().drain();
  }
  std::map<std::string, const tensor::Gatherable*> units;
  for (const tensor::Gatherable* unit : model.gatherables()) units[unit->gather_name()] = unit;
  tensor::GatherOrder order;
  for (const std::string& name : names) order.push_back(units.at(name));
  return order;
}

/// The sum over all ranks.
template <std::size_t kCount>
void sum_over_everyone(const Mesh& mesh, std::array<double, kCount>& values) {
  if (mesh.everyone().size() == 1) return;
  mesh.everyone()
      .all_reduce({values.data(), static_cast<std::int64_t>(kCount), schedule::DType::kF64})
      .wait();
}

}  // namespace

Trainer::Trainer(const Mesh& mesh, const Recipe& recipe,
                 const std::function<void(const model::Gpt&)>& fill)
    : mesh_(&mesh),
      recipe_(checked(recipe)),
      model_(mesh, recipe.model, recipe.micro_batch),
      gathers_(
          gather_order(model_, mesh, recipe), mesh.overlap().keep_weights ? mesh.overlap().keep : 0,
          model_.parts_of({.samples = recipe.micro_batch, .context = recipe.model.context}) > 1),
      optimizer_(mesh, filled(model_, fill), recipe.optimizer) {}

Trainer::Pass Trainer::read_pass(std::int64_t first_sample, const ReadSample& read) const {
  Pass pass;
  pass.batch.samples = recipe_.micro_batch;
  pass.batch.context = recipe_.model.context;
  const std::int64_t local = nn::local_samples(*mesh_, pass.batch);
  const std::int64_t context = pass.batch.context;
  const auto options = at::TensorOptions(at::kLong).device(mesh_->device());
  pass.tokens = at::empty({local, context}, options);
  pass.targets = at::empty({local, context}, options);
  if (mesh_->dry()) return pass;
  const std::int64_t first = first_sample + mesh_->index({Axis::kData, Axis::kZ}) * local;
  for (std::int64_t i = 0; i < local; ++i) {
    read(first + i, pass.tokens.data_ptr<std::int64_t>() + i * context,
         pass.targets.data_ptr<std::int64_t>() + i * context);
  }
  return pass;
}

double Trainer::run_pass(const Pass& pass) {
  const Tensor part = model_.loss(pass.tokens, pass.targets, pass.batch,
                                  recipe_.batch * recipe_.model.context, true);
  part.backward();
  return mesh_->dry() ? 0 : part.item<double>();
}

/// Forward and backward passes of a step; returns this rank's part of the loss.
double Trainer::run_passes(std::int64_t number, const ReadSample& read) {
  double loss = 0;
  for (std::int64_t first = 0; first < recipe_.batch; first += recipe_.micro_batch) {
    try {
      Pass pass = read_pass((number - 1) * recipe_.batch + first, read);
      pass.batch.first_sample = first;
      pass.batch.step = static_cast<std::uint64_t>(number);
      mesh_->gathers().begin_pass(gathers_, first + recipe_.micro_batch < recipe_.batch);
      loss += run_pass(pass);
      mesh_->gathers().end_pass();
    } catch (...) {
      mesh_->gathers().abandon();
      throw;
    }
  }
  return loss;
}

StepResult Trainer::step(std::int64_t number, const ReadSample& read) {
  optimizer_.begin_step(recipe_.batch / recipe_.micro_batch);
  const double loss = run_passes(number, read);
  const double squares = optimizer_.reduce_gradients();
  std::array<double, 2> sums = {model_.counts_loss() ? loss : 0, squares};
  sum_over_everyone(*mesh_, sums);
  const StepResult result{sums[0], std::sqrt(sums[1]), recipe_.rates.rate(number)};
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1])) {
    throw_not_finite(*mesh_, model_.parameters(), optimizer_, number, loss);
  }
  optimizer_.update(number, result.rate, optim::clip_scale(result.grad_norm, recipe_.clip));
  return result;
}

void Trainer::settle() const {
  for (const nn::ParameterPtr& p : model_.parameters()) static_cast<void>(p->value());
}

double Trainer::validate(std::int64_t passes, const ReadSample& read) const {
  const at::NoGradGuard no_graph;
  std::array<double, 1> sum = {0};
  const std::int64_t tokens = passes * recipe_.micro_batch * recipe_.model.context;
  for (std::int64_t i = 0; i < passes; ++i) {
    const Pass pass = read_pass(i * recipe_.micro_batch, read);
    const Tensor part = model_.loss(pass.tokens, pass.targets, pass.batch, tokens, false);
    if (model_.counts_loss() && !mesh_->dry()) sum[0] += part.item<double>();
  }
  sum_over_everyone(*mesh_, sum);
  return sum[0];
}

Flops model_flops(const model::GptSpec& spec, std::int64_t tokens) {
  const auto width = static_cast<double>(spec.width);
  const auto layers = static_cast<double>(spec.layers);
  const double used = layers * 12 * width * width + static_cast<double>(spec.vocabulary) * width;
  const double attention = 12 * layers * width * static_cast<double>(spec.context);
  return Flops((6 * used + attention) * static_cast<double>(tokens));
}

}  // namespace fourfold::train
