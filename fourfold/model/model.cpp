// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/model.hpp"

#include "fourfold/base/check.hpp"
#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/model/stages.hpp"
#include "fourfold/tensor/memory.hpp"

namespace fourfold::model {

namespace {

/// Calls `ask` with the whole model on a rank that does not exist.
template <class Ask>
auto ask_dry(const Model& model, const Ask& ask) {
  const tensor::MemoryMeter aside;  // the model made here does not count as this rank's memory
  const tensor::MemoryMeter::Counting counting(aside);
  comm::World world = comm::recording::open(0, 1);
  const Mesh mesh(world, grid::Grid());
  return ask(*model.make(mesh, 1, model.whole()));
}

}  // namespace

Tensor Part::loss(const Input& input, std::int64_t terms, nn::Pass& pass) const {
  FOURFOLD_CHECK(stage_.first && stage_.last, "the loss of a part of the model");
  return run({}, input, terms, pass)[0];
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

double Model::head_in_blocks() const {
  const ModelPtr one = with_blocks(1);
  return ask_dry(*one, [&](const Part& part) {
    const double block = part.block_flops(batch(1));
    return (part.flops(batch(1)) - block) / block;
  });
}

std::vector<Stage> Model::cut(int stages) const {
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
