// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/unet.hpp"

#include <ATen/ops/cat.h>

#include "fourfold/base/check.hpp"
#include "fourfold/model/fit.hpp"
#include "fourfold/nn/squared_error.hpp"
#include "fourfold/tensor/node_watch.hpp"
#include "fourfold/tensor/transfer.hpp"
#include "fourfold/tensor/work.hpp"

namespace fourfold::model {

using grid::Axis;
using nn::Batch;
using nn::Pass;

// --- construction

UNet::UNet(const Mesh& mesh, const UNetSpec& spec, std::int64_t samples, const Stage& stage)
    : Part(mesh, stage), spec_(spec), noise_(spec.noise) {
  const UNetModel model(spec);
  check_fits(model, mesh, samples);
  before_ = model.plan().before(stage.blocks.begin);
  after_ = model.plan().before(stage.blocks.end);
  if (stage.first) {
    entry_ = std::make_unique<UNetEntry>(mesh, spec);
    consists_of(*entry_);
  }
  for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
    blocks_.push_back(
        UNetBlock::make(mesh, spec, model.plan().blocks()[static_cast<std::size_t>(i)]));
    consists_of(*blocks_.back());
  }
  if (!stage.last) return;
  exit_ = std::make_unique<UNetExit>(mesh, spec);
  consists_of(*exit_);
}

UNet::UNet(const Mesh& mesh, const UNetSpec& spec, std::int64_t samples)
    : UNet(mesh, spec, samples, UNetModel(spec).whole()) {}

// --- lists

std::vector<nn::Parameters> UNet::groups() const {
  const nn::Parameters first = entry_ ? entry_->parameters() : nn::Parameters();
  const nn::Parameters all = parameters();
  return {first, {all.begin() + static_cast<std::ptrdiff_t>(first.size()), all.end()}};
}

tensor::GatherOrder UNet::gatherables() const {
  tensor::GatherOrder all;
  const auto add = [&](const Bundled& layers) {
    const tensor::GatherOrder more = layers.gatherables();
    all.insert(all.end(), more.begin(), more.end());
  };
  if (entry_) add(*entry_);
  for (const auto& block : blocks_) add(*block);
  if (exit_) add(*exit_);
  return all;
}

double UNet::block_flops(std::int64_t block, const Batch& batch) const {
  return blocks_.at(static_cast<std::size_t>(block - stage().blocks.begin))->flops(batch);
}

// --- layouts

bool UNet::counts_loss() const {
  return mesh_->index({Axis::kX, Axis::kY}) == 0;
}

int UNet::parts_of(const Batch& batch) const {
  const bool communicates = mesh_->size({Axis::kX, Axis::kY}) > 1;
  const bool halves =
      mesh_->overlap().halves && communicates && nn::local_samples(*mesh_, batch) >= 2;
  return halves ? 2 : 1;
}

void UNet::check(const Batch& batch) const {
  // Ranks have whole images, whatever the setting of activations.
  nn::check_batch(*mesh_, batch, nn::Activations::kReplicated);
  FOURFOLD_CHECK_EQ(batch.parts, 1, "a pass of a part of a batch");
}

std::vector<UNet::Share> UNet::split(const Batch& batch, const Tensor& data) const {
  const int count = parts_of(batch);
  std::vector<Share> shares;
  std::int64_t first = 0;
  for (int i = 0; i < count; ++i) {
    const Batch part = nn::part_of(batch, i, count);
    const std::int64_t samples = nn::local_samples(*mesh_, part);
    shares.push_back({part, data.defined() ? data.narrow(0, first, samples) : Tensor()});
    first += samples;
  }
  return shares;
}

// --- between stages: the images, unless they are the last of those that are left; those that are
// left; and the embedding, if a block that follows uses it

std::vector<Tensor> UNet::empty_hidden(const Batch& part, End end) const {
  if (end == End::kInput ? stage().first : stage().last) return {};
  const UNetHandover& what = end == End::kInput ? before_ : after_;
  const auto options = at::TensorOptions(spec_.execution.precision.compute).device(mesh_->device());
  const std::int64_t samples = nn::local_samples(*mesh_, part);
  std::vector<Tensor> all;
  const auto add = [&](const UNetImages& images) {
    const grid::Axes axes = nn::channel_axes(images.transposed, spec_.execution.activations);
    all.push_back(at::empty(
        {samples * images.size * images.size, images.channels / mesh_->size(axes)}, options));
  };
  if (!what.is_left) add(what.images);
  for (const UNetImages& one : what.left) add(one);
  if (what.embedding) all.push_back(at::empty({samples, spec_.embedding()}, options));
  return all;
}

void UNet::hand_over(const State& state, std::vector<Tensor>& to) const {
  FOURFOLD_CHECK_EQ(state.left.size(), after_.left.size(), "images for later blocks");
  if (!after_.is_left) to.push_back(state.images);
  to.insert(to.end(), state.left.begin(), state.left.end());
  if (after_.embedding) to.push_back(state.embedding);
}

