// Which algorithm an operation uses and what it puts on the wire, in closed form. The backends
// execute exactly this, the tests hold them to it, and the planner prices it.
// Steps and bytes of each algorithm are derived in docs/communication.md.
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
  kDirect,    ///< every rank sends all it has to every other rank; all sum in rank order
  kTree,      ///< binomial tree
  kChain,     ///< pipeline of segments from rank to rank
  kPair,      ///< from one rank to another
  kRounds,    ///< dissemination, ceil(log2 p) rounds
  kDoubling,  ///< pairs of ranks, of pairs, of fours, ... exchange all they have and sum it
  kCirculant  ///< blocks over distances that double or halve, ceil(log2 p) rounds each way
};

std::string_view to_string(Algorithm algorithm);

/// Whether a group lies inside one host or spans several.
enum class Reach : std::uint8_t { kHost, kNetwork };

/// How operations cut their messages: at most `bytes` each and `window` of them in flight a
/// direction. Inside a host one copy moves a message, and the longer the better. Over a network
/// short ones keep both directions of a link busy, and urgent ones from queueing behind others.
struct Segments {
  Bytes bytes;
  int window = 1;

  bool operator==(const Segments&) const = default;
};
Segments segments_of(Priority priority, Reach reach = Reach::kHost);
inline constexpr int kLargestWindow = 8;

// Where one algorithm gives way to another. Each limit is a function of the size of the group
// alone, so that two runs sum in the same order wherever they run; docs/communication.md derives
// them.

/// What a link carries in the time that it takes to get a message going.
inline constexpr Bytes kLatencyBytes{16 << 10};
/// So many ranks are assumed to share a link when all of them send far away at once.
inline constexpr int kRanksPerLink = 8;

/// Smaller groups have an algorithm for little data whose messages all leave at once.
inline constexpr int kManyRanks = 8;
/// In these an all_reduce of at most this many bytes on the wire a rank goes direct: one step
/// instead of 2(p-1), which is worth more than the bytes it adds (none at two ranks).
inline constexpr Bytes kDirectLimit{64 << 10};

/// In larger groups an all_reduce of at most this many bytes goes by doubling,
inline constexpr Bytes kDoublingLimit{kLatencyBytes.value() / kRanksPerLink};
/// and larger ones, gathers and scatters of at most this many by the circulant algorithm.
Bytes circulant_limit(int group_size);

/// A broadcast or reduce of at most this many bytes goes along a tree, a larger one along a chain.
Bytes tree_limit(int group_size);
/// As far as that even in the smallest groups.
inline constexpr Bytes kTreeLimit{256 << 10};

Algorithm algorithm_of(const Collective& collective, int group_size);

/// A sum of bf16 is made in f32 and rounded once. Whether this one's unfinished sums travel from
/// rank to rank, and therefore as f32: then its messages are those of `in_f32`.
bool travels_in_f32(const Collective& collective, int group_size);
Collective in_f32(const Collective& collective);

/// ceil(log2 p)
int rounds_of(int group_size);

/// Elements [begin, end) of chunk `index` when `count` elements are cut into `parts` chunks whose
/// sizes differ by at most one, larger ones first.
struct Chunk {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};
Chunk chunk_of(std::int64_t count, int parts, int index);

/// A rank's place in the tree or chain of a broadcast or reduce: indices in the group, parent -1 at
/// the root. Children are in the order of summation.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};
TreePlace tree_place(Algorithm algorithm, int group_size, int root, int index);

/// One round of a circulant reduce_scatter. A rank keeps the blocks of the tensor in the order that
/// begins with its own. It sends `blocks` of them, from place `distance` on, to the member
/// `distance` after it, and adds those that it gets from the member `distance` before it to its
/// first ones. An all_gather goes through the rounds backwards, and sends where the other receives.
struct CirculantRound {
  int distance = 0;
  int blocks = 0;

  bool operator==(const CirculantRound&) const = default;
};
std::vector<CirculantRound> circulant_rounds(int group_size);

/// Elements of `blocks` chunks of the tensor from chunk `first` on, around the end.
std::int64_t elements_of(std::int64_t count, int parts, int first, int blocks);

/// A rank's place in recursive doubling, which needs a power of two of ranks: the `core`. Each of
/// the others first adds what it has to a rank of the core, and is told the result at the end.
struct DoublingPlace {
  int core = 1;
  int partner = -1;  ///< of those two; -1 for a rank of the core that has none

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

}  // namespace fourfold::schedule
