// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "fourfold/base/check.hpp"

namespace fourfold::schedule {

using namespace literals;

std::string_view to_string(Algorithm algorithm) {
  constexpr std::array<std::string_view, 10> kNames = {"none",     "ring",     "exchange", "direct",
                                                       "tree",     "chain",    "pair",     "rounds",
                                                       "doubling", "circulant"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::string_view to_string(Reach reach) {
  return reach == Reach::kHost ? "host" : "network";
}

Segments segments_of(Priority priority, Reach reach) {
  const bool urgent = priority == Priority::kUrgent;
  if (reach == Reach::kNetwork) return {60_KiB, urgent ? 8 : 6};
  return urgent ? Segments{4_MiB, 2} : Segments{256_KiB, 1};
}

namespace {

bool sums_bf16(const Collective& c) {
  const bool reduces = c.op == Op::kAllReduce || c.op == Op::kReduceScatter || c.op == Op::kReduce;
  return reduces && c.dtype == DType::kBF16 && c.reduce == ReduceOp::kSum;
}

/// The bytes of the tensor in the type in which partial sums are sent.
Bytes summed_payload(const Collective& c) {
  return (sums_bf16(c) ? in_f32(c) : c).payload();
}

/// Whether the data is so small that the number of steps matters more than the bytes.
bool is_little(const Collective& c, int p) {
  return p >= kManyRanks && summed_payload(c) <= circulant_limit(p);
}

/// Adds up the blocks that a rank sends, each cut into segments. Nothing is sent for an empty
/// block.
class Sum {
 public:
  Sum(const Collective& c, int p, Reach reach)
      : c_(c), p_(p), segment_(segments_of(c.priority, reach).bytes.value() / size_of(c.dtype)) {}
  /// Blocks are not cut.
  Sum(const Collective& c, int p) : c_(c), p_(p), segment_(std::max<std::int64_t>(c.count, 1)) {}

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

Algorithm all_reduce_algorithm(const Collective& c, int p) {
  if (p < kManyRanks && c.payload().value() <= kDirectLimit.value() / (p - 1)) {
    return Algorithm::kDirect;
  }
  if (p >= kManyRanks && summed_payload(c) <= kDoublingLimit) return Algorithm::kDoubling;
  if (is_little(c, p)) return Algorithm::kCirculant;
  return sums_bf16(c) ? Algorithm::kExchange : Algorithm::kRing;
}

}  // namespace

int rounds_of(int p) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(p - 1)));
}

Bytes circulant_limit(int p) {
  // Compared to a ring this has p - 1 - rounds steps less. It takes up to kRanksPerLink times as
  // long for its bytes, when the ranks of a host all send to other hosts at once.
  const std::int64_t saved = p - 1 - rounds_of(p);
  return Bytes(saved * kLatencyBytes.value() / (kRanksPerLink - 1));
}

Bytes tree_limit(int p) {
  // The root of a tree sends everything `rounds` times, and the root of a chain once. But in a
  // chain the first segment takes p - 1 steps to its end.
  const Bytes hop = kLatencyBytes + segments_of(Priority::kUrgent, Reach::kNetwork).bytes;
  const std::int64_t more = std::max(rounds_of(p) - 1, 1);
  return std::max(kTreeLimit, Bytes((p - 1) * hop.value() / more));
}

Collective in_f32(const Collective& c) {
  Collective wide = c;
  wide.dtype = DType::kF32;
  return wide;
}

bool travels_in_f32(const Collective& c, int p) {
  if (!sums_bf16(c)) return false;
  const Algorithm algorithm = algorithm_of(c, p);
  // An all_reduce by the circulant algorithm is a reduce_scatter, which sends partial sums, and an
  // all_gather.
  return algorithm == Algorithm::kDoubling || algorithm == Algorithm::kTree ||
         (algorithm == Algorithm::kCirculant && c.op == Op::kReduceScatter);
}

Algorithm algorithm_of(const Collective& c, int p) {
  if (p == 1) return Algorithm::kNone;
  switch (c.op) {
    case Op::kAllReduce:
      return all_reduce_algorithm(c, p);
    case Op::kReduceScatter:
      if (is_little(c, p)) return Algorithm::kCirculant;
      return sums_bf16(c) ? Algorithm::kExchange : Algorithm::kRing;
    case Op::kAllGather:
      return is_little(c, p) ? Algorithm::kCirculant : Algorithm::kRing;
    case Op::kReduce:
      if (sums_bf16(c)) return is_little(c, p) ? Algorithm::kTree : Algorithm::kExchange;
      [[fallthrough]];
    case Op::kBroadcast:
      return c.payload() <= tree_limit(p) ? Algorithm::kTree : Algorithm::kChain;
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

std::vector<CirculantRound> circulant_rounds(int p) {
  std::vector<CirculantRound> rounds;
  for (int open = p; open > 1;) {
    const int kept = (open + 1) / 2;
    rounds.push_back({kept, open - kept});
    open = kept;
  }
  return rounds;
}

std::int64_t elements_of(std::int64_t count, int parts, int first, int blocks) {
  const int begin = first % parts;
  const int end = begin + blocks;
  const auto until = [&](int block) {
    return block < parts ? chunk_of(count, parts, block).begin
                         : count + chunk_of(count, parts, block - parts).begin;
  };
  return until(end) - until(begin);
}

DoublingPlace doubling_place(int p, int index) {
  DoublingPlace place;
  place.core = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
  if (index >= place.core) place.partner = index - place.core;
  if (index + place.core < p) place.partner = index + place.core;
  return place;
}

namespace {

Traffic all_reduce_traffic(const Collective& c, Algorithm algorithm, int p, int index,
                           Reach reach) {
  Sum sum(c, p, reach);
  switch (algorithm) {
    case Algorithm::kDirect:
      return sum.block(c.count, p - 1).traffic();
    case Algorithm::kDoubling: {
      const DoublingPlace place = doubling_place(p, index);
      const int partners = place.in_core(index) ? rounds_of(place.core) : 0;
      return sum.block(c.count, partners + (place.partner >= 0 ? 1 : 0)).traffic();
    }
    case Algorithm::kCirculant: {
      Collective part = c;
      part.op = Op::kReduceScatter;
      Traffic both = traffic_of(part, p, index, reach);
      part.op = Op::kAllGather;
      return both += traffic_of(part, p, index, reach);
    }
    default:
      // Reducing leaves out the chunk that stays here. Gathering leaves out the chunk that arrives
      // last. An exchange sends the same chunks as a ring, each to its owner.
      return sum.chunks_but(index).chunks_but((index + 1) % p).traffic();
  }
}

Traffic circulant_traffic(const Collective& c, int p, int index, Reach reach) {
  Sum sum(c, p, reach);
  for (const CirculantRound& round : circulant_rounds(p)) {
    const int first = c.op == Op::kAllGather ? index : index + round.distance;
    sum.block(elements_of(c.count, p, first, round.blocks));
  }
  return sum.traffic();
}

}  // namespace

Traffic traffic_of(const Collective& c, int p, int index, Reach reach) {
  FOURFOLD_CHECK(index >= 0 && index < p);
  const Algorithm algorithm = algorithm_of(c, p);
  if (algorithm == Algorithm::kNone) return {};
  if (travels_in_f32(c, p)) return traffic_of(in_f32(c), p, index, reach);
  Sum sum(c, p, reach);
  switch (c.op) {
    case Op::kAllReduce:
      return all_reduce_traffic(c, algorithm, p, index, reach);
    case Op::kAllGather:
    case Op::kReduceScatter:
      if (algorithm == Algorithm::kCirculant) return circulant_traffic(c, p, index, reach);
      return sum.chunks_but(c.op == Op::kAllGather ? (index + 1) % p : index).traffic();
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
      return {Bytes(0), rounds_of(p)};
  }
  throw InvariantError("no such operation");
}

Traffic traffic_on_device(const Collective& c, int p, int index) {
  FOURFOLD_CHECK(index >= 0 && index < p);
  if (p == 1) return {};
  Sum sum(c, p);
  switch (c.op) {
    case Op::kAllReduce:
      return sum.chunks_but(index).chunks_but((index + 1) % p).traffic();
    case Op::kAllGather:
      return sum.chunks_but((index + 1) % p).traffic();
    case Op::kReduceScatter:
      return sum.chunks_but(index).traffic();
    case Op::kReduce:
      if (!sums_bf16(c)) return index == c.root ? Traffic{} : sum.block(c.count).traffic();
      sum.chunks_but(index);
      return index == c.root ? sum.traffic() : sum.chunk(index).traffic();
    case Op::kBroadcast: {
      const auto children = tree_place(Algorithm::kChain, p, c.root, index).children.size();
      return sum.block(c.count, static_cast<std::int64_t>(children)).traffic();
    }
    case Op::kSend:
      return sum.block(c.count).traffic();
    case Op::kRecv:
    case Op::kBarrier:  // a barrier has no buffers, so it never runs on a device
      return {};
  }
  throw InvariantError("no such operation");
}

}  // namespace fourfold::schedule
