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

Segments segments_of(Priority priority) {
  return priority == Priority::kUrgent ? Segments{4_MiB, 2} : Segments{256_KiB, 1};
}

namespace {

bool sums_bf16(const Collective& c) {
  return c.dtype == DType::kBF16 && c.reduce == ReduceOp::kSum;
}

std::int64_t segment_elements(const Collective& c) {
  return segments_of(c.priority).bytes.value() / size_of(c.dtype);
}

/// One block of `elements`, cut into segments; nothing is sent for an empty one.
Traffic block(const Collective& c, std::int64_t elements) {
  const std::int64_t segment = segment_elements(c);
  return {Bytes(elements * size_of(c.dtype)), (elements + segment - 1) / segment};
}

/// All p chunks of the tensor but `left_out`, one block each.
Traffic chunks_but(const Collective& c, int p, int left_out) {
  Traffic sum;
  for (int i = 0; i < p; ++i) {
    if (i != left_out) sum += block(c, chunk_of(c.count, p, i).size());
  }
  return sum;
}

Traffic all_reduce_traffic(const Collective& c, Algorithm algorithm, int p, int index) {
  if (algorithm == Algorithm::kDirect) {
    Traffic all;
    for (int i = 1; i < p; ++i) all += block(c, c.count);
    return all;
  }
  // Reducing leaves out the chunk that stays; gathering leaves out the one that comes last. An
  // exchange sends the same chunks as a ring, each to its owner.
  Traffic sum = chunks_but(c, p, index);
  sum += chunks_but(c, p, (index + 1) % p);
  return sum;
}

Traffic reduce_traffic(const Collective& c, Algorithm algorithm, int p, int index) {
  if (algorithm == Algorithm::kExchange) {
    Traffic sum = chunks_but(c, p, index);
    if (index != c.root) sum += block(c, chunk_of(c.count, p, index).size());
    return sum;
  }
  return index == c.root ? Traffic{} : block(c, c.count);
}

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
      return c.count <= segment_elements(c) ? Algorithm::kTree : Algorithm::kChain;
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

Traffic traffic_of(const Collective& c, int p, int index) {
  FOURFOLD_CHECK(index >= 0 && index < p);
  const Algorithm algorithm = algorithm_of(c, p);
  if (algorithm == Algorithm::kNone) return {};
  switch (c.op) {
    case Op::kAllReduce:
      return all_reduce_traffic(c, algorithm, p, index);
    case Op::kAllGather:
    case Op::kReduceScatter:
      return chunks_but(c, p, index);
    case Op::kReduce:
      return reduce_traffic(c, algorithm, p, index);
    case Op::kBroadcast: {
      Traffic sum;
      for (std::size_t i = 0; i < tree_place(algorithm, p, c.root, index).children.size(); ++i) {
        sum += block(c, c.count);
      }
      return sum;
    }
    case Op::kSend:
      return block(c, c.count);
    case Op::kRecv:
      return {};
    case Op::kBarrier:
      return {Bytes(0), std::bit_width(static_cast<unsigned>(p - 1))};
  }
  throw InvariantError("no such operation");
}

}  // namespace fourfold::schedule
