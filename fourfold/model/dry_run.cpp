// SPDX-License-Identifier: Apache-2.0
#include "fourfold/model/dry_run.hpp"

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/nn/loss.hpp"

namespace fourfold::model {

StepRecord record_step(comm::World& world, const grid::Grid& grid, const GptSpec& spec,
                       std::int64_t samples, const Tensor& tokens, const Tensor& targets) {
  StepRecord record;
  const tensor::MemoryMeter meter;
  {
    const tensor::MemoryMeter::Counting counting(meter);
    tensor::Mesh mesh(world, grid);
    const Gpt gpt(mesh, spec, samples);
    const nn::Batch batch{.samples = samples, .context = spec.context};
    const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
    const auto here = [&](const Tensor& given) {
      return mesh.dry() ? at::empty({nn::local_samples(mesh, batch), spec.context}, meta) : given;
    };
    mesh.record(&record.schedule);
    world.reset_counters();
    const Tensor loss =
        gpt.loss(here(tokens), here(targets), batch, samples * spec.context, spec.dropout > 0);
    loss.backward();
    nn::sum_over_data(mesh, gpt.parameters());
    static_cast<void>(nn::total_loss(mesh, loss));
    mesh.record(nullptr);
  }
  record.counts = world.counters();
  record.at_peak = meter.at_peak();
  record.peaks = meter.peaks();
  return record;
}

StepRecord dry_run(const grid::Grid& grid, int rank, const GptSpec& spec, std::int64_t samples) {
  comm::World world = comm::recording::open(rank, grid.ranks());
  return record_step(world, grid, spec, samples, {}, {});
}

}  // namespace fourfold::model
