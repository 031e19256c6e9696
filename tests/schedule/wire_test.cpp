// What operations put on the wire: chunks, trees, and bytes and messages against known totals.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/schedule/wire.hpp"

#include <bit>
#include <cstdlib>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "fourfold/base/error.hpp"

namespace fourfold::test {
namespace {

using schedule::Algorithm;
using schedule::Collective;
using schedule::DType;
using schedule::Op;
using schedule::Priority;
using schedule::ReduceOp;
using schedule::Traffic;

constexpr std::int64_t kLarge = 5'000'011;  // a prime, far above every limit

std::int64_t segment(DType dtype, Priority priority = Priority::kUrgent) {
  return schedule::segments_of(priority).bytes.value() / schedule::size_of(dtype);
}

int ceil_log2(int p) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(p) - 1));
}

Traffic sum_over_ranks(const Collective& collective, int p) {
  Traffic sum;
  for (int i = 0; i < p; ++i) sum += schedule::traffic_of(collective, p, i);
  return sum;
}

TEST(Chunk, TilesAndIsBalanced) {
  for (std::int64_t count : {0, 1, 2, 7, 16, 17, 1000}) {
    for (int parts = 1; parts <= 17; ++parts) {
      std::int64_t end = 0;
      std::int64_t last_size = count;
      for (int i = 0; i < parts; ++i) {
        const auto chunk = schedule::chunk_of(count, parts, i);
        EXPECT_EQ(chunk.begin, end);
        EXPECT_GE(chunk.size(), count / parts);
        EXPECT_LE(chunk.size(), (count + parts - 1) / parts);
        EXPECT_LE(chunk.size(), last_size) << "larger ones come first";
        last_size = chunk.size();
        end = chunk.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

TEST(Chunk, OfCountsBeyondAnInt) {
  const std::int64_t count = (std::int64_t{1} << 40) + 3;
  EXPECT_EQ(schedule::chunk_of(count, 7, 6).end, count);
  EXPECT_EQ(schedule::chunk_of(count, 4, 3).size(), std::int64_t{1} << 38);
  EXPECT_EQ(schedule::chunk_of(count, 4, 0).size(), (std::int64_t{1} << 38) + 1);
}

/// How far `index` is from the root; -1 when it never gets there.
int depth_of(Algorithm algorithm, int p, int root, int index) {
  for (int depth = 0; depth <= p; ++depth) {
    if (index == root) return depth;
    index = schedule::tree_place(algorithm, p, root, index).parent;
    if (index < 0) return -1;
  }
  return -1;
}

/// Every rank but the root is exactly one rank's child, and parent and child agree.
void check_tree(Algorithm algorithm, int p, int root) {
  std::multiset<int> children;
  for (int i = 0; i < p; ++i) {
    const auto place = schedule::tree_place(algorithm, p, root, i);
    EXPECT_EQ(place.parent == -1, i == root);
    for (int child : place.children) {
      children.insert(child);
      EXPECT_EQ(schedule::tree_place(algorithm, p, root, child).parent, i);
    }
  }
  EXPECT_EQ(children.size(), static_cast<std::size_t>(p - 1));
  EXPECT_EQ(children.count(root), 0U);
  for (int i = 0; i < p; ++i) EXPECT_EQ(children.count(i), i == root ? 0U : 1U);
}

TEST(TreePlace, ReachesEveryRankOnce) {
  for (int p = 1; p <= 17; ++p) {
    for (int root = 0; root < p; ++root) {
      check_tree(Algorithm::kTree, p, root);
      check_tree(Algorithm::kChain, p, root);
    }
  }
}

TEST(TreePlace, BinomialTreeIsShallow) {
  for (int p = 1; p <= 17; ++p) {
    for (int root = 0; root < p; ++root) {
      for (int i = 0; i < p; ++i) {
        const int depth = depth_of(Algorithm::kTree, p, root, i);
        EXPECT_GE(depth, 0);
        EXPECT_LE(depth, ceil_log2(p)) << "p " << p << " root " << root << " index " << i;
      }
      EXPECT_LE(schedule::tree_place(Algorithm::kTree, p, root, root).children.size(),
                static_cast<std::size_t>(ceil_log2(p)));
    }
  }
}

TEST(TreePlace, ByHand) {
  const auto root = schedule::tree_place(Algorithm::kTree, 6, 2, 2);
  EXPECT_EQ(root.parent, -1);
  EXPECT_EQ(root.children, (std::vector<int>{3, 4, 0}));
  const auto inner = schedule::tree_place(Algorithm::kTree, 6, 2, 4);
  EXPECT_EQ(inner.parent, 2);
  EXPECT_EQ(inner.children, (std::vector<int>{5}));
  EXPECT_EQ(schedule::tree_place(Algorithm::kTree, 6, 2, 1).parent, 0);
}

TEST(TreePlace, ChainIsAChain) {
  for (int p = 1; p <= 17; ++p) {
    for (int root = 0; root < p; ++root) {
      std::set<int> depths;
      for (int i = 0; i < p; ++i) {
        EXPECT_LE(schedule::tree_place(Algorithm::kChain, p, root, i).children.size(), 1U);
        depths.insert(depth_of(Algorithm::kChain, p, root, i));
      }
      EXPECT_EQ(depths.size(), static_cast<std::size_t>(p));
      EXPECT_EQ(*depths.rbegin(), p - 1);
    }
  }
}

TEST(Traffic, RingBytesWhereTheRanksDivideTheCount) {
  for (int p = 2; p <= 9; ++p) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64}) {
      const std::int64_t count = 100'000 * p;
      const std::int64_t part = 100'000 * schedule::size_of(dtype) * (p - 1);
      for (int i = 0; i < p; ++i) {
        const auto bytes = [&](Op op) {
          return schedule::traffic_of({.op = op, .dtype = dtype, .count = count}, p, i)
              .bytes.value();
        };
        EXPECT_EQ(bytes(Op::kAllReduce), 2 * part);
        EXPECT_EQ(bytes(Op::kAllGather), part);
        EXPECT_EQ(bytes(Op::kReduceScatter), part);
      }
    }
  }
}

TEST(Traffic, TotalsWhereTheyDoNot) {
  const std::int64_t size = kLarge * 4;
  for (int p = 2; p <= 17; ++p) {
    const auto total = [&](Op op) {
      return sum_over_ranks({.op = op, .count = kLarge, .root = p - 1}, p).bytes.value();
    };
    EXPECT_EQ(total(Op::kAllReduce), 2 * (p - 1) * size);
    EXPECT_EQ(total(Op::kAllGather), (p - 1) * size);
    EXPECT_EQ(total(Op::kReduceScatter), (p - 1) * size);
    EXPECT_EQ(total(Op::kBroadcast), (p - 1) * size);
    EXPECT_EQ(total(Op::kReduce), (p - 1) * size);
  }
}

TEST(Traffic, EachRankOfAnIndivisibleRing) {
  // 10 elements on 4 ranks are chunks of 3, 3, 2, 2; gathering leaves the own chunk out.
  const auto sent = [](Op op, int index) {
    const Collective c{.op = op, .dtype = DType::kF64, .count = 10};
    return schedule::traffic_of(c, 4, index);
  };
  EXPECT_EQ(sent(Op::kReduceScatter, 0), (Traffic{Bytes(7 * 8), 3}));
  EXPECT_EQ(sent(Op::kReduceScatter, 3), (Traffic{Bytes(8 * 8), 3}));
  // Two elements on four ranks: the empty chunks are not sent.
  const Collective few{.op = Op::kReduceScatter, .dtype = DType::kF64, .count = 2};
  EXPECT_EQ(schedule::traffic_of(few, 4, 0), (Traffic{Bytes(8), 1}));
  EXPECT_EQ(schedule::traffic_of(few, 4, 3), (Traffic{Bytes(16), 2}));
}

TEST(Traffic, EachRankOfAnIndivisibleAllReduce) {
  // Chunks of 25001, 25001, 25001, 25000. Rank i does not send chunk i while reducing, nor the one
  // after it while gathering.
  const Collective c{.op = Op::kAllReduce, .dtype = DType::kF64, .count = 100'003};
  const std::vector<std::int64_t> kept = {50'002, 50'002, 50'001, 50'001};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(schedule::traffic_of(c, 4, i).bytes.value(),
              8 * (2 * c.count - kept[static_cast<std::size_t>(i)]));
  }
}

TEST(Traffic, BroadcastAndReduceSendEachByteOncePerEdge) {
  for (int p = 2; p <= 17; ++p) {
    for (int root = 0; root < p; ++root) {
      for (std::int64_t count : {std::int64_t{1}, segment(DType::kF32), kLarge}) {
        Collective c{.op = Op::kBroadcast, .count = count, .root = root};
        EXPECT_EQ(sum_over_ranks(c, p).bytes, c.payload() * (p - 1));
        c.op = Op::kReduce;
        EXPECT_EQ(sum_over_ranks(c, p).bytes, c.payload() * (p - 1));
        EXPECT_EQ(schedule::traffic_of(c, p, root), Traffic{});
      }
    }
  }
}

TEST(Traffic, DirectUpToTheLimitOnTheWire) {
  for (int p : {2, 3, 5, 7}) {
    const std::int64_t limit = schedule::kDirectLimit.value() / (p - 1) / 4;  // elements
    const Collective within{.op = Op::kAllReduce, .count = limit};
    const Collective beyond{.op = Op::kAllReduce, .count = limit + 1};
    EXPECT_EQ(schedule::algorithm_of(within, p), Algorithm::kDirect);
    EXPECT_EQ(schedule::algorithm_of(beyond, p), Algorithm::kRing);
    EXPECT_EQ(schedule::traffic_of(within, p, p - 1), (Traffic{within.payload() * (p - 1), p - 1}));
    EXPECT_LE(schedule::traffic_of(within, p, 0).bytes, schedule::kDirectLimit);
  }
  const Collective bf16{.op = Op::kAllReduce, .dtype = DType::kBF16, .count = 8};
  EXPECT_EQ(schedule::algorithm_of(bf16, 4), Algorithm::kDirect);
  const Collective empty{.op = Op::kAllReduce, .count = 0};
  EXPECT_EQ(schedule::traffic_of(empty, 4, 0), Traffic{});
}

TEST(Traffic, Bf16SumsAreExchangedWithTheBytesOfARing) {
  for (Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kReduce}) {
    const Collective sum{.op = op, .dtype = DType::kBF16, .count = kLarge};
    EXPECT_EQ(schedule::algorithm_of(sum, 4), Algorithm::kExchange);
    Collective max = sum;
    max.reduce = ReduceOp::kMax;
    EXPECT_EQ(schedule::algorithm_of(max, 4),
              op == Op::kReduce ? Algorithm::kChain : Algorithm::kRing);
    if (op == Op::kReduce) continue;
    for (int p = 2; p <= 9; ++p) {
      for (int i = 0; i < p; ++i) {
        EXPECT_EQ(schedule::traffic_of(sum, p, i), schedule::traffic_of(max, p, i));
      }
    }
  }
}

