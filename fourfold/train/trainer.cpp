// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/tensor/transfer.hpp"
#include "fourfold/train/bad_step.hpp"
#include "fourfold/train/inspection.hpp"
#include "fourfold/train/pass_scope.hpp"
#include "fourfold/train/replicas.hpp"

namespace fourfold::train {

using grid::Axis;

std::string recipe_misfit(const Recipe& recipe, int places) {
  if (recipe.micro_batch < 1 || recipe.batch % recipe.micro_batch != 0) {
    return concat("a batch of ", recipe.batch, " is not a multiple of the micro-batch, ",
                  recipe.micro_batch);
  }
  const std::int64_t passes = recipe.batch / recipe.micro_batch;
  std::string reason = model::stages_misfit(recipe.model->blocks(), places, recipe.chunks);
  if (!reason.empty()) return reason;
  if (recipe.chunks > 1 && passes % places != 0) {
    return concat("with parallel.chunks = ", recipe.chunks, " the micro-batches of a ",
                  "step (train.batch / train.micro_batch = ", passes,
                  ") must be a multiple of parallel.pipe = ", places);
  }
  if (places > 1 && recipe.optimizer.zero == optim::Zero::kGradients) {
    return "parallel.zero = 2 does not go with a pipeline, whose passes overlap; choose 1";
  }
  return {};
}

void check_recipe(const Recipe& recipe, int places) {
  const std::string reason = recipe_misfit(recipe, places);
  if (!reason.empty()) throw ConfigError(reason);
}

namespace {

const Recipe& checked(const Recipe& recipe, const Mesh& mesh) {
  check_recipe(recipe, mesh.size(Axis::kPipe));
  return recipe;
}

using Names = std::vector<std::string>;

/// Learned from a pass through a dry chunk: every micro-batch gathers in the same order.
StageGathers gathers_of(const Mesh& dry, const model::Part& part, const model::Input& input) {
  StageGathers names;
  tensor::InFlight in_flight(dry);
  std::vector<Tensor> hidden = part.all_empty_hidden(input.batch, model::End::kInput);
  for (Tensor& one : hidden) one.set_requires_grad(true);
  in_flight.weights().learn(&names.forward);
  nn::Pass pass(in_flight, true);
  const std::vector<Tensor> outputs = part.run(hidden, input, 1, pass);
  std::vector<Tensor> gradients;
  for (const Tensor& output : outputs) {
    if (!part.stage().last) gradients.push_back(at::empty_like(output));
  }
  in_flight.weights().learn(&names.backward);
  const comm::PhaseScope phase(schedule::Phase::kBackward);
  torch::autograd::backward(outputs, gradients);
  in_flight.sums().drain();
  return names;
}

/// The same for all chunks of a dry twin of the stages.
std::vector<StageGathers> learned_gathers(const Mesh& mesh, const Recipe& recipe) {
  const tensor::MemoryMeter aside;  // it does not count as this rank's memory
  const tensor::MemoryMeter::Counting counting(aside);
  comm::World world = comm::recording::open(mesh.world().rank(), mesh.world().size());
  const Mesh dry(world, mesh.grid(), mesh.overlap());
  const model::Stages twin(dry, recipe.model, recipe.micro_batch, recipe.chunks,
                           recipe.stage_blocks);
  const nn::Batch batch = recipe.model->batch(recipe.micro_batch);
  const model::Input input{batch,
                           recipe.model->empty_data(nn::local_samples(dry, batch), dry.device())};
  std::vector<StageGathers> chunks;
  for (int i = 0; i < twin.chunks(); ++i) chunks.push_back(gathers_of(dry, twin[i], input));
  return chunks;
}

/// Equal for stages whose passes gather in the same order: it does not depend on the samples,
/// except that they may go in two parts.
std::string gathers_key(const model::Part& part, const Mesh& mesh, const Recipe& recipe) {
  const model::Execution& how = recipe.model->execution();
  const model::Stage& stage = part.stage();
  return concat(recipe.model->kind(), " ", recipe.model->sizes(), " ",
                static_cast<int>(how.product), static_cast<int>(how.activations), how.checkpoint,
                " ", mesh.size(Axis::kX), " ", mesh.size(Axis::kY), " ", mesh.size(Axis::kZ), " ",
                stage.blocks.begin, " ", stage.blocks.end, " ", stage.first, stage.last, " ",
                part.parts_of(recipe.model->batch(recipe.micro_batch)));
}

std::vector<StageGathers> gathers_of(const model::Stages& stages, const Mesh& mesh,
                                     const Recipe& recipe) {
  const tensor::GatherOrder units = stages.gatherables();
  if (std::all_of(units.begin(), units.end(), [](const auto* unit) { return unit->is_whole(); })) {
    return std::vector<StageGathers>(static_cast<std::size_t>(stages.chunks()));
  }
  if (!recipe.gather_names) return learned_gathers(mesh, recipe);
  std::vector<StageGathers> learned;
  std::vector<StageGathers> chunks;
  for (int i = 0; i < stages.chunks(); ++i) {
    chunks.push_back(recipe.gather_names->of(gathers_key(stages[i], mesh, recipe), [&] {
      if (learned.empty()) learned = learned_gathers(mesh, recipe);
      return learned[static_cast<std::size_t>(i)];
    }));
  }
  return chunks;
}

/// The order in which a pass, or with a pipeline a step, gathers.
tensor::GatherOrder gather_order(const model::Stages& stages, const Mesh& mesh,
                                 const Recipe& recipe) {
  const std::vector<StageGathers> chunks = gathers_of(stages, mesh, recipe);
  std::map<std::string, const tensor::Gatherable*> units;
  for (const tensor::Gatherable* unit : stages.gatherables()) units[unit->gather_name()] = unit;
  tensor::GatherOrder order;
  const std::int64_t passes = stages.is_whole() ? 1 : recipe.batch / recipe.micro_batch;
  for (const Unit& unit :
       pipeline_units(mesh.size(Axis::kPipe), mesh.coord()[Axis::kPipe], recipe.chunks, passes)) {
    const StageGathers& chunk = chunks[static_cast<std::size_t>(unit.chunk)];
    for (const std::string& name : unit.forward ? chunk.forward : chunk.backward) {
      order.push_back(units.at(name));
    }
  }
  return order;
}

/// The loss of no pass yet, on the device.
Tensor no_loss(const Mesh& mesh) {
  return at::zeros({}, at::TensorOptions(at::kDouble).device(mesh.device()));
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
                 const std::function<void(const model::Part&)>& fill)
    : mesh_(&mesh),
      recipe_(checked(recipe, mesh)),
      stages_(mesh, recipe.model, recipe.micro_batch, recipe.chunks, recipe.stage_blocks),
      gathers_(gather_order(stages_, mesh, recipe),
               mesh.overlap().keep_weights ? mesh.overlap().keep : 0,
               stages_[0].parts_of(recipe.model->batch(recipe.micro_batch)) > 1),
      optimizer_(mesh, stages_.groups(), recipe.optimizer),
      pipeline_(mesh, stages_) {
  model::check_owners(mesh, stages_);
  for (int i = 0; fill && i < stages_.chunks(); ++i) fill(stages_[i]);
  finish();  // from here on the copy of the table exists, too, which the optimizer does not have
}

model::Input Trainer::read_input(std::int64_t first_sample, bool data,
                                 const ReadSample& read) const {
  model::Input input{recipe_.model->batch(recipe_.micro_batch), {}};
  if (!data) return input;
  const std::int64_t local = nn::local_samples(*mesh_, input.batch);
  input.data = recipe_.model->empty_data(local, mesh_->host());
  if (mesh_->dry()) return input;
  const std::int64_t first = first_sample + mesh_->index({Axis::kData, Axis::kZ}) * local;
  for (std::int64_t i = 0; i < local; ++i) {
    std::vector<Tensor> sample;
    for (const Tensor& all : input.data) sample.push_back(all[i]);
    read(first + i, sample);
  }
  recipe_.model->check_data(input.data);
  for (Tensor& one : input.data) one = tensor::upload(*mesh_, one);
  return input;
}

/// Reads the micro-batches of a step.
ReadInput Trainer::reader(std::int64_t number, const ReadSample& read) const {
  return [this, number, &read](std::int64_t micro_batch, bool data) {
    const std::int64_t first = micro_batch * recipe_.micro_batch;
    model::Input input = read_input((number - 1) * recipe_.batch + first, data, read);
    input.batch.first_sample = first;
    input.batch.step = static_cast<std::uint64_t>(number);
    return input;
  };
}

/// Runs a forward and a backward pass. Returns this rank's part of the loss.
Tensor Trainer::run_pass(tensor::InFlight& in_flight, const model::Input& input,
                         std::int64_t micro_batch) {
  const PassScope scope(micro_batch, 0);
  nn::Pass pass(in_flight, true);
  const Tensor part = model().loss(input, recipe_.model->terms(recipe_.batch), pass);
  {
    const comm::PhaseScope phase(schedule::Phase::kBackward);
    part.backward();
  }
  return part.detach();
}

/// Runs the forward and backward passes of a step. Returns this rank's part of the loss.
Tensor Trainer::run_passes(tensor::InFlight& in_flight, optim::AdamW::Step& step,
                           const ReadInput& read) {
  Tensor loss = no_loss(*mesh_);
  for (std::int64_t i = 0; i < passes(); ++i) {
    step.begin_pass();
    const model::Input input = read(i, true);
    in_flight.weights().begin_pass(gathers_, i + 1 < passes());
    loss.add_(run_pass(in_flight, input, i));
    in_flight.weights().end_pass();
  }
  return loss;
}

Tensor Trainer::run_pipeline(tensor::InFlight& in_flight, optim::AdamW::Step& step,
                             const ReadInput& read) {
  in_flight.weights().begin_pass(gathers_, false);
  Tensor loss =
      pipeline_.run(in_flight, passes(), recipe_.model->terms(recipe_.batch), read,
                    [&](const nn::Parameters& parameters) { step.begin_pass(parameters); });
  in_flight.weights().end_pass();
  return loss;
}

Trainer::Attempt Trainer::attempt(
    std::int64_t number, const ReadSample& read, const Votes& votes,
    const std::function<void(optim::AdamW::Step&, const StepResult&)>& update) {
  tensor::InFlight in_flight(*mesh_);
  optim::AdamW::Step step = optimizer_.begin_step(in_flight, passes());
  const ReadInput read_one = reader(number, read);
  const Tensor part_of_loss = stages_.is_whole() ? run_passes(in_flight, step, read_one)
                                                 : run_pipeline(in_flight, step, read_one);
  // The one time in a step that the host waits for the device.
  const std::vector<double> read_now =
      tensor::read_numbers({part_of_loss, step.reduce_gradients()});
  const double loss = read_now[0];
  const double squares = read_now[1];
  std::array<double, 4> sums = {stages_[0].counts_loss() ? loss : 0, squares,
                                votes.save ? 1.0 : 0.0, votes.stop ? 1.0 : 0.0};
  sum_over_everyone(*mesh_, sums);
  const StepResult result{sums[0],
                          std::sqrt(sums[1]),
                          recipe_.learning_rate.at(number),
                          {.save = sums[2] > 0, .stop = sums[3] > 0}};
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1])) {
    return {result, find_not_finite(*mesh_, stages_, optimizer_, loss)};
  }
  if (update) update(step, result);
  return {result, std::nullopt};
}

