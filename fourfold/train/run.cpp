// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/run.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>

#include "fourfold/base/check.hpp"
#include "fourfold/base/file.hpp"
#include "fourfold/checkpoint/generation_config.hpp"
#include "fourfold/checkpoint/model_config.hpp"
#include "fourfold/checkpoint/weights.hpp"
#include "fourfold/config/write.hpp"
#include "fourfold/report/chrome_trace.hpp"
#include "fourfold/report/page.hpp"
#include "fourfold/train/all_ranks.hpp"
#include "fourfold/train/device.hpp"
#include "fourfold/train/metrics.hpp"
#include "fourfold/train/pictures.hpp"
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
                  recipe_.overlap);
    device_.emplace(world, spec_.config.device, meter);
    make_trainer();
    metrics_.construction = meter.at_peak().total();
    if (spec_.trace_steps.first > 0) tracer_.emplace(*mesh_, spec_.trace_steps);
    metrics_.gemm_flops =
        peak_rate(*mesh_, spec_.config.device, recipe_.model->execution().precision.compute);
    meter.reset_peak();
    make_folder();
  }

  void train() {
    const config::TrainConfig& config = spec_.config.train;
    const ReadSample read = read_training(data_);
    world_->reset_counters();
    for (std::int64_t number = 1; number <= config.steps; ++number) {
      step(number, read);
      const bool due = config.validate_every > 0 && number % config.validate_every == 0;
      if (due || number == config.steps) validate(number);
      if (draws_ && (number % config.draw_every == 0 || number == config.steps)) draw(number);
    }
  }

  void finish() {
    const std::string too_slow = device_->warning(*mesh_);
    device_.reset();  // what follows is the host's
    const tensor::MemoryUse peaks = meter_->peaks();
    const Bytes in_steps = meter_->at_peak().total();
    trainer_->finish();
    take_counts();
    save_weights();
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
    if (!first_) return;
    const comm::LongWork long_work = world_->long_work("writing the results");
    save_description();
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
  }

 private:
  void make_trainer() {
    const comm::LongWork long_work = world_->long_work("making the model");
    trainer_.emplace(*mesh_, recipe_, [this](const model::Part& part) {
      const std::string& weights = spec_.config.train.init_from;
      if (!weights.empty()) checkpoint::load_weights(*recipe_.model, part, weights);
    });
  }

  void make_folder() {
    draws_ = can_draw(*trainer_) && spec_.config.train.draw_every > 0;
    if (!first_) return;
    const comm::LongWork long_work = world_->long_work("making the run's folder");
    folder_ = make_run_folder(spec_.out, spec_.name);
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
    if (spec_.config.model.has_images() && spec_.config.train.draw_every > 0 && !draws_) {
      say("no pictures are drawn while a pipeline trains; fourfold sample draws them afterwards");
    }
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

  void step(std::int64_t number, const ReadSample& read) {
    const Seconds begin = now();
    device_->begin_step();
    if (tracer_) tracer_->begin_step(number);
    const StepResult result = trainer_->step(number, read);
    device_->end_step();
    const Seconds seconds = now() - begin;
    const comm::Counts counts = take_counts();
    if (tracer_) tracer_->end_step(number);
    if (tracer_ && tracer_->ends_with(number)) collect_traces();
    if (!first_) return;
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
                           .mfu = speed / metrics_.gemm_flops};
    metrics_.steps.add(step);
    files_->step(step);
    // The last steps predict best how long the others will take, and the first step predicts worst.
    constexpr std::size_t kRecent = 100;
    if (number == 2 || recent_.size() == kRecent) recent_.erase(recent_.begin());
    recent_.push_back(seconds);
    tell(step);
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
    const comm::LongWork long_work = world_->long_work("collecting traces");
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
    const comm::LongWork long_work = world_->long_work("validating");
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
    const comm::LongWork long_work = world_->long_work("drawing pictures");
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

  void save_weights() {
    const auto save = [this](std::string_view file) {
      checkpoint::save_weights(*mesh_, trainer_->stages(), first_ ? folder_ : "",
                               checkpoint::kSaveWindow, file);
    };
    save(checkpoint::kWeightsFile);
    if (recipe_.optimizer.mean_decay > 0) {
      trainer_->with_mean_values([&] { save(checkpoint::kMeanFile); });
    }
  }

  /// Writes what other programs need besides the weights to use the model.
  void save_description() {
    const std::int64_t end = data_.tokenizer ? data_.tokenizer->end_of_text() : -1;
    // In training a text follows the end of another one where no token begins it.
    std::int64_t begin = data_.tokenizer ? data_.tokenizer->begin_of_text() : -1;
    if (begin < 0) begin = end;
    write_text(folder_ + "/config.json", checkpoint::model_config(*recipe_.model, begin, end));
    if (spec_.config.model.has_images()) return;
    write_text(folder_ + "/generation_config.json", checkpoint::generation_config(begin, end));
    if (data_.tokenizer) data_.tokenizer->save(folder_);
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
  Flops flops_;  // of a step
  std::optional<Mesh> mesh_;
  std::optional<Device> device_;  // until the last step has ended
  std::optional<Trainer> trainer_;
  bool draws_ = false;                 // whether pictures are drawn now and then
  std::vector<std::string> pictures_;  // their names in the folder
  std::string folder_;
  std::optional<MetricsFiles> files_;
  std::vector<std::string> said_;  // lines from before there were files
  RunMetrics metrics_;
  std::vector<Seconds> recent_;            // times of the last steps
  std::optional<Tracer> tracer_;           // until the traces are collected
  std::vector<report::RankTrace> traces_;  // of all ranks, on the first
};

}  // namespace

void run(comm::World& world, RunSpec spec, const Console& console) {
  tensor::MemoryMeter meter;
  const tensor::MemoryMeter::Counting counting(meter);
  Run run(world, std::move(spec), console, meter);
  run.train();
  run.finish();
}

}  // namespace fourfold::train
