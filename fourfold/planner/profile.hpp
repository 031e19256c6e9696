// What a block of a model costs on some ranks, whatever the rest of the grid: taken from dry runs
// that many candidates share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "fourfold/cluster/cluster.hpp"
#include "fourfold/planner/candidate.hpp"
#include "fourfold/schedule/schedule.hpp"
#include "fourfold/train/gather_names.hpp"

namespace fourfold::planner {

/// What the schedule of a block depends on.
struct ProfileKey {
  bool summa = false;
  int x = 1;
  int y = 1;
  int z = 1;
  config::Activations activations = config::Activations::kSharded;
  bool checkpoint = false;
  std::int64_t samples = 1;  ///< of a rank in a pass
  bool pipeline = false;     ///< then what is not done in every pass is left out, too
  std::int64_t keep = 0;     ///< bytes of gathered weights of a block that may be kept
  int zero = 1;              ///< for SUMMA, whose z has replicas of weights

  auto operator<=>(const ProfileKey&) const = default;
};

/// The seconds of a pass, forward and backward, without anything that is done along data and pipe.
struct PassTime {
  double block = 0;     ///< of one more block: compute, and waits for communication
  double kept = 0;      ///< the same where its weights are kept and need not be gathered along z
  double forward = 0;   ///< compute of a block in the forward pass
  double backward = 0;  ///< the same in the backward pass, with recomputation
  double outside = 0;  ///< compute outside of blocks; in a pipeline, waits of a stage in its middle
  double update = 0;   ///< of the weights of a block, if a rank updates all that it holds
  double inside_load = 0;  ///< the time that a block uses all links inside a host
  double nic_load = 0;     ///< the time that a block uses all NICs of a host
};

/// What a rank holds.
struct PassMemory {
  double first = 0;    ///< activations of a model, or in a pipeline of a stage, of one block
  double block = 0;    ///< what one more block adds to them
  double weights = 0;  ///< the weights of a block, in elements
};

/// Dry runs of one pass with one and with two blocks, on ranks without data parallelism: of the
/// whole model, or for a pipeline of a stage in its middle. Where blocks are not alike, all of them
/// count as one block, and pipelines have the same profile.
class Profile {
 public:
  Profile(const config::Config& config, const ProfileKey& key,
          const std::shared_ptr<train::GatherNames>& names = {});

  const PassMemory& memory() const { return memory_; }
  /// Whether it is of blocks that are computed again.
  bool checkpoint() const { return checkpoint_; }
  /// Of a rank in its pass.
  std::int64_t samples() const { return samples_; }
  /// The times in this grid, whose x, y and z are those of the key. May be called by several
  /// threads.
  PassTime time(const grid::Grid& grid, const cluster::Cluster& cluster);

 private:
  /// Operations of one kind of groups.
  struct Groups {
    grid::Axes axes;
    int size = 1;
    bool operator==(const Groups&) const = default;
  };

  PassTime priced(const grid::Grid& grid, const cluster::Cluster& cluster) const;

  bool checkpoint_ = false;
  std::int64_t samples_ = 1;
  bool pipeline_;
  std::vector<schedule::Schedule> passes_;  // of one and of two blocks
  std::vector<schedule::Schedule> kept_;    // the same without gathers along z, for a pipeline
  std::vector<schedule::Schedule> updates_;
  std::vector<Groups> groups_;
  PassMemory memory_;
  std::mutex mutex_;
  std::map<std::vector<cluster::GroupShape>, PassTime> times_;
};

/// The profiles of a configuration, made when they are first asked for.
class Profiles {
 public:
  explicit Profiles(const config::Config& config);

  /// Of the candidate's blocks. May be called by several threads.
  Profile& of(const Candidate& candidate);
  /// For dry runs of the same configuration.
  const std::shared_ptr<train::GatherNames>& names() const { return names_; }

 private:
  struct Entry {
    std::once_flag made;
    std::unique_ptr<Profile> profile;
  };

  config::Config config_;
  bool alike_ = true;  // whether all blocks of the model are alike
  std::shared_ptr<train::GatherNames> names_ = std::make_shared<train::GatherNames>();
  std::mutex mutex_;
  std::map<ProfileKey, Entry> profiles_;
};

/// The step without the update and without the operations that `leaves_out` is true for, in the
/// same order.
schedule::Schedule without(const schedule::Schedule& step,
                           const std::function<bool(const schedule::Issue&)>& leaves_out);

}  // namespace fourfold::planner
