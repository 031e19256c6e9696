// Saves checkpoints of a training while it goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fourfold/checkpoint/folder.hpp"
#include "fourfold/checkpoint/state_writer.hpp"

namespace fourfold::checkpoint {

struct SaverSpec {
  std::filesystem::path folder;          ///< of all checkpoints; the same on all ranks
  std::int64_t keep = 2;                 ///< the newest so many stay
  std::int64_t keep_every = 0;           ///< and those of every so many steps; 0: no others
  Bytes staging{std::int64_t{1} << 30};  ///< of a rank
  std::set<std::int64_t> damaged{};      ///< the steps of those that did not verify
};

/// A checkpoint that was saved, or could not be.
struct Saved {
  std::int64_t step = 0;
  Bytes bytes;          ///< of all ranks
  Seconds blocked;      ///< how long this rank could not go on
  Seconds took;         ///< from its beginning to its end
  std::string failure;  ///< empty if all is well, as far as this rank knows
};

/// Every rank writes its own blocks of the state to a file of its own. When all ranks have done
/// that, the first rank writes the manifest and gives the checkpoint its final name: from then on
/// it counts. All functions are collective. They never throw because of the disk: a checkpoint that
/// cannot be saved leaves those before it as they are.
class Saver {
 public:
  /// Removes what earlier processes have left unfinished.
  Saver(const tensor::Mesh& mesh, SaverSpec spec);

  /// Copies the state, which may then change. `about` has the step, the samples and the
  /// configuration. If another checkpoint is under way, `finish` must be called first.
  void begin(formats::Manifest about, const std::vector<StateBlock>& state);
  bool under_way() const { return writer_ != nullptr; }

  /// Completes the checkpoint that is under way if all ranks have written it.
  std::optional<Saved> poll();
  /// The same, but waits for all ranks, or until old checkpoints are removed if none is under way.
  std::optional<Saved> finish();

 private:
  void wait_for_pruning();
  Saved complete(const std::vector<std::int64_t>& words);
  std::string commit_on_first(const std::vector<std::int64_t>& words);

  const tensor::Mesh* mesh_;
  SaverSpec spec_;
  formats::Manifest about_;
  std::unique_ptr<StateWriter> writer_;  // of the checkpoint that is under way
  std::future<void> pruning_;            // on the first rank: removing old checkpoints
  Seconds began_;
  Seconds blocked_;  // since the checkpoint before
};

}  // namespace fourfold::checkpoint
