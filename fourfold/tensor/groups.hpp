// The communicators of one rank on a grid: by the axes that the group spans, or by the part of
// them, and by purpose.
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

/// Communicators are made when they are first asked for. The number of a lane follows from its
/// axes, the size of the part and its purpose alone, so ranks may join groups in different orders,
/// as the stages of a pipeline do, and nothing is sent.
class Groups {
 public:
  /// The number of axes that a part may lie along. Parts along more axes would take more numbers of
  /// lanes than MPI guarantees to have.
  static constexpr std::size_t kMostAxesOfAPart = 2;

  /// Sets the numbers of all possible lanes aside. Every rank of the world calls this at the same
  /// point.
  Groups(comm::World& world, const grid::Grid& grid);

  /// The communicator over `axes`, which is made if it does not exist yet.
  const comm::Communicator& join(const grid::Axes& axes, Purpose purpose);
  /// The communicator over a part of the ranks along `axes`: see Grid::part.
  const comm::Communicator& join_part(const grid::Axes& axes, int ranks, Purpose purpose);
  /// The communicator that was joined. Throws InvariantError, with a list of those that were, if
  /// nobody has asked for it.
  const comm::Communicator& get(const grid::Axes& axes, Purpose purpose) const;
  const comm::Communicator& everyone() const { return everyone_; }

  /// The names of the groups that were joined, as the counters use them: "all", "x", "y+x", ...
  std::vector<std::string> names() const;
  /// What a lane is for: "x activations", "z weights", "2 ranks of x activations".
  std::string lane_name(int lane) const;

 private:
  /// So many ranks along these axes: all of them, or a part.
  struct Span {
    grid::Axes axes;
    int ranks = 1;
    bool operator==(const Span&) const = default;
  };
  struct Joined {
    Span span;
    Purpose purpose;
    comm::Communicator comm;
  };

  static std::vector<Span> all_spans(const grid::Grid& grid);
  /// Axes that the part does not extend along are left out: two ranks of y+x are two of x if x has
  /// an even number of them.
  Span part(const grid::Axes& axes, int ranks) const;
  Span whole(const grid::Axes& axes) const { return {axes, grid_.size(axes)}; }
  const comm::Communicator* find(const Span& span, Purpose purpose) const;
  const comm::Communicator& join(const Span& span, Purpose purpose);
  int lane_of(const Span& span, Purpose purpose) const;
  /// "x", "2 ranks of x".
  std::string name_of(const Joined& joined) const;

  comm::World* world_;
  grid::Grid grid_;
  comm::Communicator everyone_;
  std::vector<Span> spans_;  // in the order of the numbers of lanes
  int first_lane_;
  std::map<int, Joined> joined_;  // by lane
};

}  // namespace fourfold::tensor
