// The checkpoints of a run: when they are due, and what is said about them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <set>
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

using Say = std::function<void(const std::string&)>;

struct CheckpointSpec {
  std::string folder;                 ///< of the run, the same on all ranks
  std::int64_t train_units = 0;       ///< the size of the data
  std::set<std::int64_t> damaged;     ///< the steps of checkpoints that did not verify
  Say say;                            ///< on the first rank: tells the user
  std::function<void()> before_save;  ///< what must be on the disk first
};

class Checkpoints {
 public:
  /// Collective.
  Checkpoints(const Mesh& mesh, Trainer& trainer, const config::Config& config,
              CheckpointSpec spec);

  /// What this rank asks for when step `number` is done.
  Votes votes(std::int64_t number, bool stop) const;

  /// After each step, with what all ranks have asked for. Saving goes on while training does.
  /// Collective.
  void after_step(std::int64_t number, const Votes& votes);
  /// Whether a checkpoint is being written, of which the ranks tell each other after each step. The
  /// same on all ranks.
  bool under_way() const { return saver_.under_way(); }
  /// Waits for what is under way. Collective.
  void finish();

  const SaveTimes& times() const { return times_; }
  /// Why the last checkpoint of a run that was asked to stop could not be saved, on all ranks
  /// alike; empty if it was.
  const std::string& failure() const { return failure_; }

 private:
  void save(std::int64_t number);
  void tell(const std::optional<checkpoint::Saved>& saved);

  const Mesh* mesh_;
  Trainer* trainer_;
  const config::Config* config_;
  CheckpointSpec spec_;
  bool first_;     // whether this is rank 0
  bool had_some_;  // whether the run saved some earlier; of the first rank
  bool stopping_ = false;
  std::string failure_;  // of the last checkpoint, as far as this rank knows
  checkpoint::Saver saver_;
  Seconds last_ = now();  // when the newest checkpoint was begun
  Seconds before_;        // that it took to write what must be on the disk first
  SaveTimes times_;
};

/// A training as a checkpoint left it.
struct Resumed {
  std::int64_t step = 0;           ///< that was done last; 0: there is no checkpoint
  std::set<std::int64_t> damaged;  ///< the steps of later checkpoints, which do not verify
  checkpoint::Loaded loaded;
};

/// Fills the trainer from the newest good checkpoint of the run's folder. Throws ConfigError when
/// what the configuration says of model, seed, batch or data is not what the run had, or when there
/// are checkpoints and none is good. Collective.
Resumed resume(const Mesh& mesh, Trainer& trainer, const config::Config& config,
               const std::string& folder, std::int64_t train_units, const Say& say);

}  // namespace fourfold::train
