// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/comm/flight_log.hpp"
#include "fourfold/comm/flight_recorder.hpp"
#include "fourfold/config/write.hpp"
#include "fourfold/launch/stop_signal.hpp"
#include "fourfold/report/chrome_trace.hpp"
#include "fourfold/report/page.hpp"
#include "fourfold/train/all_ranks.hpp"
#include "fourfold/train/bad_step.hpp"
#include "fourfold/train/checkpoints.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/dry_run.hpp"
#include "fourfold/train/gpu.hpp"
#include "fourfold/train/history.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/model_folder.hpp"
#include "fourfold/train/pictures.hpp"
#include "fourfold/train/replicas.hpp"
#include "fourfold/train/run_folder.hpp"
#include "fourfold/train/run_report.hpp"
#include "fourfold/train/setup.hpp"
#include "fourfold/train/shared_dataset.hpp"
#include "fourfold/train/shared_grid.hpp"
#include "fourfold/train/tracer.hpp"

namespace fourfold::train {

namespace {

/// The largest resident size of the process so far.
Bytes peak_rss() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return Bytes(kib * 1024);
  }
  return {};
}

/// "+3%": how much larger than 1 a ratio is.
std::string difference(double ratio) {
  const auto percent = std::llround(100 * (ratio - 1));
  return concat(percent > 0 ? "+" : "", percent, "%");
}

/// One rank's part of a run.
class Run {
 public:
  Run(comm::World& world, RunSpec spec, const Console& console, tensor::MemoryMeter& meter)
      : world_(&world),
        spec_(std::move(spec)),
        console_(&console),
        meter_(&meter),
        first_(world.rank() == 0) {
    for (const std::string& remark : spec_.remarks) say(remark);
    where_ = open_device(world, spec_.config.device);
    if (spec_.free_grid) forget_other_grid(spec_.config, world.size());
    data_ = open_shared_dataset(world, spec_.config, console.show);
    say(data_.about);
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
    if (!init_from.empty()) {
      checkpoint::check_same_model(*recipe_.model, init_from);
      say("weights from " + init_from);
    }
    mesh_.emplace(world, grid::Grid(spec_.config.parallel.sizes, spec_.config.parallel.placement),
                  recipe_.overlap, where_);
    device_.emplace(world, spec_.config.device, meter);
    make_trainer();
    metrics_.construction = meter.at_peak().total();
    metrics_.gemm_flops =
        peak_rate(*mesh_, spec_.config.device, recipe_.model->execution().precision.compute);
    go_on();
    meter.reset_peak();
    if (spec_.trace_steps.first > 0) tracer_.emplace(*mesh_, later(spec_.trace_steps));
    make_folder();
  }

  /// Returns whether all steps were done: not if a signal has asked the run to stop.
  bool train() {
    const config::TrainConfig& config = spec_.config.train;
    const ReadSample read = read_training(data_);
    world_->reset_counters();
    for (std::int64_t number = done_ + 1; number <= config.steps; ++number) {
      const Votes votes = step(number, read);
      const bool due = config.validate_every > 0 && number % config.validate_every == 0;
      if (due || number == config.steps) validate(number);
      if (draws_ && (number % config.draw_every == 0 || number == config.steps)) draw(number);
      save(number, votes);
      if (votes.stop && number < config.steps) return false;
    }
    return true;
  }

  /// Ends a run that was asked to stop.
  void stop() {
    trainer_->finish();
    drop_log();
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
    const auto largest_bytes = [this](Bytes own) {
      return Bytes(static_cast<std::int64_t>(largest(*mesh_, static_cast<double>(own.value()))));
    };
    for (std::size_t i = 0; i < tensor::kMemoryClasses; ++i) {
      metrics_.memory.by_class[i] = largest_bytes(peaks.by_class[i]);
    }
    metrics_.construction = largest_bytes(metrics_.construction);
    metrics_.peak = std::max(metrics_.construction, largest_bytes(in_steps));
    metrics_.peak_rss = largest_bytes(peak_rss());
    metrics_.checkpoints = checkpoints_->times().count;
    metrics_.checkpoint_blocked = checkpoints_->times().blocked;
    drop_log();
    if (!first_) return;
    const comm::LongWork long_work = world_->long_work("writing the results");
    save_description(folder_, *recipe_.model, data_);
    summarise();
    if (!too_slow.empty()) say(too_slow);
    if (!spec_.json.empty()) write_text(spec_.json, to_json(metrics_));
    if (!spec_.report.empty()) {
      report::RunData data = report_of(spec_.name, spec_.config, metrics_, std::move(traces_));
      data.pictures = latest_pictures();
      if (predicted_) {
        data.predicted = std::move(predicted_->traces);
        data.predicted_part = predicted_->part;
      }
      write_text(spec_.report, report::page(data));
      say(concat("the report is in ", spec_.report));
    }
    mark_ended(folder_, spec_.config.train.steps);
  }