StepResult Trainer::step(std::int64_t number, const ReadSample& read, const Votes& votes,
                         const std::function<void()>& before_update) {
  const Attempt first =
      attempt(number, read, votes, [&](optim::AdamW::Step& step, const StepResult& result) {
        if (before_update) before_update();
        step.update(number, result.rate, optim::clip_scale(result.grad_norm, recipe_.clip));
        pipeline_.send_shared();
      });
  return first.bad ? end_bad_step(number, read, first) : first.result;
}

/// All passes of the first run have ended on all ranks, and nothing of them is under way. Sums of
/// the second run take the place of the first one's.
StepResult Trainer::end_bad_step(std::int64_t number, const ReadSample& read,
                                 const Attempt& first) {
  constexpr const char* kAdvice =
      "; nothing was updated. Try a smaller optim.lr, a longer optim.warmup, or clipping "
      "(optim.clip)";
  if (first.bad->parameter) {
    throw BadNumbers(concat("step ", number, ": ", describe(*first.bad), kAdvice), number);
  }
  BadStep bad{.number = number, .first = *first.bad, .second = {}, .layer = {}};
  {
    Inspection inspection;
    bad.second = attempt(number, read, {}, {}).bad;
    bad.layer = inspection.first_bad(*mesh_, (number - 1) * recipe_.batch);
  }
  // Weights that have changed on one rank may be the cause, and no later step would mend them.
  const std::string different = difference_of_replicas(*mesh_, stages_);
  if (!different.empty()) throw Error(concat(describe(bad), "; ", different));
  if (!recipe_.skip_bad_steps) {
    throw BadNumbers(describe(bad) + (bad.reproducible() ? kAdvice : "; nothing was updated"),
                     number);
  }
  StepResult result = first.result;
  result.left_out = describe(bad) + "; this step updates nothing";
  return result;
}