TEST(Traffic, Bf16ReduceGathersTheChunksAtTheRoot) {
  for (int p = 2; p <= 9; ++p) {
    const Collective c{.op = Op::kReduce, .dtype = DType::kBF16, .count = kLarge, .root = 1};
    const std::int64_t roots = schedule::chunk_of(kLarge, p, 1).size() * 2;
    EXPECT_EQ(sum_over_ranks(c, p).bytes.value(), p * kLarge * 2 - roots);
    EXPECT_EQ(schedule::traffic_of(c, p, 1).bytes.value(), kLarge * 2 - roots);
    EXPECT_EQ(schedule::traffic_of(c, p, 0).bytes.value(), kLarge * 2);
  }
}

TEST(Traffic, TreeForLittleDataChainForMore) {
  for (Priority priority : {Priority::kUrgent, Priority::kBackground}) {
    Collective c{.op = Op::kBroadcast, .priority = priority};
    c.count = schedule::kTreeLimit.value() / schedule::size_of(c.dtype);
    EXPECT_EQ(schedule::algorithm_of(c, 4), Algorithm::kTree);
    EXPECT_EQ(schedule::traffic_of(c, 4, 0).bytes, 2 * schedule::kTreeLimit);
    EXPECT_EQ(schedule::traffic_of(c, 4, 2).bytes, schedule::kTreeLimit);
    c.count += 1;
    EXPECT_EQ(schedule::algorithm_of(c, 4), Algorithm::kChain);
    EXPECT_EQ(schedule::traffic_of(c, 4, 0).bytes, c.payload());
    EXPECT_EQ(schedule::traffic_of(c, 4, 3).bytes, Bytes(0));
  }
}