UNet::State UNet::take_over(std::vector<Tensor>::const_iterator& next) const {
  State state;
  if (!before_.is_left) state.images = *next++;
  const auto end = next + static_cast<std::ptrdiff_t>(before_.left.size());
  state.left = {next, end};
  next = end;
  if (before_.is_left) state.images = state.left.back();
  if (before_.embedding) state.embedding = *next++;
  return state;
}

std::vector<UNet::State> UNet::take_over(const std::vector<Tensor>& hidden,
                                         std::size_t parts) const {
  std::vector<State> states(parts);
  auto next = hidden.begin();
  for (State& state : states) {
    if (!stage().first) state = take_over(next);
  }
  FOURFOLD_CHECK(next == hidden.end(), "tensors of the stage before");
  return states;
}

std::vector<Tensor> UNet::hand_over(const std::vector<State>& states) const {
  std::vector<Tensor> results;
  for (const State& state : states) hand_over(state, results);
  return results;
}

UNetBlock::Inputs UNet::State::inputs_of(const UNetBlockSpec& block) {
  UNetBlock::Inputs inputs{{std::move(images)}, {}};
  if (block.kind == UNetBlockSpec::Kind::kResidual) inputs.embedding = embedding;
  if (!block.takes_left()) return inputs;
  inputs.images.push_back(std::move(left.back()));
  left.pop_back();
  return inputs;
}

void UNet::State::put(const UNetBlockSpec& block, Tensor output) {
  images = std::move(output);
  if (block.leaves) left.push_back(images);
}

// --- the way of a batch

void UNet::show_images(const Tensor& images, const Batch& batch) const {
  const std::int64_t pixels = images.size(0) / nn::local_samples(*mesh_, batch);
  tensor::show_rows(images, nn::first_local_sample(*mesh_, batch) * pixels, pixels);
}

UNet::Noised UNet::add_noise(const Share& share, bool training) const {
  const NoiseKeys keys(spec_.execution.seed, share.batch, training);
  const std::int64_t first = nn::first_local_sample(*mesh_, share.batch);
  const Tensor& data = share.data;
  const Tensor times = noise_.draw_times({first, first + data.size(0)}, keys.times,
                                         data.scalar_type(), mesh_->host());
  const Tensor images =
      noise_.add_noise(data, times, first, keys.noise, spec_.execution.precision.compute);
  constexpr double kFlops = 20;  // of a random number and two products
  mesh_->compute("noise", tensor::loop_over({images, data}, kFlops));
  return {images, tensor::upload(*mesh_, times)};
}

nn::Flow<UNet::State> UNet::enter(Noised noised, Pass& pass) const {
  pass.gather(entry_->bundle());
  State state;
  state.embedding = co_await entry_->embed(std::move(noised.times), pass);
  state.images = entry_->convolve(noised.images.view({-1, spec_.colours}), pass);
  state.left.push_back(state.images);
  co_return state;
}

nn::Flow<UNet::State> UNet::through_blocks(State state, Batch batch, Pass& pass) const {
  show_images(state.images, batch);
  for (const auto& block : blocks_) {
    pass.gather(block->bundle());
    UNetBlock::Inputs inputs = state.inputs_of(block->spec());
    Tensor output =
        co_await block->flow(std::move(inputs.images), std::move(inputs.embedding), batch, pass);
    show_images(output, batch);
    state.put(block->spec(), std::move(output));
  }
  co_return state;
}

nn::Flow<Tensor> UNet::leave(Tensor images, Batch batch, Pass& pass) const {
  pass.gather(exit_->bundle());
  return exit_->flow(std::move(images), nn::local_samples(*mesh_, batch), pass);
}

nn::Flow<Tensor> UNet::loss_of(Tensor images, Share share, std::int64_t terms, Pass& pass) const {
  const Tensor prediction = co_await leave(std::move(images), share.batch, pass);
  show_images(prediction, share.batch);
  const NoiseKeys keys(spec_.execution.seed, share.batch, pass.training());
  const std::int64_t first = nn::first_local_sample(*mesh_, share.batch);
  const Tensor noise = draw_noise(share.data, first, keys.noise);
  constexpr double kFlops = 18;
  mesh_->compute("noise", tensor::loop_over(noise, 1, kFlops));
  co_return nn::squared_error(*mesh_, prediction, noise.view({-1, spec_.colours}), terms);
}

nn::Flow<UNet::State> UNet::stage_flow(State state, Share share, std::int64_t terms,
                                       Pass& pass) const {
  // These are no conditional expressions: in one, g++ 12 frees an awaited temporary too early.
  if (stage().first) {
    Noised noised = add_noise(share, pass.training());
    state = co_await enter(std::move(noised), pass);
  }
  state = co_await through_blocks(std::move(state), share.batch, pass);
  if (!stage().last) co_return state;
  state.images = co_await loss_of(std::move(state.images), std::move(share), terms, pass);
  co_return state;
}