 private:
  void make_trainer() {
    const comm::LongWork long_work = world_->long_work("making the model");
    trainer_.emplace(*mesh_, recipe_, [this](const model::Part& part) {
      const std::string& weights = spec_.config.train.init_from;
      if (!weights.empty()) checkpoint::load_weights(*recipe_.model, part, weights);
    });
  }

  /// The steps to trace, or the third one from here on if these were done before.
  TraceSteps later(TraceSteps steps) const {
    if (steps.first > done_) return steps;
    const std::int64_t third = std::min(done_ + 3, spec_.config.train.steps);
    return {third, third};
  }

  /// Fills the trainer from a checkpoint, if there is one.
  void go_on() {
    if (spec_.resume.empty()) return;
    const Seconds begin = now();
    const Resumed resumed = resume(*mesh_, *trainer_, spec_.config, spec_.resume, data_.train_units,
                                   [this](const auto& line) { say(line); });
    done_ = resumed.step;
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
    if (first_) begin_folder();
    folder_ = checkpoint::first_text(mesh_->everyone(), folder_);
    checkpoints_.emplace(*mesh_, *trainer_, spec_.config, folder_, data_.train_units,
                         [this](const auto& line) { say(line); });
    keep_log();
  }

  /// A log of what this rank does, for `fourfold autopsy`. Without it a run trains as well.
  void keep_log() {
    const std::string path = flight_folder(folder_) + "/" + comm::flight_file(world_->rank());
    try {
      flight_.emplace(*world_, path);
    } catch (const IoError& error) {
      say(concat(error.what(), "; this run leaves no logs for fourfold autopsy"));
    }
  }

  /// Logs are of no use when all is well.
  void drop_log() {
    if (!flight_) return;
    flight_.reset();
    std::error_code error;
    std::filesystem::remove(flight_folder(folder_) + "/" + comm::flight_file(world_->rank()),
                            error);
    std::filesystem::remove(flight_folder(folder_), error);  // if it is empty
  }

  /// Says that this rank does other work than steps, as long as the result lives.
  comm::LongWork long_work(const std::string& what) {
    if (flight_) flight_->begin(what);
    return world_->long_work(what);
  }

  void begin_folder() {
    const comm::LongWork long_work = world_->long_work("making the run's folder");
    if (spec_.resume.empty() || !is_run_folder(spec_.resume)) {
      folder_ = make_run_folder(spec_.resume.empty() ? spec_.out : spec_.resume, spec_.name);
    } else {
      folder_ = spec_.resume;
      forget_end(folder_);
      History history = cut_history(folder_, done_, unit_of(spec_.config.model));
      metrics_.steps = std::move(history.steps);
      metrics_.validations = std::move(history.validations);
    }
    std::error_code error;  // logs of earlier ranks
    std::filesystem::remove_all(flight_folder(folder_), error);
    write_text(folder_ + "/config.toml", config::to_toml(spec_.config));
    files_.emplace(folder_, unit_of(spec_.config.model));
    for (const std::string& line : said_) files_->log(line);
    metrics_.facts = facts_of(*world_, spec_.config, data_);
    metrics_.facts.command = spec_.command;
    metrics_.facts.versions = spec_.versions;
    say(describe(metrics_.facts));
    const nn::Batch batch = recipe_.model->batch(recipe_.micro_batch);
    say(describe(recipe_.overlap, trainer_->stages()[0].parts_of(batch)));
    if (const std::string about = device_->about(); !about.empty()) say(about);
    say(concat("run folder ", folder_));
  }

  /// Writes a line to the user and, once it exists, to the log. Only the first rank does this.
  void say(const std::string& line) {
    if (!first_) return;
    console_->say(line);
    if (files_) {
      files_->log(line);
    } else {
      said_.push_back(line);
    }
  }