TEST(Traffic, ReachChangesMessagesOnly) {
  for (Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast, Op::kReduce,
                Op::kSend}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Collective c{.op = op, .dtype = dtype, .count = 8 << 20};
      const auto host = schedule::traffic_of(c, 4, 1, schedule::Reach::kHost);
      const auto network = schedule::traffic_of(c, 4, 1, schedule::Reach::kNetwork);
      EXPECT_EQ(host.bytes, network.bytes) << op;
      EXPECT_LT(host.messages, network.messages) << op;
    }
  }
}

TEST(Traffic, MessagesAroundASegment) {
  for (Priority priority : {Priority::kUrgent, Priority::kBackground}) {
    const std::int64_t s = segment(DType::kF64, priority);
    const auto messages = [&](Op op, std::int64_t count, int p) {
      const Collective c{.op = op, .dtype = DType::kF64, .priority = priority, .count = count};
      return schedule::traffic_of(c, p, 0).messages;
    };
    EXPECT_EQ(messages(Op::kSend, 0, 2), 0);
    EXPECT_EQ(messages(Op::kSend, s - 1, 2), 1);
    EXPECT_EQ(messages(Op::kSend, s, 2), 1);
    EXPECT_EQ(messages(Op::kSend, s + 1, 2), 2);
    EXPECT_EQ(messages(Op::kAllGather, 3 * s, 3), 2);
    EXPECT_EQ(messages(Op::kAllGather, 3 * s + 1, 3), 3);  // the long chunk is the own one
    EXPECT_EQ(messages(Op::kAllGather, 3 * s + 2, 3), 3);  // that after it comes last, and stays
    EXPECT_EQ(messages(Op::kReduceScatter, 3 * s + 1, 3), 2);
    EXPECT_EQ(messages(Op::kAllReduce, 3 * s, 3), 4);
    EXPECT_EQ(messages(Op::kAllReduce, 6 * s, 3), 8);
  }
  EXPECT_LT(schedule::segments_of(Priority::kBackground).bytes,
            schedule::segments_of(Priority::kUrgent).bytes);
}

