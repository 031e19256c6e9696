// Little data over many ranks: which algorithm, in how many rounds, with which messages.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/schedule/wire.hpp"

namespace fourfold::test {
namespace {

using schedule::Algorithm;
using schedule::CirculantRound;
using schedule::Collective;
using schedule::DType;
using schedule::Op;
using schedule::ReduceOp;
using schedule::Traffic;

const std::vector<int> kManySizes = {8, 9, 12, 13, 16, 27, 31, 32, 64, 100, 1000, 1024};

TEST(Circulant, ByHand) {
  EXPECT_EQ(schedule::circulant_rounds(7), (std::vector<CirculantRound>{{4, 3}, {2, 2}, {1, 1}}));
  EXPECT_EQ(schedule::circulant_rounds(8), (std::vector<CirculantRound>{{4, 4}, {2, 2}, {1, 1}}));
  EXPECT_TRUE(schedule::circulant_rounds(1).empty());
}

TEST(Circulant, BringsEveryBlockToEveryRank) {
  for (int p = 1; p <= 130; ++p) {
    const auto rounds = schedule::circulant_rounds(p);
    EXPECT_EQ(static_cast<int>(rounds.size()), schedule::rounds_of(p));
    int held = 1;  // blocks that a rank has, from its own on, on the way of an all_gather
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
      EXPECT_EQ(round->distance, held) << "what arrives must follow what is there";
      EXPECT_LE(round->blocks, held) << "only what is there can be sent";
      held += round->blocks;
    }
    EXPECT_EQ(held, p);
  }
}

TEST(Circulant, CountsElementsAroundTheEnd) {
  for (const std::int64_t count : {0, 1, 5, 100}) {
    for (const int parts : {1, 2, 7}) {
      for (int first = 0; first < 2 * parts; ++first) {
        std::int64_t sum = 0;
        for (int blocks = 0; blocks <= parts; ++blocks) {
          EXPECT_EQ(schedule::elements_of(count, parts, first, blocks), sum);
          sum += schedule::chunk_of(count, parts, (first + blocks) % parts).size();
        }
      }
    }
  }
}

TEST(Doubling, PartnersAgree) {
  for (int p = 1; p <= 130; ++p) {
    for (int i = 0; i < p; ++i) {
      const auto place = schedule::doubling_place(p, i);
      EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(place.core)));
      EXPECT_LE(place.core, p);
      EXPECT_GT(2 * place.core, p);
      if (place.partner < 0) {
        EXPECT_TRUE(place.in_core(i));
        continue;
      }
      ASSERT_LT(place.partner, p);
      EXPECT_NE(place.in_core(i), place.in_core(place.partner));
      EXPECT_EQ(schedule::doubling_place(p, place.partner).partner, i);
    }
  }
}

TEST(Limits, GrowWithTheGroup) {
  EXPECT_EQ(schedule::kDoublingLimit, Bytes(2048));
  EXPECT_EQ(schedule::circulant_limit(8), Bytes(4 * 16384 / 7));
  EXPECT_EQ(schedule::circulant_limit(64), Bytes(57 * 16384 / 7));
  EXPECT_EQ(schedule::circulant_limit(1024), Bytes(1013 * 16384 / 7));
  EXPECT_EQ(schedule::tree_limit(2), schedule::kTreeLimit);
  EXPECT_EQ(schedule::tree_limit(4), schedule::kTreeLimit);
  EXPECT_EQ(schedule::tree_limit(64), Bytes(63 * 76 * 1024 / 5));
  EXPECT_EQ(schedule::tree_limit(1024), Bytes(1023 * 76 * 1024 / 9));
  for (int p = schedule::kManyRanks; p < 20000; ++p) {
    ASSERT_GT(schedule::circulant_limit(p), schedule::kDoublingLimit);
    ASSERT_GE(schedule::circulant_limit(p + 1), schedule::circulant_limit(p));
    ASSERT_LE(schedule::circulant_limit(p), schedule::tree_limit(p));
  }
}

Algorithm algorithm(Op op, DType dtype, Bytes payload, int p) {
  const Collective c{.op = op, .dtype = dtype, .count = payload.value() / schedule::size_of(dtype)};
  return schedule::algorithm_of(c, p);
}

TEST(Limits, ChooseTheAlgorithm) {
  const Bytes one(8);
  for (const int p : kManySizes) {
    const Bytes doubling = schedule::kDoublingLimit;
    EXPECT_EQ(algorithm(Op::kAllReduce, DType::kF64, Bytes(16), p), Algorithm::kDoubling);
    EXPECT_EQ(algorithm(Op::kAllReduce, DType::kF64, doubling, p), Algorithm::kDoubling);
    EXPECT_EQ(algorithm(Op::kAllReduce, DType::kF64, doubling + one, p), Algorithm::kCirculant);
    const Bytes limit = schedule::circulant_limit(p);
    for (const Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather}) {
      EXPECT_EQ(algorithm(op, DType::kF64, limit, p), Algorithm::kCirculant);
      EXPECT_EQ(algorithm(op, DType::kF64, limit + one, p), Algorithm::kRing);
    }
    for (const Op op : {Op::kBroadcast, Op::kReduce}) {
      EXPECT_EQ(algorithm(op, DType::kF64, schedule::tree_limit(p), p), Algorithm::kTree);
      EXPECT_EQ(algorithm(op, DType::kF64, schedule::tree_limit(p) + one, p), Algorithm::kChain);
    }
  }
}

