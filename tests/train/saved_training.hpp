// A small training of any model on any grid that is saved and goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fourfold/checkpoint/loader.hpp"
#include "fourfold/checkpoint/saver.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::test {

/// The steps of the whole training.
inline constexpr std::int64_t kTrainedSteps = 6;

enum class Kind { kGpt, kLlama, kUNet };

/// How a model is run.
struct Way {
  grid::Sizes sizes;
  optim::Zero zero = optim::Zero::kMoments;
  bool summa = false;
  int chunks = 1;
  nn::Activations activations = nn::Activations::kSharded;
  nn::Precision precision = nn::Precision::float64();
};

std::string shown(const Way& way);

train::Recipe recipe_of(Kind kind, const Way& way);

/// A sample of text, or an image.
void read_any(std::int64_t sample, std::span<const at::Tensor> data);

/// One rank of such a training. What a checkpoint says of steps and samples is what was trained.
class Session {
 public:
  Session(comm::World& world, Kind kind, const Way& way);

  std::vector<train::StepResult> train(std::int64_t from, std::int64_t to);
  /// As the checkpoint of the last step that was trained or loaded, or as that of another one.
  checkpoint::Saved save(const std::filesystem::path& folder,
                         std::optional<std::int64_t> step = std::nullopt);
  checkpoint::Loaded load(const std::filesystem::path& folder);
  train::Trainer& trainer() { return trainer_; }

 private:
  train::Recipe recipe_;
  tensor::Mesh mesh_;
  train::Trainer trainer_;
  std::int64_t step_ = 0;  // that was done last
  std::int64_t samples_ = 0;
};

/// Runs a session on as many ranks as the way has.
void on_ranks(Kind kind, const Way& way, const std::function<void(comm::World&, Session&)>& body);

}  // namespace fourfold::test