/// A block that is computed again is one node for all parts of the batch, which take turns inside
/// it.
std::vector<UNet::State> UNet::checkpointed(std::vector<State> states,
                                            const std::vector<Share>& shares, std::int64_t terms,
                                            Pass& pass) const {
  if (stage().first) {
    std::vector<nn::Flow<State>> starts;
    for (const Share& share : shares) {
      starts.push_back(enter(add_noise(share, pass.training()), pass));
    }
    states = nn::interleave(std::move(starts));
  }
  std::vector<Batch> parts;
  for (const Share& share : shares) parts.push_back(share.batch);
  for (const auto& block : blocks_) {
    std::vector<UNetBlock::Inputs> inputs;
    for (State& state : states) inputs.push_back(state.inputs_of(block->spec()));
    std::vector<Tensor> outputs = block->checkpointed(inputs, parts, pass);
    for (std::size_t i = 0; i < states.size(); ++i) {
      show_images(outputs[i], parts[i]);
      states[i].put(block->spec(), outputs[i]);
    }
  }
  if (!stage().last) return states;
  std::vector<nn::Flow<Tensor>> ends;
  for (std::size_t i = 0; i < states.size(); ++i) {
    ends.push_back(loss_of(std::move(states[i].images), shares[i], terms, pass));
  }
  const std::vector<Tensor> losses = nn::interleave(std::move(ends));
  for (std::size_t i = 0; i < states.size(); ++i) states[i].images = losses[i];
  return states;
}

std::vector<Tensor> UNet::run(const std::vector<Tensor>& hidden, const Input& input,
                              std::int64_t terms, Pass& pass) const {
  check(input.batch);
  if (spec_.learn_sigma && !mesh_->dry()) {
    throw ConfigError(
        "a network with model.learn_sigma can be planned and dry-run, but not trained: set it to "
        "false");
  }
  const bool reads = stage().first || stage().last;
  if (reads) {
    FOURFOLD_CHECK_EQ(input.data.size(), 1U, "images");
    FOURFOLD_CHECK_EQ(input.data[0].size(0), nn::local_samples(*mesh_, input.batch), "images");
  }
  const std::vector<Share> shares = split(input.batch, reads ? input.data[0] : Tensor());
  std::vector<State> states = take_over(hidden, shares.size());
  if (spec_.execution.checkpoint) {
    states = checkpointed(std::move(states), shares, terms, pass);
  } else {
    std::vector<nn::Flow<State>> flows;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      flows.push_back(stage_flow(std::move(states[i]), shares[i], terms, pass));
    }
    states = nn::interleave(std::move(flows));
  }
  if (stage().last) {
    Tensor loss = states[0].images;
    if (states.size() == 2) loss = at::add(loss, states[1].images);
    return {loss};
  }
  return hand_over(states);
}

// --- prediction

nn::Flow<UNet::State> UNet::predict_flow(State state, Noised noised, Batch batch,
                                         Pass& pass) const {
  if (stage().first) state = co_await enter(std::move(noised), pass);
  state = co_await through_blocks(std::move(state), batch, pass);
  if (stage().last) state.images = co_await leave(std::move(state.images), batch, pass);
  co_return state;
}

std::vector<Tensor> UNet::predict(const std::vector<Tensor>& hidden, const Noised& noised,
                                  const Batch& batch, Pass& pass) const {
  check(batch);
  const std::int64_t samples = nn::local_samples(*mesh_, batch);
  Tensor typed;
  if (stage().first) {
    FOURFOLD_CHECK_EQ(noised.images.numel(), samples * spec_.pixels() * spec_.colours, "images");
    FOURFOLD_CHECK_EQ(noised.times.numel(), samples, "a time for each image");
    typed = tensor::cast(*mesh_, "images", noised.images.contiguous(),
                         spec_.execution.precision.compute);
  }
  const std::vector<Share> shares = split(batch, typed);
  std::vector<State> states = take_over(hidden, shares.size());
  std::vector<nn::Flow<State>> flows;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    Noised part;
    if (stage().first) {
      const std::int64_t count = shares[i].data.size(0);
      part = {shares[i].data, noised.times.narrow(0, first, count)};
      first += count;
    }
    flows.push_back(predict_flow(std::move(states[i]), std::move(part), shares[i].batch, pass));
  }
  states = nn::interleave(std::move(flows));
  if (!stage().last) return hand_over(states);
  std::vector<Tensor> predictions;
  for (const State& state : states) predictions.push_back(state.images);
  return {at::cat(predictions, 0).view({samples, spec_.pixels(), spec_.outputs()})};
}

}  // namespace fourfold::model