  /// Returns what any rank has asked for.
  Votes step(std::int64_t number, const ReadSample& read) {
    const Seconds begin = now();
    device_->begin_step();
    if (flight_) flight_->begin_step(number);
    if (tracer_) tracer_->begin_step(number);
    const StepResult result = train_step(number, read);
    world_->resolve();
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
    add(counts, take_counts());
    if (tracer_) tracer_->end_step(number);
    if (tracer_ && tracer_->ends_with(number)) collect_traces();
    if (!first_) return result.votes;
    const auto units = static_cast<double>(units_of_step(spec_.config));
    const FlopsPerSecond speed = flops_ / seconds;
    const StepMetrics step{.step = number,
                           .loss = result.loss,
                           .grad_norm = result.grad_norm,
                           .rate = result.rate,
                           .seconds = seconds,
                           .exposed = exposed(counts),
                           .communication = communication_times(counts),
                           .units_per_second = units / seconds.value(),
                           .mfu = speed / metrics_.gemm_flops,
                           .skipped = skipped ? 1 : 0};
    metrics_.steps.add(step);
    files_->step(step);
    // The last steps predict best how long the others will take, and the first step predicts worst.
    constexpr std::size_t kRecent = 100;
    if (number == done_ + 2 || recent_.size() == kRecent) recent_.erase(recent_.begin());
    recent_.push_back(seconds);
    tell(step);
    return result.votes;
  }

  StepResult train_step(std::int64_t number, const ReadSample& read) {
    try {
      return trainer_->step(number, read, checkpoints_->votes(number, launch::stop_requested()),
                            [&] { compare(number); });
    } catch (const c10::OutOfMemoryError&) {
      const tensor::MemoryUse use = meter_->now();
      const Bytes expected = dry_run(mesh_->grid(), world_->rank(), recipe_).peak();
      throw Error(concat("step ", number, ": ", describe_full_gpu(world_->rank(), use, expected)));
    }
  }

  /// A rank that does not answer for longer than a step, and a second, is not only late.
  void expect_steps_of(std::int64_t number, Seconds seconds) {
    constexpr std::int64_t kFirst = 3;  // the first steps may be shorter or longer
    constexpr Seconds kMore{1};
    longest_step_ = std::max(longest_step_, seconds);
    if (number >= done_ + kFirst) world_->suspect_after(longest_step_ + kMore);
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
    take_counts();
    checkpoints_->after_step(number, votes);
    world_->reset_counters();  // it does not belong to training
  }

  /// What was communicated since the last call. The last operations of a step may count for the
  /// next.
  comm::Counts take_counts() {
    comm::Counts counts = world_->take_counters();
    add(metrics_.communication, counts);
    return counts;
  }

  void collect_traces() {
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = long_work("collecting traces");
    traces_ = tracer_->collect();
    tracer_.reset();
    world_->reset_counters();  // it does not belong to training
    if (!first_ || spec_.trace.empty()) return;
    write_text(spec_.trace, report::chrome_trace(traces_));
    say(concat("the trace is in ", spec_.trace));
  }

  void tell(const StepMetrics& step) {
    const config::TrainConfig& config = spec_.config.train;
    const bool due = step.step % config.log_every == 0 || step.step == config.steps;
    if (!due && !console_->lively) return;
    const auto left = static_cast<double>(config.steps - step.step);
    const std::string line =
        describe(step, config.steps, left * median(recent_), unit_of(spec_.config.model));
    if (due) files_->log(line);
    if (console_->lively) {
      console_->show(line);
    } else if (due) {
      console_->say(line);
    }
  }

  void validate(std::int64_t number) {
    if (!data_.validation) return;
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = long_work("validating");
    const double loss =
        trainer_->validate(validation_passes(data_, spec_.config.train), read_validation(data_));
    world_->reset_counters();  // it does not belong to training
    if (!first_) return;
    metrics_.validations.add({.step = number, .loss = loss});
    files_->validation(number, loss);
    say(concat("step ", number, "  validation loss ", loss));
  }

  void draw(std::int64_t number) {
    trainer_->finish();
    take_counts();
    const comm::LongWork announced = long_work("drawing pictures");
    const formats::Picture picture = draw_picture(*mesh_, *trainer_, spec_.config.train.seed);
    world_->reset_counters();  // it does not belong to training
    if (!first_) return;
    pictures_.push_back(picture_name(number));
    for (const std::string& name : {pictures_.back(), std::string("samples.png")}) {
      formats::write_png(folder_ + "/" + name, picture);
    }
    say(concat("step ", number, "  pictures in ", folder_, "/", pictures_.back()));
  }