TEST(Traffic, PairsAndBarriers) {
  const Collective send{.op = Op::kSend, .count = 10, .root = 1};
  const Collective recv{.op = Op::kRecv, .count = 10, .root = 0};
  EXPECT_EQ(schedule::traffic_of(send, 3, 0), (Traffic{Bytes(40), 1}));
  EXPECT_EQ(schedule::traffic_of(recv, 3, 1), Traffic{});
  for (int p = 2; p <= 17; ++p) {
    EXPECT_EQ(schedule::traffic_of({.op = Op::kBarrier}, p, 0), (Traffic{Bytes(0), ceil_log2(p)}));
  }
}

TEST(Traffic, AGroupOfOneSendsNothing) {
  for (int op = 0; op <= static_cast<int>(Op::kBarrier); ++op) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      const Collective c{.op = static_cast<Op>(op), .dtype = dtype, .count = kLarge};
      EXPECT_EQ(schedule::algorithm_of(c, 1), Algorithm::kNone);
      EXPECT_EQ(schedule::traffic_of(c, 1, 0), Traffic{});
    }
  }
}

TEST(Traffic, RefusesAnIndexOutsideOfTheGroup) {
  EXPECT_THROW(schedule::traffic_of({}, 2, 2), InvariantError);
  EXPECT_THROW(schedule::traffic_of({}, 2, -1), InvariantError);
}

}  // namespace
}  // namespace fourfold::test
