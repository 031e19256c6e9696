// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/launch/stop_signal.hpp"
#include "fourfold/report/chrome_trace.hpp"
#include "fourfold/train/bad_step.hpp"
#include "fourfold/train/checkpoints.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/model_folder.hpp"
#include "fourfold/train/pictures.hpp"
#include "fourfold/train/replicas.hpp"
#include "fourfold/train/resumed_config.hpp"
#include "fourfold/train/run_files.hpp"
#include "fourfold/train/run_folder.hpp"
#include "fourfold/train/run_peaks.hpp"
#include "fourfold/train/run_record.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/shared_dataset.hpp"
#include "fourfold/train/shared_grid.hpp"
#include "fourfold/train/tracer.hpp"

namespace fourfold::train {

namespace {

/// One rank's part of a run.
class Run {
 public:
  Run(comm::World& world, RunSpec spec, const Console& console, tensor::MemoryMeter& meter)
      : world_(&world),
        spec_(std::move(spec)),
        meter_(&meter),
        first_(world.rank() == 0),
        record_(spec_, console, first_) {
    for (const std::string& remark : spec_.remarks) say(remark);
    where_ = open_device(world, spec_.config.device);
    if (spec_.free_grid) forget_other_grid(spec_.config, world.size());
    if (spec_.own) take_own_grid(spec_.config, *spec_.own, world.size());
    open_data(console);
    const std::string chosen =
        spec_.choose ? spec_.choose(world, spec_.config, predicted_)
                     : settle_on_all_ranks(world, spec_.config,
                                           [&](config::Config& config, const RankMemory& memory) {
                                             return settle_grid(config, world.size(), memory);
                                           });
    if (!chosen.empty()) say(chosen);
    meter.reset_peak();  // measuring the machine for the choice is not part of training
    recipe_ = recipe_of(spec_.config);
    flops_ = recipe_.model->flops(recipe_.batch);
    const std::string& init_from = spec_.config.train.init_from;
    if (loads_weights()) {
      checkpoint::check_same_model(*recipe_.model, init_from);
      say("weights from " + init_from);
    }
    mesh_.emplace(world, grid::Grid(spec_.config.parallel.sizes, spec_.config.parallel.placement),
                  recipe_.overlap, where_);
    device_.emplace(world, spec_.config.device, meter);
    make_trainer();
    record_.metrics.construction = meter.at_peak().total();
    record_.metrics.gemm_flops =
        peak_rate(*mesh_, spec_.config.device, recipe_.model->execution().precision.compute);
    go_on();
    meter.reset_peak();
    if (spec_.trace_steps.first > 0) {
      tracer_.emplace(*mesh_, steps_after(done_, spec_.trace_steps, spec_.config.train.steps));
    }
    make_folder();
  }

  /// Returns whether all steps were done: not if a signal has asked the run to stop.
  bool train() {
    const config::TrainConfig& config = spec_.config.train;
    const ReadSample read = read_training(data_);
    world_->reset_counters();
    for (std::int64_t number = done_ + 1; number <= config.steps; ++number) {
      const Votes votes = step(number, read);
      const bool last = number == config.steps;
      const bool stops = votes.stop && !last;
      if (stops) save(number, votes);  // at once: there may be little time left
      const bool due = config.validate_every > 0 && number % config.validate_every == 0;
      if (due || last) validate(number);
      if (draws_ && (number % config.draw_every == 0 || last)) draw(number);
      if (stops) return false;
      save(number, votes);
    }
    return true;
  }

  /// Ends a run that was asked to stop.
  void stop() {
    trainer_->finish();
    files_.drop_log();
    if (!checkpoints_->failure().empty()) {
      throw Error(concat(
          "stopped on request, but the last steps could not be saved: ", checkpoints_->failure(),
          "; fourfold train --resume ", folder_, " goes on from the checkpoint before"));
    }
    if (first_) forget_begun(folder_);
    say(concat("stopped on request; fourfold train --resume ", folder_, " goes on"));
  }

