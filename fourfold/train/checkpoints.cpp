// SPDX-License-Identifier: Apache-2.0
#include "fourfold/train/checkpoints.hpp"

#include <algorithm>

#include "fourfold/base/error.hpp"
#include "fourfold/base/text.hpp"
#include "fourfold/checkpoint/first_text.hpp"
#include "fourfold/config/difference.hpp"
#include "fourfold/config/write.hpp"
#include "fourfold/tensor/memory.hpp"
#include "fourfold/train/run_folder.hpp"

namespace fourfold::train {

namespace {

checkpoint::SaverSpec spec_of(const config::CheckpointConfig& config, const CheckpointSpec& spec) {
  return {.folder = checkpoint::checkpoints_of(spec.folder),
          .keep = config.keep,
          .keep_every = config.keep_every,
          .staging = Bytes(config.staging_mib << 20),
          .damaged = spec.damaged};
}

}  // namespace

Checkpoints::Checkpoints(const Mesh& mesh, Trainer& trainer, const config::Config& config,
                         CheckpointSpec spec)
    : mesh_(&mesh),
      trainer_(&trainer),
      config_(&config),
      spec_(std::move(spec)),
      first_(mesh.everyone().rank() == 0),
      had_some_(first_ && has_checkpoint(spec_.folder)),
      saver_(mesh, spec_of(config.checkpoint, spec_)) {}

Votes Checkpoints::votes(std::int64_t number, bool stop) const {
  const config::CheckpointConfig& when = config_->checkpoint;
  Votes votes{.save = false, .stop = stop};
  if (when.every > 0) {
    votes.save = number % when.every == 0 || number == config_->train.steps;
  } else if (first_ && when.minutes > 0) {
    // The last state is saved as well where there was one before it.
    const bool last = number == config_->train.steps && (had_some_ || times_.count > 0);
    votes.save = last || now() - last_ >= Seconds(60 * when.minutes);
  }
  return votes;
}

void Checkpoints::after_step(std::int64_t number, const Votes& votes) {
  tell(saver_.poll());
  if (!votes.save && !votes.stop) return;
  tell(saver_.finish());
  stopping_ = votes.stop && number < config_->train.steps;
  save(number);
  if (votes.stop || number == config_->train.steps) finish();
  if (stopping_) failure_ = checkpoint::first_text(mesh_->everyone(), failure_);
}

void Checkpoints::finish() {
  tell(saver_.finish());
}

void Checkpoints::save(std::int64_t number) {
  last_ = now();
  {
    const comm::LongWork long_work = mesh_->world().long_work("writing metrics");
    spec_.before_save();
  }
  before_ = now() - last_;
  const formats::Manifest about{.step = number,
                                .samples = number * config_->train.batch,
                                .train_units = spec_.train_units,
                                .config = first_ ? config::to_toml(*config_) : "",
                                .files = {}};
  saver_.begin(about, checkpoint::blocks_of(trainer_->state(optim::StateOf::kOnce)));
}

void Checkpoints::tell(const std::optional<checkpoint::Saved>& saved) {
  if (!saved) return;
  const Seconds blocked = before_ + saved->blocked;
  times_.blocked += blocked;
  failure_ = saved->failure;
  if (!failure_.empty()) {
    ++times_.failed;
    if (stopping_) return;  // the run says so when it ends
    spec_.say(concat("the checkpoint of step ", saved->step, " could not be saved: ", failure_,
                     "; training goes on, and earlier checkpoints are as they were"));
    return;
  }
  ++times_.count;
  times_.bytes = saved->bytes;
  times_.took = saved->took;
  spec_.say(concat("checkpoint of step ", saved->step, ": ", saved->bytes, " in ", saved->took,
                   ", training stood still for ", blocked));
}

namespace {

/// A run that goes on keeps its model, its samples and the order of these.
void check_same_run(const config::Config& config, const formats::Manifest& manifest,
                    const std::string& folder, std::int64_t train_units) {
  if (manifest.samples != manifest.step * config.train.batch) {
    throw ConfigError(concat("the run in ", folder, " has trained on ", manifest.samples,
                             " samples in ", manifest.step, " steps: train.batch must stay ",
                             manifest.samples / std::max<std::int64_t>(1, manifest.step)));
  }
  if (manifest.train_units != train_units) {
    throw ConfigError(concat("the data of ", folder, " had ", manifest.train_units,
                             " tokens or images for training, and now there are ", train_units,
                             ": a run can only go on with the same data"));
  }
  const auto other = config::first_difference(
      manifest.config, formats::kManifestFile, config, [](const config::Key& key) {
        const std::string name = key.full_name();
        return (key.section == "model" && name != "model.dropout") || name == "train.seed";
      });
  if (other) {
    throw ConfigError(concat("the run in ", folder, " has ", other->key, " = ", other->before,
                             ", and now it is ", other->now,
                             ": a run that goes on keeps its model and its seed; --init-from "
                             "begins a new run with its weights"));
  }
  const auto mean = config::first_difference(
      manifest.config, formats::kManifestFile, config,
      [](const config::Key& key) { return key.full_name() == "train.ema"; });
  if (mean && config.train.ema > 0 && parse_number(mean->before) == 0) {
    throw ConfigError(concat("the run in ", folder, " has kept no mean of its weights: train.ema ",
                             "must stay 0"));
  }
}

}  // namespace

Resumed resume(const Mesh& mesh, Trainer& trainer, const config::Config& config,
               const std::string& folder, std::int64_t train_units, const Say& say) {
  const std::optional<checkpoint::Good> good = checkpoint::newest_good(
      mesh.world(), mesh.everyone(), checkpoint::checkpoints_of(folder), say);
  if (!good) return {};
  const formats::Manifest& manifest = good->manifest;
  check_same_run(config, manifest, folder, train_units);
  // A run that died between its last checkpoint and its results has yet to write these.
  const bool ended = ended_after(folder) >= manifest.step;
  if (manifest.step > config.train.steps || (manifest.step == config.train.steps && ended)) {
    throw ConfigError(concat("the run in ", folder, " has done all of its ", config.train.steps,
                             " steps; it goes on with a larger train.steps"));
  }
  const comm::LongWork long_work = mesh.world().long_work("loading a checkpoint");
  Resumed resumed{.step = manifest.step, .damaged = good->damaged, .loaded = {}};
  {
    const tensor::MemoryMeter aside;  // what is read in pieces is not part of training
    const tensor::MemoryMeter::Counting counting(aside);
    resumed.loaded =
        checkpoint::load_state(*good, checkpoint::blocks_of(trainer.state(optim::StateOf::kOwn)));
  }
  trainer.restored();
  return resumed;
}

}  // namespace fourfold::train