void Trainer::send_values() {
  optimizer_.gather_values();
  pipeline_.send_shared();
}

void Trainer::restored() {
  optimizer_.restored();
  pipeline_.send_shared();
  finish();
}

void Trainer::finish() {
  for (const nn::ParameterPtr& p : stages_.parameters()) p->wait_for_values();
  pipeline_.finish();
}

double Trainer::validate(std::int64_t passes, const ReadSample& read) {
  const Tensor loss = no_loss(*mesh_);
  const std::int64_t terms = recipe_.model->terms(passes * recipe_.micro_batch);
  const RunStage run = [&](const model::Part& part, const std::vector<Tensor>& hidden,
                           std::int64_t micro_batch, nn::Pass& pass) {
    const std::int64_t first = micro_batch * recipe_.micro_batch;
    model::Input input = read_input(first, part.stage().first || part.stage().last, read);
    input.batch.first_sample = first;
    std::vector<Tensor> outputs = part.run(hidden, input, terms, pass);
    if (part.stage().last) loss.add_(outputs[0]);
    return outputs;
  };
  run_forward(recipe_.model->batch(recipe_.micro_batch), passes, run);
  std::array<double, 1> sum = {0};
  if (stages_[0].counts_loss()) sum[0] = tensor::read_numbers({loss})[0];
  sum_over_everyone(*mesh_, sum);
  return sum[0];
}

void Trainer::run_forward(const nn::Batch& batch, std::int64_t passes, const RunStage& run) {
  tensor::InFlight in_flight(*mesh_);
  if (!stages_.is_whole()) return pipeline_.run_forward(in_flight, batch, passes, run);
  const at::NoGradGuard no_graph;
  for (std::int64_t i = 0; i < passes; ++i) {
    nn::Pass pass(in_flight);
    run(model(), {}, i, pass);
  }
}

void Trainer::with_mean_values(const std::function<void()>& use) {
  const auto exchange = [this] {
    finish();
    optimizer_.exchange_mean();
    pipeline_.send_shared();
    finish();
  };
  exchange();
  use();
  exchange();
}

ReadSample read_tokens(ReadTokens read) {
  return [read = std::move(read)](std::int64_t sample, std::span<const Tensor> data) {
    read(sample, data[0].data_ptr<std::int64_t>(), data[1].data_ptr<std::int64_t>());
  };
}

}  // namespace fourfold::train
