// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/dry_run.hpp"

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"

namespace fourfold::train {

StepRecord record_step(comm::World& world, const grid::Grid& grid, const Recipe& recipe,
                       const ReadSample& read) {
  StepRecord record;
  tensor::MemoryMeter meter;
  {
    const tensor::MemoryMeter::Counting counting(meter);
    tensor::Mesh mesh(world, grid, recipe.overlap);
    Trainer trainer(mesh, recipe);
    record.construction = meter.at_peak();
    meter.reset_peak();
    const comm::Recording recording(world, record.schedule);
    world.reset_counters();
    trainer.step(1, read);
    trainer.finish();
  }
  record.counts = world.counters();
  record.at_peak = meter.at_peak();
  record.peaks = meter.peaks();
  return record;
}

StepRecord dry_run(const grid::Grid& grid, int rank, const Recipe& recipe, int ranks_per_host) {
  comm::World world = comm::recording::open(rank, grid.ranks(), ranks_per_host);
  return record_step(world, grid, recipe, {});
}

}  // namespace fourfold::train
