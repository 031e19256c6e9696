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
  kTree,      ///< binomial tree, for little data
  kChain,     ///< pipeline of segments from rank to rank
  kPair,      ///< from one rank to another
  kRounds     ///< dissemination, ceil(log2 p) rounds
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

/// An all_reduce of at most this many bytes on the wire a rank goes direct: one step instead of
/// 2(p-1), which is worth more than the bytes it adds (none at two ranks).
inline constexpr Bytes kDirectLimit{64 << 10};

/// A broadcast or reduce of at most this many bytes goes along a tree, a larger one along a chain.
inline constexpr Bytes kTreeLimit{256 << 10};

Algorithm algorithm_of(const Collective& collective, int group_size);

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
