// Communicators on demand: any ordered list of axes, for any purpose, joined in any order.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/tensor/groups.hpp"

#include <set>

#include <gtest/gtest.h>

#include "fourfold/comm/recording/recording.hpp"
#include "fourfold/comm/thread/thread.hpp"
#include "fourfold/tensor/mesh.hpp"

#include "tests/support/ranks.hpp"
#include "tests/support/watchdog.hpp"

namespace fourfold::test {
namespace {

using grid::Axes;
using grid::Axis;
using tensor::Mesh;
using tensor::Purpose;

constexpr Purpose kPurposes[] = {Purpose::kActivations, Purpose::kWeights, Purpose::kGradients};
const grid::Grid kAllAxesOfTwo({.x = 2, .y = 2, .z = 2, .data = 2, .pipe = 2});

TEST(Groups, TheGetterSaysWhatWasJoined) {
  comm::World world = comm::recording::open(0, 2);
  const Mesh mesh(world, grid::Grid({.y = 2}));
  EXPECT_EQ(mesh.comm({}, Purpose::kWeights).size(), 1);
  mesh.join({Axis::kZ, Axis::kX}, Purpose::kWeights);
  mesh.join(Axis::kX);
  try {
    static_cast<void>(mesh.comm(Axis::kX, Purpose::kWeights));
    FAIL();
  } catch (const InvariantError& error) {
    EXPECT_STREQ(error.what(),
                 "there is no communicator over x for weights, since no layer has joined it "
                 "(Mesh::join); joined are none, z+x");
  }
  EXPECT_THROW(static_cast<void>(mesh.comm({Axis::kX, Axis::kZ}, Purpose::kWeights)),
               InvariantError);
  EXPECT_EQ(mesh.group_names(), (std::vector<std::string>{"all", "none", "x", "z+x"}));
}

TEST(Groups, AskingAgainGivesTheSame) {
  comm::World world = comm::recording::open(5, 32);
  const Mesh mesh(world, kAllAxesOfTwo);
  const comm::Communicator& joined = mesh.join({Axis::kZ, Axis::kX}, Purpose::kGradients);
  EXPECT_EQ(mesh.group_names().size(), 3U);
  EXPECT_EQ(&joined, &mesh.join({Axis::kZ, Axis::kX}, Purpose::kGradients));
  EXPECT_EQ(&joined, &mesh.comm({Axis::kZ, Axis::kX}, Purpose::kGradients));
  EXPECT_EQ(mesh.group_names().size(), 3U);
  EXPECT_EQ(joined.group(), kAllAxesOfTwo.group({Axis::kZ, Axis::kX}, 5));
  EXPECT_EQ(mesh.lane_name(joined.lane()), "z+x gradients");
}

TEST(Groups, EveryListAndPurposeHasALaneOfItsOwnWhateverTheOrder) {
  ASSERT_EQ(grid::all_lists_of_axes().size(), 1U + 5 + 20 + 60 + 120 + 120);
  comm::World first_world = comm::recording::open(0, 32);
  comm::World second_world = comm::recording::open(9, 32);
  const Mesh first(first_world, kAllAxesOfTwo);
  const Mesh second(second_world, kAllAxesOfTwo);
  std::vector<Axes> lists(grid::all_lists_of_axes().begin() + 1, grid::all_lists_of_axes().end());
  for (const Axes& axes : lists) {
    for (const Purpose purpose : kPurposes) first.join(axes, purpose);
  }
  std::set<int> lanes = {first.everyone().lane(), first.comm({}).lane()};
  for (auto axes = lists.rbegin(); axes != lists.rend(); ++axes) {
    for (const Purpose purpose : kPurposes) {
      const int lane = second.join(*axes, purpose).lane();
      EXPECT_TRUE(lanes.insert(lane).second) << *axes;
      EXPECT_EQ(lane, first.comm(*axes, purpose).lane()) << *axes;
    }
  }
}

TEST(Groups, PartsHaveLanesOfTheirOwnWhateverTheOrder) {
  const grid::Grid grid({.x = 8, .y = 4});
  comm::World first_world = comm::recording::open(0, 32);
  comm::World second_world = comm::recording::open(9, 32);
  const Mesh first(first_world, grid);
  const Mesh second(second_world, grid);
  const std::vector<std::pair<Axes, int>> parts = {{Axis::kX, 2},
                                                   {Axis::kX, 4},
                                                   {Axis::kY, 2},
                                                   {{Axis::kY, Axis::kX}, 16},
                                                   {{Axis::kX, Axis::kY}, 16},
                                                   {{Axis::kX, Axis::kY}, 8}};
  std::set<int> lanes = {first.everyone().lane(), first.join(Axis::kX).lane(),
                         first.join({Axis::kY, Axis::kX}).lane()};
  for (const auto& [axes, ranks] : parts) {
    for (const Purpose purpose : kPurposes) first.join_part(axes, ranks, purpose);
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    for (const Purpose purpose : kPurposes) {
      const comm::Communicator& comm = second.join_part(part->first, part->second, purpose);
      EXPECT_EQ(comm.group(), grid.part(part->first, part->second, 9)) << part->first;
      EXPECT_TRUE(lanes.insert(comm.lane()).second) << part->first;
      EXPECT_EQ(comm.lane(), first.join_part(part->first, part->second, purpose).lane());
    }
  }
  EXPECT_EQ(first.lane_name(first.join_part(Axis::kX, 2).lane()), "2 ranks of x activations");
}

TEST(Groups, APartLeavesOutTheAxesThatItDoesNotExtendAlong) {
  comm::World world = comm::recording::open(9, 24);
  const Mesh mesh(world, grid::Grid({.x = 4, .y = 3, .data = 2}));
  const Axes both = {Axis::kY, Axis::kX};
  EXPECT_EQ(&mesh.join_part(both, 1), &mesh.comm({}));
  EXPECT_EQ(&mesh.join_part(both, 2), &mesh.join_part(Axis::kX, 2));
  EXPECT_EQ(&mesh.join_part(both, 4), &mesh.join(Axis::kX));
  EXPECT_EQ(&mesh.join_part(both, 12), &mesh.join(both));
  EXPECT_EQ(&mesh.join_part({Axis::kY, Axis::kZ}, 3), &mesh.join(Axis::kY));
  // Six ranks are one row of four and a half of the next.
  EXPECT_EQ(mesh.join_part(both, 6).group().members, (std::vector<int>{6, 7, 8, 9, 10, 11}));
  const auto refusal = [&](const Axes& axes, int ranks) -> std::string {
    try {
      mesh.join_part(axes, ranks);
    } catch (const InvariantError& error) {
      return error.what();
    }
    return "joined";
  };
  EXPECT_NE(refusal(both, 5).find("parts of 5 of the 12 ranks along y+x"), std::string::npos);
  EXPECT_NE(refusal(both, 0).find("parts of 0 of the 12 ranks along y+x"), std::string::npos);
  EXPECT_NE(refusal({Axis::kX, Axis::kY, Axis::kData}, 12).find("more than 2 axes"),
            std::string::npos);
}

/// Different parts of one axis and the whole axis at the same time.
TEST(Groups, PartsSumTheirOwnMembers) {
  on_threads(12, [](comm::World& world) {
    const grid::Grid grid({.x = 6, .y = 2});
    const Mesh mesh(world, grid);
    const std::vector<std::pair<Axes, int>> parts = {
        {Axis::kX, 2}, {Axis::kX, 3}, {Axis::kX, 6}, {{Axis::kY, Axis::kX}, 4}};
    std::vector<std::vector<double>> results;
    std::vector<comm::Work> works;
    std::vector<double> own = {static_cast<double>(world.rank())};
    for (const auto& [axes, ranks] : parts) results.emplace_back(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const comm::Communicator& comm = mesh.join_part(parts[i].first, parts[i].second);
      works.push_back(comm.all_gather(comm::view(own), comm::view(results[i])));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      works[i].wait();
      const std::vector<int> members =
          grid.part(parts[i].first, parts[i].second, world.rank()).members;
      expect_on_all_ranks(world, std::ranges::equal(results[i], members),
                          concat(parts[i].second, " ranks of ", parts[i].first));
    }
  });
}

TEST(Groups, TwoMeshesOfAWorldShareNoLane) {
  comm::World world = comm::recording::open(0, 4);
  const Mesh first(world, grid::Grid({.x = 4}));
  const Mesh second(world, grid::Grid({.x = 2, .y = 2}));
  EXPECT_NE(second.join(Axis::kX).lane(), first.join(Axis::kX).lane());
  EXPECT_NE(second.everyone().lane(), first.everyone().lane());
  EXPECT_EQ(second.lane_name(first.comm(Axis::kX).lane()),
            concat("lane ", first.comm(Axis::kX).lane()));
}

/// The ranks of the second stage join in the opposite order, and groups that the first stage does
/// not need. Every group must still sum its own members.
TEST(Groups, StagesJoinInDifferentOrders) {
  on_threads(16, [](comm::World& world) {
    const Mesh mesh(world, grid::Grid({.x = 2, .z = 2, .data = 2, .pipe = 2}));
    std::vector<Axes> wanted = {{Axis::kZ, Axis::kX},
                                {Axis::kData, Axis::kPipe},
                                {Axis::kPipe, Axis::kX, Axis::kData},
                                {Axis::kX, Axis::kZ}};
    const bool second = mesh.coord()[Axis::kPipe] == 1;
    if (second) {
      mesh.join({Axis::kData, Axis::kZ}, Purpose::kWeights);
      std::reverse(wanted.begin(), wanted.end());
    }
    for (const Axes& axes : wanted) {
      for (const Purpose purpose : kPurposes) mesh.join(axes, purpose);
    }
    if (second) std::reverse(wanted.begin(), wanted.end());
    for (const Axes& axes : wanted) {
      for (const Purpose purpose : kPurposes) {
        const comm::Communicator& comm = mesh.comm(axes, purpose);
        std::vector<double> own = {static_cast<double>(world.rank())};
        std::vector<double> all(static_cast<std::size_t>(comm.size()));
        comm.all_gather(comm::view(own), comm::view(all)).wait();
        const std::vector<int>& members = comm.group().members;
        expect_on_all_ranks(world, std::equal(all.begin(), all.end(), members.begin()),
                            concat("all_gather over ", axes));
      }
    }
  });
}

TEST(Groups, AMemberThatHasNotJoinedIsNamed) {
  const HangWatchdog watchdog(Seconds(60));
  const comm::Options options{.deadline = Seconds(0.5), .answer_time = Seconds(0.5)};
  std::string said = "nothing";
  try {
    comm::thread::run(
        4,
        [](comm::World& world) {
          const Mesh mesh(world, grid::Grid({.x = 2, .z = 2}));
          // The number of joined groups is the same everywhere; what was joined is not.
          const Axes axes = world.rank() == 2 ? Axes{Axis::kX, Axis::kZ} : Axes{Axis::kZ, Axis::kX};
          std::vector<float> data(10, 1.F);
          mesh.join(axes, Purpose::kGradients).all_reduce(comm::view(data)).wait();
        },
        options);
  } catch (const CommError& error) {
    said = error.what();
  }
  // Whichever side notices first names the other one.
  const bool names = said.find(
                         "rank 2 on this process has no communicator for this group and "
                         "purpose: it waits for all_reduce") != std::string::npos ||
                     said.find(
                         "rank 0 on this process has no communicator for this group and "
                         "purpose: it waits for all_reduce") != std::string::npos;
  EXPECT_TRUE(names) << said;
}

}  // namespace
}  // namespace fourfold::test