  void finish() {
    const std::string too_slow = device_->warning(*mesh_);
    device_.reset();  // what follows is the host's
    const tensor::MemoryUse peaks = meter_->peaks();
    const Bytes in_steps = meter_->at_peak().total();
    trainer_->finish();
    take_counts();
    checkpoints_->finish();
    save_model(*mesh_, *trainer_, folder_);
    if (tracer_) collect_traces();
    gather_peaks(*mesh_, peaks, in_steps, record_.metrics);
    record_.metrics.ranks = world_->size();
    record_.metrics.grid = grid::to_string(mesh_->grid());
    record_.metrics.checkpoints = checkpoints_->times().count;
    record_.metrics.checkpoint_blocked = checkpoints_->times().blocked;
    files_.drop_log();
    if (!first_) return;
    const comm::LongWork long_work = world_->long_work("writing the results");
    save_description(folder_, *recipe_.model, data_);
    record_.summarise(flops_, predicted_);
    if (!too_slow.empty()) say(too_slow);
    record_.write_results(std::move(traces_), std::move(predicted_));
    mark_ended(folder_, spec_.config.train.steps);
    forget_begun(folder_);
  }

 private:
  void open_data(const Console& console) {
    config::Config config =
        config_for_data(spec_.config, spec_.has_checkpoint ? spec_.resume : std::string());
    data_ = open_shared_dataset(*world_, config, console.show);
    spec_.config.model.vocab = config.model.vocab;  // all that the data settles
    say(data_.about);
  }

  void make_trainer() {
    const comm::LongWork long_work = world_->long_work("making the model");
    const auto fill = [this](const model::Part& part) {
      const std::string& weights = spec_.config.train.init_from;
      if (loads_weights()) checkpoint::load_weights(*recipe_.model, part, weights);
    };
    with_gpu("making the model", [&] { trainer_.emplace(*mesh_, recipe_, fill); });
  }

  /// A checkpoint replaces the weights that a run began with.
  bool loads_weights() const {
    return !spec_.config.train.init_from.empty() && !spec_.has_checkpoint;
  }

  /// Fills the trainer from a checkpoint, if there is one.
  void go_on() {
    if (spec_.resume.empty()) return;
    if (first_ && is_run_folder(spec_.resume)) {
      const comm::LongWork long_work = world_->long_work("waiting for the run's folder");
      files_.lock(spec_.resume);
    }
    const Seconds begin = now();
    const Resumed resumed = resume(*mesh_, *trainer_, spec_.config, spec_.resume, data_.train_units,
                                   [this](const auto& line) { say(line); });
    done_ = resumed.step;
    damaged_ = resumed.damaged;
    if (done_ == 0) {
      if (is_run_folder(spec_.resume)) say("there is no checkpoint yet: the run begins again");
      return;
    }
    say(concat("goes on after step ", done_, " of ", spec_.config.train.steps, ": read ",
               resumed.loaded.read, " for ", resumed.loaded.needed, " of state in ",
               now() - begin));
  }

  void make_folder() {
    draws_ = can_draw(*trainer_) && spec_.config.train.draw_every > 0;
    if (draws_ && !fits_picture(*trainer_)) {
      draws_ = false;
      say("no pictures are drawn while training: these images are too large to lie side by side");
    }
    if (first_) begin_folder();
    folder_ = checkpoint::first_text(mesh_->everyone(), folder_);
    checkpoints_.emplace(*mesh_, *trainer_, spec_.config,
                         CheckpointSpec{.folder = folder_,
                                        .train_units = data_.train_units,
                                        .damaged = std::move(damaged_),
                                        .say = [this](const auto& line) { say(line); },
                                        .before_save = [this] { record_.flush(); }});
    const std::string no_log = files_.keep_log(*world_, folder_);
    if (!no_log.empty()) say(no_log);
  }

