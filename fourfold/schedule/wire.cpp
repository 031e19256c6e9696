// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "fourfold/base/check.hpp"

namespace fourfold::schedule {

using namespace literals;

std::string_view to_string(Algorithm algorithm) {
  constexpr std::array<std::string_view, 8> kNames = {"none", "ring",  "exchange", "direct",
                                                      "tree", "chain", "pair",     "rounds"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

Segments segments_of(Priority priority, Reach reach) {
  const bool urgent = priority == Priority::kUrgent;
  if (reach == Reach::kNetwork) return {60_KiB, urgent ? 8 : 6};
  return urgent ? Segments{4_MiB, 2} : Segments{256_KiB, 1};
}

namespace {

bool sums_bf16(const Collective& c) {
  return c.dtype == DType::kBF16 && c.reduce == ReduceOp::kSum;
}

/// Adds up the blocks that a rank sends, each cut into segments; nothing is sent for an empty one.
class Sum {
 public:
  Sum(const Collective& c, int p, Reach reach)
      : c_(c), p_(p), segment_(segments_of(c.priority, reach).bytes.value() / size_of(c.dtype)) {}

  Sum& block(std::int64_t elements, std::int64_t times = 1) {
    traffic_.bytes += Bytes(times * elements * size_of(c_.dtype));
    traffic_.messages += times * ((elements + segment_ - 1) / segment_);
    return *this;
  }
  Sum& chunk(int index) { return block(chunk_of(c_.count, p_, index).size()); }
  /// All p chunks of the tensor but one.
  Sum& chunks_but(int left_out) {
    for (int i = 0; i < p_; ++i) {
      if (i != left_out) chunk(i);
    }
    return *this;
  }
  Traffic traffic() const { return traffic_; }

 private:
  const Collective& c_;
  int p_;
  std::int64_t segment_;
  Traffic traffic_;
};

}  // namespace

Algorithm algorithm_of(const Collective& c, int p) {
  if (p == 1) return Algorithm::kNone;
  switch (c.op) {
    case Op::kAllReduce:
      if (c.payload().value() <= kDirectLimit.value() / (p - 1)) return Algorithm::kDirect;
      return sums_bf16(c) ? Algorithm::kExchange : Algorithm::kRing;
    case Op::kReduceScatter:
      return sums_bf16(c) ? Algorithm::kExchange : Algorithm::kRing;
    case Op::kAllGather:
      return Algorithm::kRing;
    case Op::kReduce:
      if (sums_bf16(c)) return Algorithm::kExchange;
      [[fallthrough]];
    case Op::kBroadcast:
      return c.payload() <= kTreeLimit ? Algorithm::kTree : Algorithm::kChain;
    case Op::kSend:
    case Op::kRecv:
      return Algorithm::kPair;
    case Op::kBarrier:
      return Algorithm::kRounds;
  }
  throw InvariantError("no such operation");
}

Chunk chunk_of(std::int64_t count, int parts, int index) {
  const std::int64_t small = count / parts;
  const std::int64_t larger = count % parts;
  const std::int64_t begin = index * small + std::min<std::int64_t>(index, larger);
  return {begin, begin + small + (index < larger ? 1 : 0)};
}

TreePlace tree_place(Algorithm algorithm, int p, int root, int index) {
  TreePlace place;
  const int self = (index - root + p) % p;  // the root is 0
  const auto real = [&](int i) { return (i + root) % p; };
  if (algorithm == Algorithm::kChain) {
    if (self > 0) place.parent = real(self - 1);
    if (self + 1 < p) place.children.push_back(real(self + 1));
    return place;
  }
  // Binomial: the children of i are i + 1, 2, 4, ... below i's lowest set bit.
  if (self > 0) place.parent = real(self & (self - 1));
  for (int bit = 1; bit < p && (self & bit) == 0; bit <<= 1) {
    if (self + bit < p) place.children.push_back(real(self + bit));
  }
  return place;
}

Traffic traffic_of(const Collective& c, int p, int index, Reach reach) {
  FOURFOLD_CHECK(index >= 0 && index < p);
  const Algorithm algorithm = algorithm_of(c, p);
  if (algorithm == Algorithm::kNone) return {};
  Sum sum(c, p, reach);
  switch (c.op) {
    case Op::kAllReduce:
      if (algorithm == Algorithm::kDirect) return sum.block(c.count, p - 1).traffic();
      // Reducing leaves out the chunk that stays; gathering leaves out the one that comes last. An
      // exchange sends the same chunks as a ring, each to its owner.
      return sum.chunks_but(index).chunks_but((index + 1) % p).traffic();
    case Op::kAllGather:
    case Op::kReduceScatter:
      return sum.chunks_but(index).traffic();
    case Op::kReduce:
      if (algorithm == Algorithm::kExchange) sum.chunks_but(index);
      if (index == c.root) return sum.traffic();
      return algorithm == Algorithm::kExchange ? sum.chunk(index).traffic()
                                               : sum.block(c.count).traffic();
    case Op::kBroadcast: {
      const auto children = tree_place(algorithm, p, c.root, index).children.size();
      return sum.block(c.count, static_cast<std::int64_t>(children)).traffic();
    }
    case Op::kSend:
      return sum.block(c.count).traffic();
    case Op::kRecv:
      return {};
    case Op::kBarrier:
      return {Bytes(0), std::bit_width(static_cast<unsigned>(p - 1))};
  }
  throw InvariantError("no such operation");
}

}  // namespace fourfold::schedule
