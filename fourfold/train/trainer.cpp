// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/trainer.hpp"

#include <array>
#include <cmath>
#include <map>

#include <torch/csrc/autograd/autograd.h>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/phase_scope.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/not_finite.hpp"

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

/// What the passes of one chunk gather, in order.
struct ChunkGathers {
  Names forward;
  Names backward;
};

/// Learns it from a pass through a dry chunk: every micro-batch gathers in the same order.
ChunkGathers gathers_of(const Mesh& dry, const model::Part& part, const model::Input& input) {
  ChunkGathers names;
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

/// The order in which a pass, or with a pipeline a step, gathers. It is learned from a dry run of
/// the same model.
tensor::GatherOrder gather_order(const model::Stages& stages, const Mesh& mesh,
                                 const Recipe& recipe) {
  Names names;
  {
    const tensor::MemoryMeter aside;  // it does not count as this rank's memory
    const tensor::MemoryMeter::Counting counting(aside);
    comm::World world = comm::recording::open(mesh.world().rank(), mesh.world().size());
    const Mesh dry(world, mesh.grid(), mesh.overlap());
    const model::Stages twin(dry, recipe.model, recipe.micro_batch, recipe.chunks,
                             recipe.stage_blocks);
    const nn::Batch batch = recipe.model->batch(recipe.micro_batch);
    const model::Input input{batch,
                             recipe.model->empty_data(nn::local_samples(dry, batch), dry.device())};
    std::vector<ChunkGathers> chunks;
    for (int i = 0; i < twin.chunks(); ++i) chunks.push_back(gathers_of(dry, twin[i], input));
    const int places = mesh.size(Axis::kPipe);
    const std::int64_t passes = twin.is_whole() ? 1 : recipe.batch / recipe.micro_batch;
    for (const Unit& unit :
         pipeline_units(places, mesh.coord()[Axis::kPipe], recipe.chunks, passes)) {
      const ChunkGathers& chunk = chunks[static_cast<std::size_t>(unit.chunk)];
      const Names& more = unit.forward ? chunk.forward : chunk.backward;
      names.insert(names.end(), more.begin(), more.end());
    }
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
  input.data = recipe_.model->empty_data(local, mesh_->device());
  if (mesh_->dry()) return input;
  const std::int64_t first = first_sample + mesh_->index({Axis::kData, Axis::kZ}) * local;
  for (std::int64_t i = 0; i < local; ++i) {
    std::vector<Tensor> sample;
    for (const Tensor& all : input.data) sample.push_back(all[i]);
    read(first + i, sample);
  }
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
double Trainer::run_pass(tensor::InFlight& in_flight, const model::Input& input) {
  nn::Pass pass(in_flight, true);
  const Tensor part = model().loss(input, recipe_.model->terms(recipe_.batch), pass);
  {
    const comm::PhaseScope phase(schedule::Phase::kBackward);
    part.backward();
  }
  return mesh_->dry() ? 0 : part.item<double>();
}

/// Runs the forward and backward passes of a step. Returns this rank's part of the loss.
double Trainer::run_passes(tensor::InFlight& in_flight, optim::AdamW::Step& step,
                           const ReadInput& read) {
  double loss = 0;
  for (std::int64_t i = 0; i < passes(); ++i) {
    step.begin_pass();
    const model::Input input = read(i, true);
    in_flight.weights().begin_pass(gathers_, i + 1 < passes());
    loss += run_pass(in_flight, input);
    in_flight.weights().end_pass();
  }
  return loss;
}

double Trainer::run_pipeline(tensor::InFlight& in_flight, optim::AdamW::Step& step,
                             const ReadInput& read) {
  in_flight.weights().begin_pass(gathers_, false);
  const double loss =
      pipeline_.run(in_flight, passes(), recipe_.model->terms(recipe_.batch), read,
                    [&](const nn::Parameters& parameters) { step.begin_pass(parameters); });
  in_flight.weights().end_pass();
  return loss;
}

StepResult Trainer::step(std::int64_t number, const ReadSample& read) {
  tensor::InFlight in_flight(*mesh_);
  optim::AdamW::Step step = optimizer_.begin_step(in_flight, passes());
  const ReadInput read_one = reader(number, read);
  const double loss = stages_.is_whole() ? run_passes(in_flight, step, read_one)
                                         : run_pipeline(in_flight, step, read_one);
  const double squares = step.reduce_gradients();
  std::array<double, 2> sums = {stages_[0].counts_loss() ? loss : 0, squares};
  sum_over_everyone(*mesh_, sums);
  const StepResult result{sums[0], std::sqrt(sums[1]), recipe_.learning_rate.at(number)};
  if (!std::isfinite(sums[0]) || !std::isfinite(sums[1])) {
    throw_not_finite(*mesh_, stages_, optimizer_, number, loss);
  }
  step.update(number, result.rate, optim::clip_scale(result.grad_norm, recipe_.clip));
  pipeline_.send_shared();
  return result;
}

void Trainer::send_values() {
  optimizer_.gather_values();
  pipeline_.send_shared();
}

void Trainer::finish() {
  for (const nn::ParameterPtr& p : stages_.parameters()) p->wait_for_values();
  pipeline_.finish();
}

double Trainer::validate(std::int64_t passes, const ReadSample& read) {
  const at::NoGradGuard no_graph;
  tensor::InFlight in_flight(*mesh_);
  std::array<double, 1> sum = {0};
  const std::int64_t terms = recipe_.model->terms(passes * recipe_.micro_batch);
  const auto read_one = [&](std::int64_t micro_batch, bool data) {
    model::Input input = read_input(micro_batch * recipe_.micro_batch, data, read);
    input.batch.first_sample = micro_batch * recipe_.micro_batch;
    return input;
  };
  if (!stages_.is_whole()) {
    sum[0] = pipeline_.run_forward(in_flight, passes, terms, read_one);
  } else {
    for (std::int64_t i = 0; i < passes; ++i) {
      nn::Pass pass(in_flight);
      const Tensor part = model().loss(read_one(i, true), terms, pass);
      if (!mesh_->dry()) sum[0] += part.item<double>();
    }
  }
  if (!stages_[0].counts_loss()) sum[0] = 0;
  sum_over_everyone(*mesh_, sum);
  return sum[0];
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
