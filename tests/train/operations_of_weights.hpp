// What the weights of a training step communicate, by hand: gathers before their uses, and the
// optimizer's sums and values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "fourfold/train/trainer.hpp"

#include "tests/train/operations.hpp"

namespace fourfold::test {

/// The weights that are used one after the other, and what brings each of them together.
class Uses {
 public:
  /// One operation, or one for each group of ranks that has something to bring together.
  struct Gather {
    grid::Axes axes;
    Payload payload;
  };

  explicit Uses(const grid::Grid& grid) : grid_(&grid) {}

  /// What is whole on every rank is not gathered, and no turn.
  void use(const std::string& name, const std::vector<Gather>& gathers);

  /// Adds the gathers of all uses. What is kept is gathered once. Otherwise a weight waits for its
  /// next use if that comes within three turns, and is gathered again if it does not.
  void add_to(Operations& operations, bool keeps) const;

 private:
  struct Use {
    std::string name;
    std::vector<Gather> gathers;
  };
  const grid::Grid* grid_;
  std::vector<Use> uses_;
};

/// Parameters that are updated together, in segments: elements of a rank's part of each.
struct Updated {
  grid::Axes replicas;
  std::vector<std::int64_t> sizes;
  Type type;  ///< of the values that are gathered
};

void add_update(Operations& operations, const grid::Grid& grid, const train::Recipe& recipe,
                const Updated& updated);

}  // namespace fourfold::test