  /// Of the last pictures, for the report.
  std::vector<report::PictureData> latest_pictures() const {
    constexpr std::size_t kMost = 4;
    std::vector<report::PictureData> latest;
    for (auto name = pictures_.rbegin(); name != pictures_.rend() && latest.size() < kMost;
         ++name) {
      std::ifstream file(folder_ + "/" + *name, std::ios::binary);
      latest.push_back({*name, {std::istreambuf_iterator<char>(file), {}}});
    }
    return latest;
  }

  void summarise() {
    metrics_.ranks = world_->size();
    metrics_.grid = grid::to_string(mesh_->grid());
    metrics_.facts.total = now() - begin_;
    const Seconds median = median_step(metrics_.steps.entries());
    metrics_.units_per_second = static_cast<double>(units_of_step(spec_.config)) / median.value();
    metrics_.model_flops = flops_ / median;
    metrics_.mfu = metrics_.model_flops / metrics_.gemm_flops;
    say(concat("median step ", median, ", ",
               describe_rate(metrics_.units_per_second, metrics_.facts.unit), ", ",
               metrics_.model_flops, " of ", metrics_.gemm_flops,
               spec_.config.device.gflops > 0 ? " of all devices: mfu "
                                              : " that products reach here: mfu ",
               std::round(1000 * metrics_.mfu) / 1000));
    if (predicted_) compare_with_prediction(median);
    const std::int64_t skipped = skipped_steps(metrics_.steps.entries());
    if (skipped > 0) say(concat(skipped, skipped == 1 ? " step" : " steps", " updated nothing"));
    say(concat("the whole run took ", short_time(metrics_.facts.total)));
    say(concat("the model is in ", folder_));
  }

  void compare_with_prediction(Seconds step) {
    if (!predicted_->missing.empty()) {
      say(predicted_->missing);
      return;
    }
    metrics_.predicted_step = predicted_->step;
    metrics_.predicted_memory = predicted_->memory;
    say(concat("predicted: a step of ", predicted_->step, " and ", predicted_->memory,
               " of tensors; measured: ", step, " and ", metrics_.peak, " (the prediction is ",
               difference(predicted_->step / step), " and ",
               difference(predicted_->memory / metrics_.peak), " off)"));
  }

  Seconds begin_ = now();
  std::optional<Prediction> predicted_;  // of the first rank; of others it is empty or unused
  comm::World* world_;
  RunSpec spec_;
  const Console* console_;
  tensor::MemoryMeter* meter_;
  bool first_;  // whether this is rank 0, which reports and writes
  Dataset data_;
  Recipe recipe_;
  Flops flops_;                    // of a step
  c10::Device where_ = c10::kCPU;  // the tensors of this rank
  std::optional<Mesh> mesh_;
  std::optional<Device> device_;  // until the last step has ended
  std::optional<Trainer> trainer_;
  std::int64_t done_ = 0;  // steps that were done before this process began
  std::optional<Checkpoints> checkpoints_;
  std::optional<comm::FlightRecorder> flight_;
  SkippedSteps skipped_;
  comm::Counts before_update_;  // what a step has communicated before a comparison of replicas
  bool draws_ = false;          // whether pictures are drawn now and then
  std::vector<std::string> pictures_;  // their names in the folder
  std::string folder_;
  std::optional<MetricsFiles> files_;
  std::vector<std::string> said_;  // lines from before there were files
  RunMetrics metrics_;
  std::vector<Seconds> recent_;  // times of the last steps
  Seconds longest_step_;
  std::optional<Tracer> tracer_;           // until the traces are collected
  std::vector<report::RankTrace> traces_;  // of all ranks, on the first
};

}  // namespace

void forget_other_grid(config::Config& config, int ranks) {
  if (!config.parallel.given || grid::Grid(config.parallel.sizes).ranks() == ranks) return;
  config.parallel = {};
  config.train.micro_batch = config.train.batch;
  config.train.checkpoint_activations = false;
}

bool run(comm::World& world, RunSpec spec, const Console& console) {
  tensor::MemoryMeter meter(type_of(spec.config.device));
  const tensor::MemoryMeter::Counting counting(meter);
  Run run(world, std::move(spec), console, meter);
  if (!run.train()) {
    run.stop();
    return false;
  }
  run.finish();
  return true;
}

}  // namespace fourfold::train
