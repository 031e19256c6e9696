// Which algorithm an operation uses and what it sends, in closed form. The backends execute exactly
// this, the tests check that they do, and the planner computes costs from it. docs/communication.md
// derives the steps and bytes of each algorithm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fourfold/base/units.hpp"
#include "fourfold/schedule/collective.hpp"

namespace fourfold::schedule {

enum class Algorithm : std::uint8_t {
  kNone,      ///< a group of one: at most a copy
  kRing,      ///< segmented ring
  kExchange,  ///< every rank sends each other rank its piece; the owner sums in f32, rounds once
  kDirect,    ///< every rank sends all its data to every other rank; all sum in rank order
  kTree,      ///< binomial tree
  kChain,     ///< pipeline of segments from rank to rank
  kPair,      ///< from one rank to another
  kRounds,    ///< dissemination, ceil(log2 p) rounds
  kDoubling,  ///< ranks at distances 1, 2, 4, ... exchange all their data and sum it
  kCirculant  ///< blocks over distances that double or halve, ceil(log2 p) rounds each way
};

std::string_view to_string(Algorithm algorithm);

/// Whether a group lies inside one host or spans several.
enum class Reach : std::uint8_t { kHost, kNetwork };
std::string_view to_string(Reach reach);  ///< "host", "network"

/// How operations cut their messages: at most `bytes` each, with `window` of them in flight in each
/// direction. Inside a host one copy moves a message, and longer messages are better. Over a
/// network short messages keep both directions of a link busy, and urgent messages do not queue
/// behind long ones.
struct Segments {
  Bytes bytes;
  int window = 1;

  bool operator==(const Segments&) const = default;
};
Segments segments_of(Priority priority, Reach reach = Reach::kHost);
inline constexpr int kLargestWindow = 8;

// The limits between algorithms. Each limit depends on the size of the group only, so that two runs
// sum in the same order wherever they run. docs/communication.md derives the limits.

/// The bytes that a link transfers in the time of one message latency.
inline constexpr Bytes kLatencyBytes{16 << 10};
/// This many ranks are assumed to share a link when all of them send to other hosts at once.
inline constexpr int kRanksPerLink = 8;

/// Groups smaller than this use an algorithm for little data whose messages all leave at once.
inline constexpr int kManyRanks = 8;
/// In these groups an all_reduce that sends at most this many bytes from each rank uses kDirect. It
/// takes one step instead of 2(p-1), which saves more than the additional bytes cost (none at two
/// ranks).
inline constexpr Bytes kDirectLimit{64 << 10};

/// In larger groups an all_reduce of at most this many bytes uses kDoubling.
inline constexpr Bytes kDoublingLimit{kLatencyBytes.value() / kRanksPerLink};
/// In larger groups, larger all_reduces, gathers and scatters of at most this many bytes use
/// kCirculant.
Bytes circulant_limit(int group_size);

/// A broadcast or reduce of at most this many bytes uses a tree, a larger one a chain.
Bytes tree_limit(int group_size);
/// The smallest value of `tree_limit`, for the smallest groups.
inline constexpr Bytes kTreeLimit{256 << 10};

Algorithm algorithm_of(const Collective& collective, int group_size);

/// A sum of bf16 is computed in f32 and rounded once. Whether this operation sends partial sums
/// from rank to rank, and therefore sends f32. Its messages are then those of `in_f32`.
bool travels_in_f32(const Collective& collective, int group_size);
Collective in_f32(const Collective& collective);

/// ceil(log2 p)
int rounds_of(int group_size);

/// Elements [begin, end) of chunk `index` when `count` elements are cut into `parts` chunks. The
/// sizes of the chunks differ by at most one, and larger chunks come first.
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};
Chunk chunk_of(std::int64_t count, int parts, int index);

/// A rank's place in the tree or chain of a broadcast or reduce. Ranks are indices in the group;
/// the parent of the root is -1. Children are in the order of summation.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};
TreePlace tree_place(Algorithm algorithm, int group_size, int root, int index);

/// One round of a circulant reduce_scatter. A rank orders the blocks of the tensor so that its own
/// comes first. It sends `blocks` of them, starting at place `distance`, to the member `distance`
/// after it. It adds the blocks that it receives from the member `distance` before it to its first
/// blocks. An all_gather runs the rounds backwards, and sends where the reduce_scatter receives.
struct CirculantRound {
  int distance = 0;
  int blocks = 0;

  bool operator==(const CirculantRound&) const = default;
};
std::vector<CirculantRound> circulant_rounds(int group_size);

/// The number of elements of `blocks` chunks of the tensor, starting with chunk `first` and
/// wrapping around at the end.
std::int64_t elements_of(std::int64_t count, int parts, int first, int blocks);

/// A rank's place in recursive doubling, which needs a power of two of ranks, the `core`. Each of
/// the other ranks first adds its data to a rank of the core, and receives the result at the end.
struct DoublingPlace {
  int core = 1;
  int partner = -1;  ///< the other rank of such a pair; -1 for a rank of the core that has none

  bool in_core(int index) const { return index < core; }
};
DoublingPlace doubling_place(int group_size, int index);

/// What the rank at `index` of the group sends in this operation. Only the number of messages
/// depends on the reach.
struct Traffic {
  Bytes bytes;
  std::int64_t messages = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes += other.bytes;
    messages += other.messages;
    return *this;
  }
  bool operator==(const Traffic&) const = default;
};
Traffic traffic_of(const Collective& collective, int group_size, int index,
                   Reach reach = Reach::kHost);

/// What the rank sends if the buffers lie in the memory of a device, whose library cuts messages as
/// it likes: rings, chains and exchanges, with each block as one message.
Traffic traffic_on_device(const Collective& collective, int group_size, int index);

}  // namespace fourfold::schedule
