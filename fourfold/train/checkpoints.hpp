// The checkpoints of a run: when they are due, and what is said about them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "fourfold/checkpoint/loader.hpp"
#include "fourfold/checkpoint/saver.hpp"
#include "fourfold/config/config.hpp"
#include "fourfold/train/trainer.hpp"

namespace fourfold::train {

/// What a run has saved.
struct SaveTimes {
  std::int64_t count = 0;
  Bytes bytes;      ///< of the last checkpoint, of all ranks
  Seconds blocked;  ///< all times in which training stood still, of the first rank
  Seconds took;     ///< of the last one, until it was complete
  std::int64_t failed = 0;
};

class Checkpoints {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `folder` is that of the run, the same on all ranks. `train_units` is the size of the data.
  /// Collective.
  Checkpoints(const Mesh& mesh, Trainer& trainer, const config::Config& config,
              const std::string& folder, std::int64_t train_units, Say say);

  /// What this rank asks for when step `number` is done.
  Votes votes(std::int64_t number, bool stop) const;

  /// After each step, with what all ranks have asked for. Saving goes on while training does.
  /// Collective.
  void after_step(std::int64_t number, const Votes& votes);
  /// Waits for what is under way. Collective.
  void finish();

  const SaveTimes& times() const { return times_; }

 private:
  void save(std::int64_t number);
  void tell(const std::optional<checkpoint::Saved>& saved);

  Trainer* trainer_;
  const config::Config* config_;
  std::int64_t train_units_;
  Say say_;
  bool first_;  // whether this is rank 0
  checkpoint::Saver saver_;
  Seconds last_ = now();  // when the newest checkpoint was begun
  SaveTimes times_;
};

/// A training as a checkpoint left it.
struct Resumed {
  std::int64_t step = 0;  ///< that was done last; 0: there is no checkpoint
  checkpoint::Loaded loaded;
};

/// Fills the trainer from the newest good checkpoint of the run's folder. Throws ConfigError when
/// it is of another model, batch or data. Collective.
Resumed resume(const Mesh& mesh, Trainer& trainer, const config::Config& config,
               const std::string& folder, std::int64_t train_units, const Checkpoints::Say& say);

}  // namespace fourfold::train
