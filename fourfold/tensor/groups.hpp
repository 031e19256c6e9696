// The communicators of one rank on a grid: by the axes that the group spans, and by purpose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/comm/world.hpp"
#include "fourfold/grid/grid.hpp"

namespace fourfold::tensor {

/// What an operation is for. Each purpose has lanes of its own, so that a weight that is gathered
/// ahead never waits for a gradient, and an activation waits for neither.
enum class Purpose { kActivations, kWeights, kGradients };
std::string_view to_string(Purpose purpose);

/// Communicators are made when they are first asked for. The number of a lane follows from its axes
/// and its purpose alone, so ranks may join groups in different orders, as the stages of a pipeline
/// do, and nothing is sent.
class Groups {
 public:
  /// Sets the numbers of all possible lanes aside. Every rank of the world calls this at the same
  /// point.
  Groups(comm::World& world, const grid::Grid& grid);

  /// The communicator over `axes`, which is made if it does not exist yet.
  const comm::Communicator& join(const grid::Axes& axes, Purpose purpose);
  /// The communicator that was joined. Throws InvariantError, with a list of those that were, if
  /// nobody has asked for it.
  const comm::Communicator& get(const grid::Axes& axes, Purpose purpose) const;
  const comm::Communicator& everyone() const { return everyone_; }

  /// The names of the groups that were joined, as the counters use them: "all", "x", "y+x", ...
  std::vector<std::string> names() const;
  /// What a lane is for: "x activations", "z weights".
  std::string lane_name(int lane) const;

 private:
  struct Joined {
    grid::Axes axes;
    Purpose purpose;
    comm::Communicator comm;
  };

  const comm::Communicator* find(const grid::Axes& axes, Purpose purpose) const;
  int lane_of(const grid::Axes& axes, Purpose purpose) const;

  comm::World* world_;
  grid::Grid grid_;
  comm::Communicator everyone_;
  int first_lane_;
  std::map<int, Joined> joined_;  // by lane
};

}  // namespace fourfold::tensor
