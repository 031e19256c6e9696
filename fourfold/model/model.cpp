// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/model.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::model {

namespace {

/// Calls `ask` with a stage of the model on a rank that does not exist.
template <class Ask>
auto ask_dry(const Model& model, const Stage& stage, const Ask& ask) {
  const tensor::MemoryMeter aside;  // the model made here does not count as this rank's memory
  const tensor::MemoryMeter::Counting counting(aside);
  comm::World world = comm::recording::open(0, 1);
  const Mesh mesh(world, grid::Grid());
  return ask(*model.make(mesh, 1, stage));
}

/// The same with the whole model.
template <class Ask>
auto ask_dry(const Model& model, const Ask& ask) {
  return ask_dry(model, model.whole(), ask);
}

}  // namespace

Tensor Part::loss(const Input& input, std::int64_t terms, nn::Pass& pass) const {
  FOURFOLD_CHECK(stage_.first && stage_.last, "the loss of a part of the model");
  return run({}, input, terms, pass)[0];
}

std::vector<Tensor> Part::all_empty_hidden(const nn::Batch& batch, End end) const {
  std::vector<Tensor> all;
  const int parts = parts_of(batch);
  for (int i = 0; i < parts; ++i) {
    std::vector<Tensor> more = empty_hidden(nn::part_of(batch, i, parts), end);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

Flops Model::flops(std::int64_t samples) const {
  constexpr double kPasses = 3;
  return Flops(kPasses *
               ask_dry(*this, [&](const Part& part) { return part.flops(batch(samples)); }));
}

std::int64_t Model::parameter_count() const {
  return ask_dry(*this, [](const Part& part) {
    std::int64_t count = 0;
    for (const nn::ParameterPtr& parameter : part.parameters()) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : parameter->spec().shape) elements *= extent;
      count += elements;
    }
    return count;
  });
}

std::vector<double> Model::block_flops() const {
  const nn::Batch one = batch(1);
  const auto of = [&](const Stage& stage) {
    return ask_dry(*this, stage, [&](const Part& part) {
      std::vector<double> all;
      double rest = part.flops(one);
      for (std::int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i) {
        all.push_back(part.block_flops(i, one));
        rest -= all.back();
      }
      all.push_back(rest);
      return all;
    });
  };
  std::vector<double> all = of(whole());
  const double around = all.back();
  all.pop_back();
  // What comes after the blocks is what a last stage has besides its blocks.
  const double after = of({.blocks = {blocks() - 1, blocks()}, .first = false}).back();
  all.front() += around - after;
  all.back() += after;
  return all;
}

double Model::head_in_blocks() const {
  FOURFOLD_CHECK(alike(), "the blocks of a ", kind(), " differ");
  const ModelPtr one = with_blocks(1);
  return ask_dry(*one, [&](const Part& part) {
    const double block = part.block_flops(0, batch(1));
    return (part.flops(batch(1)) - block) / block;
  });
}

std::vector<Stage> Model::cut(int stages) const {
  if (!alike()) return cut(balanced(block_flops(), stages));
  return cut(balanced(blocks(), stages, 0, head_in_blocks()));
}

std::vector<Stage> Model::cut(const std::vector<std::int64_t>& blocks) const {
  std::vector<Stage> all;
  std::int64_t begin = 0;
  for (const std::int64_t count : blocks) {
    all.push_back({{begin, begin + count}, all.empty(), all.size() + 1 == blocks.size()});
    begin += count;
  }
  FOURFOLD_CHECK_EQ(begin, this->blocks(), "blocks of all stages");
  return all;
}

}  // namespace fourfold::model