  void begin_folder() {
    const comm::LongWork long_work = world_->long_work("making the run's folder");
    History before;
    if (spec_.resume.empty() || !is_run_folder(spec_.resume)) {
      folder_ = make_run_folder(spec_.resume.empty() ? spec_.out : spec_.resume, spec_.name);
    } else {
      folder_ = spec_.resume;
      forget_end(folder_);
      before = cut_history(folder_, done_, unit_of(spec_.config.model));
    }
    files_.begin(folder_, spec_.config, done_);
    // That of the weights may be gone when the run goes on.
    if (data_.tokenizer && loads_weights()) data_.tokenizer->save(folder_);
    record_.open(folder_, std::move(before));
    record_.metrics.facts = facts_of(*world_, spec_.config, data_);
    record_.metrics.facts.command = spec_.command;
    record_.metrics.facts.versions = spec_.versions;
    say(describe(record_.metrics.facts));
    const nn::Batch batch = recipe_.model->batch(recipe_.micro_batch);
    say(describe(recipe_.overlap, trainer_->stages()[0].parts_of(batch)));
    if (const std::string about = device_->about(); !about.empty()) say(about);
    say(concat("run folder ", folder_));
  }

  void say(const std::string& line) { record_.say(line); }

  /// Returns what any rank has asked for.
  Votes step(std::int64_t number, const ReadSample& read) {
    const Seconds begin = now();
    device_->begin_step();
    files_.begin_step(number);
    if (tracer_) tracer_->begin_step(number);
    const StepResult result = train_step(number, read);
    device_->end_step();
    const Seconds seconds = now() - begin;
    const bool skipped = !result.left_out.empty();
    if (skipped) {
      say(result.left_out);
    } else {
      expect_steps_of(number, seconds);
    }
    skipped_.after(number, skipped);
    comm::Counts counts = std::exchange(before_update_, {});
    add(counts, noted(world_->take_counters_so_far()));
    if (tracer_) tracer_->end_step(number);
    if (tracer_ && tracer_->ends_with(number)) collect_traces();
    if (!first_) return result.votes;
    const comm::LongWork writing = world_->long_work("writing metrics");
    const auto units = static_cast<double>(units_of_step(spec_.config));
    const FlopsPerSecond speed = flops_ / seconds;
    record_.step({.step = number,
                  .loss = result.loss,
                  .grad_norm = result.grad_norm,
                  .rate = result.rate,
                  .seconds = seconds,
                  .exposed = exposed(counts),
                  .communication = communication_times(counts),
                  .units_per_second = units / seconds.value(),
                  .mfu = speed / record_.metrics.gemm_flops,
                  .skipped = skipped ? 1 : 0});
    return result.votes;
  }

  StepResult train_step(std::int64_t number, const ReadSample& read) {
    StepResult result;
    try {
      with_gpu(concat("step ", number), [&] {
        result = trainer_->step(number, read, checkpoints_->votes(number, launch::stop_requested()),
                                [&] { compare(number); });
      });
    } catch (const BadNumbers& bad) {
      if (first_) mark_bad_step(folder_, bad.step());
      throw;
    }
    return result;
  }

  /// A GPU that has no room is explained with what a dry run expects.
  void with_gpu(const std::string& during, const std::function<void()>& body) {
    explain_full_gpu(
        during, world_->rank(), *meter_,
        [this] { return dry_run(mesh_->grid(), world_->rank(), recipe_).peak(); }, body);
  }

  /// A rank that does not answer for longer than a step, and half a second, is not only late.
  void expect_steps_of(std::int64_t number, Seconds seconds) {
    constexpr std::int64_t kFirst = 3;  // the first steps may be shorter or longer
    constexpr Seconds kMore{0.5};
    if (number < done_ + kFirst) return;
    constexpr double kForgets = 0.97;  // after a hundred others a step counts little
    longest_step_ = std::max(kForgets * longest_step_, seconds);
    world_->suspect_after(longest_step_ + kMore);
  }