TEST(Limits, SmallGroupsSendEverythingAtOnce) {
  for (int p = 2; p < schedule::kManyRanks; ++p) {
    EXPECT_EQ(algorithm(Op::kAllReduce, DType::kF64, Bytes(16), p), Algorithm::kDirect);
    EXPECT_EQ(algorithm(Op::kAllGather, DType::kF64, Bytes(16), p), Algorithm::kRing);
    EXPECT_EQ(algorithm(Op::kReduceScatter, DType::kBF16, Bytes(16), p), Algorithm::kExchange);
  }
}

TEST(Bf16, UnfinishedSumsTravelInF32) {
  for (const int p : kManySizes) {
    // Half of the limit, since an element is twice as long on its way.
    const Bytes half(schedule::circulant_limit(p).value() / 2);
    for (const Op op : {Op::kAllReduce, Op::kReduceScatter}) {
      EXPECT_EQ(algorithm(op, DType::kBF16, half, p), Algorithm::kCirculant);
      EXPECT_EQ(algorithm(op, DType::kBF16, half + Bytes(2), p), Algorithm::kExchange);
    }
    EXPECT_EQ(algorithm(Op::kReduce, DType::kBF16, half, p), Algorithm::kTree);
    EXPECT_EQ(algorithm(Op::kReduce, DType::kBF16, half + Bytes(2), p), Algorithm::kExchange);
    for (const Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kReduce}) {
      const Collective c{.op = op, .dtype = DType::kBF16, .count = 512};
      EXPECT_TRUE(schedule::travels_in_f32(c, p)) << op;
      EXPECT_EQ(schedule::traffic_of(c, p, 1), schedule::traffic_of(schedule::in_f32(c), p, 1));
      Collective max = c;
      max.reduce = ReduceOp::kMax;
      EXPECT_FALSE(schedule::travels_in_f32(max, p)) << "a maximum does not round";
    }
    EXPECT_FALSE(
        schedule::travels_in_f32({.op = Op::kAllGather, .dtype = DType::kBF16, .count = p}, p));
  }
  // Of an all_reduce by the circulant algorithm only the first half: 24 blocks of 64 elements.
  const Collective c{.op = Op::kAllReduce, .dtype = DType::kBF16, .count = 25 * 64};
  EXPECT_EQ(schedule::traffic_of(c, 25, 3), (Traffic{Bytes(24 * 64 * (4 + 2)), 10}));
}

TEST(Little, BytesAreThoseOfARing) {
  for (const int p : kManySizes) {
    for (const std::int64_t count : {std::int64_t{p}, std::int64_t{300}, std::int64_t{1170}}) {
      for (const Op op : {Op::kAllGather, Op::kReduceScatter}) {
        const Collective c{.op = op, .dtype = DType::kF64, .count = count};
        ASSERT_EQ(schedule::algorithm_of(c, p), Algorithm::kCirculant);
        Traffic sum;
        for (int i = 0; i < p; ++i) {
          const Traffic sent = schedule::traffic_of(c, p, i);
          EXPECT_LE(sent.messages, schedule::rounds_of(p));
          if (count % p == 0) {
            EXPECT_EQ(sent.bytes.value(), 8 * count / p * (p - 1));
          }
          sum += sent;
        }
        EXPECT_EQ(sum.bytes, c.payload() * (p - 1));
      }
    }
  }
}

/// The most that a rank sends, and the least.
struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool operator==(const Range&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Range& range) {
  return out << range.least << " to " << range.most;
}

Range messages(const Collective& c, int p) {
  Range range{schedule::traffic_of(c, p, 0).messages, 0};
  for (int i = 0; i < p; ++i) {
    const std::int64_t sent = schedule::traffic_of(c, p, i).messages;
    range = {std::min(range.least, sent), std::max(range.most, sent)};
  }
  return range;
}

// The table of docs/decisions/019-rounds.md.
TEST(Little, MessagesOfARank) {
  const Collective loss{.op = Op::kAllReduce, .dtype = DType::kF64, .count = 2};
  EXPECT_EQ(messages(loss, 2), (Range{1, 1}));
  EXPECT_EQ(messages(loss, 8), (Range{3, 3}));
  EXPECT_EQ(messages(loss, 64), (Range{6, 6}));
  EXPECT_EQ(messages(loss, 1024), (Range{10, 10}));
  EXPECT_EQ(messages(loss, 16384), (Range{14, 14}));
  EXPECT_EQ(messages(loss, 1000), (Range{1, 10}));  // 488 ranks outside of the core
  const Collective medium{.op = Op::kAllReduce, .count = 16 << 10};
  EXPECT_EQ(messages(medium, 8), (Range{14, 14}));  // a ring
  EXPECT_EQ(messages(medium, 64), (Range{12, 12}));
  EXPECT_EQ(messages(medium, 1024), (Range{20, 20}));
  EXPECT_EQ(messages(medium, 16384), (Range{28, 28}));
  const Collective gather{.op = Op::kAllGather, .count = 16 << 10};
  EXPECT_EQ(messages(gather, 64), (Range{6, 6}));
  EXPECT_EQ(messages(gather, 1024), (Range{10, 10}));
  EXPECT_EQ(messages(gather, 16384), (Range{14, 14}));
  for (const std::int64_t count : {4, 2 << 20}) {
    const Collective broadcast{.op = Op::kBroadcast, .count = count};
    const int segments = count > 4 ? 2 : 1;
    EXPECT_EQ(messages(broadcast, 1024), (Range{0, 10 * segments}));
    EXPECT_EQ(messages(broadcast, 16384), (Range{0, 14 * segments}));
  }
  EXPECT_EQ(messages({.op = Op::kBarrier}, 1024), (Range{10, 10}));
  EXPECT_EQ(messages({.op = Op::kBarrier}, 16384), (Range{14, 14}));
}

}  // namespace
}  // namespace fourfold::test
