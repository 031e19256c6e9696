// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/dry_run.hpp"

#include <optional>
#include <utility>

#include "fourfold/comm/recorder.hpp"
#include "fourfold/comm/recording/recording.hpp"

namespace fourfold::train {

namespace {

/// Runs steps and writes down what the last one does.
class StepRecorder {
 public:
  StepRecorder(comm::World& world, Trainer& trainer, tensor::MemoryMeter& meter)
      : world_(&world), trainer_(&trainer), meter_(&meter) {}

  void step(std::int64_t number, const ReadSample& read) {
    observation_.stop();
    counters_.emplace(world_->operations());
    observation_ = world_->observe(*counters_);
    before_ = std::exchange(schedule_, {});
    held_ = meter_->now();
    meter_->reset_peak();
    const comm::Recording recording(*world_, schedule_);
    trainer_->step(number, read);
    at_peak_ = meter_->at_peak();
    peaks_ = meter_->peaks();
  }

  /// Whether the next step cannot differ from the last one: nothing is left, neither an operation
  /// that the next step would wait for nor memory.
  bool repeats() const {
    std::int64_t waits = 0;
    for (const schedule::Step& step : schedule_.steps()) {
      waits += std::holds_alternative<schedule::Wait>(step) ? 1 : 0;
    }
    return waits == schedule_.operations() && meter_->now() == held_;
  }

  /// Must be called after the second step, or after the first one if it repeats.
  void write_to(StepRecord& record) {
    schedule::check_periodic(before_.steps().empty() ? schedule_ : before_, schedule_);
    trainer_->finish();  // operations count when they have ended
    record.counts = counters_->counts();
    record.schedule = std::move(schedule_);
    record.at_peak = at_peak_;
    record.peaks = peaks_;
  }

 private:
  comm::World* world_;
  Trainer* trainer_;
  tensor::MemoryMeter* meter_;
  std::optional<comm::Counters> counters_;  // of the operations that the last step has issued
  comm::Observation observation_;
  schedule::Schedule before_;
  schedule::Schedule schedule_;
  tensor::MemoryUse held_;  // before the step
  tensor::MemoryUse at_peak_;
  tensor::MemoryUse peaks_;
};

}  // namespace

StepRecord record_step(comm::World& world, const grid::Grid& grid, const Recipe& recipe,
                       const ReadSample& read) {
  StepRecord record;
  tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  const tensor::Mesh mesh(world, grid, recipe.overlap);
  Trainer trainer(mesh, recipe);
  record.construction = meter.at_peak();
  StepRecorder recorder(world, trainer, meter);
  // Then a dry run need not run a step before the one that counts.
  if (!world.executes()) trainer.send_values();
  recorder.step(1, read);
  // Real ranks all run the second step, since only some of them may repeat the first.
  if (world.executes() || !recorder.repeats()) recorder.step(2, read);
  recorder.write_to(record);
  return record;
}

int typical_rank(const grid::Grid& grid, int place, const model::Model& model) {
  grid::Coord coord;
  coord[grid::Axis::kPipe] = place;
  const bool swaps = model.swaps_channels() && grid.size(grid::Axis::kY) > 1;
  if (swaps && grid.size(grid::Axis::kX) > 1) coord[grid::Axis::kX] = 1;
  return grid.rank_of(coord);
}

StepRecord dry_run(const grid::Grid& grid, int rank, const Recipe& recipe, int ranks_per_host) {
  comm::World world = comm::recording::open(rank, grid.ranks(), ranks_per_host);
  return record_step(world, grid, recipe, {});
}

}  // namespace fourfold::train
