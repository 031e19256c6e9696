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

void check_recipe(const Recipe& recipe, int places) {
  if (recipe.micro_batch < 1 || recipe.batch % recipe.micro_batch != 0) {
    throw ConfigError(concat("a batch of ", recipe.batch, " is not a multiple of the micro-batch, ",
                             recipe.micro_batch));
  }
  const std::int64_t passes = recipe.batch / recipe.micro_batch;
  model::check_stages(recipe.model.layers, places, recipe.chunks);
  if (recipe.chunks > 1 && passes % places != 0) {
    throw ConfigError(concat("with parallel.chunks = ", recipe.chunks, " the micro-batches of a ",
                             "step (train.batch / train.micro_batch = ", passes,
                             ") must be a multiple of parallel.pipe = ", places));
  }
  if (places > 1 && recipe.optimizer.zero == optim::Zero::kGradients) {
    throw ConfigError(
        "parallel.zero = 2 does not go with a pipeline, whose passes overlap; choose 1");
  }
}

namespace {

const Recipe& checked(const Recipe& recipe, const Mesh& mesh) {
  check_recipe(recipe, mesh.size(Axis::kPipe));
  return recipe;
}

/// The order in which a pass, or with a pipeline a step, gathers. It is learned from a dry run of
/// the same model.
tensor::GatherOrder gather_order(const model::Stages& stages, const Mesh& mesh,
                                 const Recipe& recipe) {
  std::vector<std::string> names;
  {
    const tensor::MemoryMeter aside;  // it does not count as this rank's memory
    const tensor::MemoryMeter::Counting counting(aside);
    comm::World world = comm::recording::open(mesh.world().rank(), mesh.world().size());
    const Mesh dry(world, mesh.grid(), mesh.overlap());
    const model::Stages twin(dry, recipe.model, recipe.micro_batch, recipe.chunks);
    const nn::Batch batch{.samples = recipe.micro_batch, .context = recipe.model.context};
    const Tensor tokens = at::empty({nn::local_samples(dry, batch), batch.context},
                                    at::TensorOptions(at::kLong).device(dry.device()));
    dry.gathers().learn(&names);
    if (twin.is_whole()) {
      twin.whole().loss(tokens, tokens, batch, 1, true).backward();
    } else {
      const auto same = [&](std::int64_t, bool) { return Pass{batch, tokens, tokens}; };
      Pipeline(dry, twin).run(recipe.batch / recipe.micro_batch, 1, same,
                              [](const nn::Parameters&) {});
    }
    dry.backlog().drain();
  }
  std::map<std::string, const tensor::Gatherable*> units;
  for (const tensor::Gatherable* unit : stages.gatherables()) units[unit->gather_name()] = unit;
  tensor::GatherOrder order;
  for (const std::string& name : names) order.push_back(units.at(name));
  return order;
}

/// Sums over all ranks.
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
      recipe_(checked(recipe, mesh)),
      stages_(mesh, recipe.model, recipe.micro_batch, recipe.chunks),
      gathers_(gather_order(stages_, mesh, recipe),
               mesh.overlap().keep_weights ? mesh.overlap().keep : 0,
               stages_[0].parts_of(
                   {.samples = recipe.micro_batch, .context = recipe.model.context}) > 1),
      optimizer_(mesh, {stages_.embedding_parameters(), stages_.block_parameters()},
                 recipe.optimizer),
      pipeline_(mesh, stages_) {
  model::check_owners(mesh, stages_);
  for (int i = 0; fill && i < stages_.chunks(); ++i) fill(stages_[i]);
  settle();  // from here on the copy of the table exists, too, which the optimizer does not have
}

Pass Trainer::read_pass(std::int64_t first_sample, bool data, const ReadSample& read) const {
  Pass pass;
  pass.batch.samples = recipe_.micro_batch;
  pass.batch.context = recipe_.model.context;
  if (!data) return pass;
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

/// Reads the micro-batches of a step.
ReadPass Trainer::reader(std::int64_t number, const ReadSample& read) const {
  return [this, number, &read](std::int64_t micro_batch, bool data) {
    const std::int64_t first = micro_batch * recipe_.micro_batch;
    Pass pass = read_pass((number - 1) * recipe_.batch + first, data, read);
    pass.batch.first_sample = first;
    pass.batch.step = static_cast<std::uint64_t>(number);
    return pass;
  };
}

/// Runs a forward and a backward pass. Returns this rank's part of the loss.
double Trainer::run_pass(const Pass& pass) {
  const Tensor part = model().loss(pass.tokens, pass.targets, pass.batch,
                                   recipe_.batch * recipe_.model.context, true);
  part.backward();
  return mesh_->dry() ? 0 : part.item<double>();
}

/// Runs the forward and backward passes of a step. Returns this rank's part of the loss.
double Trainer::run_passes(optim::AdamW::Step& step, const ReadPass& read) {
  double loss = 0;
  for (std::int64_t i = 0; i < passes(); ++i) {
    step.begin_pass();
    const Pass pass = read(i, true);
    mesh_->gathers().begin_pass(gathers_, i + 1 < passes());
    loss += run_pass(pass);
    mesh_->gathers().end_pass();
  }
  return loss;
}

double Trainer::run_pipeline(optim::AdamW::Step& step, const ReadPass& read) {
  mesh_->gathers().begin_pass(gathers_, false);
  const double loss =
      pipeline_.run(passes(), recipe_.batch * recipe_.model.context, read,
                    [&](const nn::Parameters& parameters) { step.begin_pass(parameters); });
  mesh_->gathers().end_pass();
  return loss;
}

StepResult Trainer::step(std::int64_t number, const ReadSample& read) {
  optim::AdamW::Step step = optimizer_.begin_step(passes());
  const ReadPass read_one = reader(number, read);
  double loss = 0;
  try {
    loss = stages_.is_whole() ? run_passes(step, read_one) : run_pipeline(step, read_one);
  } catch (...) {
    mesh_->gathers().abandon();
    throw;
  }
  const double squares = step.reduce_gradients();
  std::array<double, 2> sums = {stages_[0].counts_loss() ? loss : 0, squares};
  sum_over_everyone(*mesh_, sums);
  const StepResult result{sums[0], std::sqrt(sums[1]), recipe_.rates.rate(number)};
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1])) {
    throw_not_finite(*mesh_, stages_, optimizer_, number, loss);
  }
  step.update(number, result.rate, optim::clip_scale(result.grad_norm, recipe_.clip));
  pipeline_.share_table();
  return result;
}

void Trainer::settle() {
  for (const nn::ParameterPtr& p : stages_.parameters()) static_cast<void>(p->value());
  pipeline_.settle();
}

double Trainer::validate(std::int64_t passes, const ReadSample& read) {
  const at::NoGradGuard no_graph;
  std::array<double, 1> sum = {0};
  const std::int64_t tokens = passes * recipe_.micro_batch * recipe_.model.context;
  const auto read_one = [&](std::int64_t micro_batch, bool data) {
    return read_pass(micro_batch * recipe_.micro_batch, data, read);
  };
  if (!stages_.is_whole()) {
    sum[0] = pipeline_.run_forward(passes, tokens, read_one);
  } else {
    for (std::int64_t i = 0; i < passes; ++i) {
      const Pass pass = read_one(i, true);
      const Tensor part = model().loss(pass.tokens, pass.targets, pass.batch, tokens, false);
      if (!mesh_->dry()) sum[0] += part.item<double>();
    }
  }
  if (!stages_[0].counts_loss()) sum[0] = 0;
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