  /// Before the update, which would hide or spread what is wrong.
  void compare(std::int64_t number) {
    const std::int64_t every = spec_.config.train.compare_every;
    if (every == 0 || number % every != 0) return;
    before_update_ = take_counts();
    const std::string different = difference_of_replicas(*mesh_, trainer_->stages());
    if (!different.empty()) throw Error(concat("step ", number, ": ", different));
    world_->reset_counters();  // it does not belong to training
  }

  void save(std::int64_t number, const Votes& votes) {
    const bool saves = votes.save || votes.stop || checkpoints_->under_way();
    if (saves) take_counts();
    checkpoints_->after_step(number, votes);
    if (saves) world_->reset_counters();  // it does not belong to training
  }

  /// What was communicated since counts were taken last, where the device has done all of it. What
  /// is under way at the end of a step counts for the next.
  comm::Counts take_counts() { return noted(world_->take_counters()); }

  comm::Counts noted(comm::Counts counts) {
    add(record_.metrics.communication, counts);
    return counts;
  }

  void collect_traces() {
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = world_->long_work("collecting traces");
    traces_ = tracer_->collect();
    tracer_.reset();
    world_->reset_counters();  // it does not belong to training
    if (!first_ || spec_.trace.empty()) return;
    try {
      write_text(spec_.trace, report::chrome_trace(traces_));
    } catch (const IoError& error) {
      return say(concat("no trace: ", error.what(), "; training goes on"));
    }
    say(concat("the trace is in ", spec_.trace));
  }

  void validate(std::int64_t number) {
    if (!data_.validation) return;
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = world_->long_work("validating");
    double loss = 0;
    with_gpu("validating", [&] {
      loss =
          trainer_->validate(validation_passes(data_, spec_.config.train), read_validation(data_));
    });
    world_->reset_counters();  // it does not belong to training
    record_.validation(number, loss);
  }

  void draw(std::int64_t number) {
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = world_->long_work("drawing pictures");
    formats::Picture picture;
    with_gpu("drawing pictures",
             [&] { picture = draw_picture(*mesh_, *trainer_, spec_.config.train.seed); });
    world_->reset_counters();  // it does not belong to training
    record_.picture(number, picture);
  }

  std::optional<Prediction> predicted_;  // of the first rank; of others it is empty or unused
  comm::World* world_;
  RunSpec spec_;
  tensor::MemoryMeter* meter_;
  bool first_;  // whether this is rank 0, which reports and writes
  RunRecord record_;
  Dataset data_;
  Recipe recipe_;
  Flops flops_;                    // of a step
  c10::Device where_ = c10::kCPU;  // the tensors of this rank
  std::optional<Mesh> mesh_;
  std::optional<Device> device_;  // until the last step has ended
  std::optional<Trainer> trainer_;
  std::int64_t done_ = 0;           // steps that were done before this process began
  std::set<std::int64_t> damaged_;  // the steps of checkpoints that did not verify
  std::optional<Checkpoints> checkpoints_;
  SkippedSteps skipped_;
  comm::Counts before_update_;  // what a step has communicated before a comparison of replicas
  bool draws_ = false;          // whether pictures are drawn now and then
  std::string folder_;
  RunFiles files_;
  Seconds longest_step_;
  std::optional<Tracer> tracer_;           // until the traces are collected
  std::vector<report::RankTrace> traces_;  // of all ranks, on the first
};

}  // namespace

bool run(comm::World& world, RunSpec spec, const Console& console) {
  tensor::MemoryMeter meter(type_of(spec.config.device));
  const tensor::MemoryMeter::Counting counting(meter);
  bool ended = false;
  explain_full_gpu("", world.rank(), meter, {}, [&] {
    Run run(world, std::move(spec), console, meter);
    ended = run.train();
    ended ? run.finish() : run.stop();
  });
  return ended;
}

}  // namespace fourfold::train
