// Operations of up to a thousand ranks in one thread, on a network where every message takes one
// tick and all ranks move in between: results, messages of every rank, and steps in a row.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "fourfold/comm/operation.hpp"

#include "tests/comm/contract_values.hpp"

namespace fourfold::test {
namespace {

using comm::DType;
using comm::ReduceOp;
using comm::Request;
using schedule::Algorithm;
using schedule::Collective;
using schedule::Op;
using schedule::Traffic;

struct Message {
  std::vector<std::byte> data;
  std::int64_t sent = 0;
};

/// All messages there are, by sender and receiver, in the order sent.
struct Network {
  std::int64_t tick = 0;
  std::map<std::pair<int, int>, std::deque<Message>> links;
};

class LockstepTransport final : public comm::Transport {
 public:
  LockstepTransport(Network& network, int rank, int size)
      : network_(&network), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int) const override { return "here"; }
  int max_tag() const override { return 1; }
  Request send(std::span<const std::byte> data, int peer, int) override {
    network_->links[{rank_, peer}].push_back({{data.begin(), data.end()}, network_->tick});
    return {1};
  }
  Request receive(std::span<std::byte> data, int peer, int) override {
    receives_.push_back({data, peer});
    return {receives_.size() + 1};
  }
  /// Receives from one peer are tested in the order in which they were posted, as operations do.
  bool test(Request& request) override {
    if (request.handle > 1) {
      const auto& [data, peer] = receives_[request.handle - 2];
      std::deque<Message>& link = network_->links[{peer, rank_}];
      if (link.empty() || link.front().sent == network_->tick) return false;
      if (link.front().data.size() != data.size()) throw CommError("a message of another size");
      if (!data.empty()) std::memcpy(data.data(), link.front().data.data(), data.size());
      link.pop_front();
    }
    request = {};
    return true;
  }
  void send_control(const comm::ControlMessage&, int) override {}
  std::optional<comm::ControlMessage> receive_control() override { return std::nullopt; }
  bool needs_polling() const override { return true; }
  void idle(std::uint64_t, std::int64_t) override {}
  void withdraw(const std::string&) override {}
  void abort(const std::string&, int) override {}

 private:
  Network* network_;
  int rank_;
  int size_;
  std::vector<std::pair<std::span<std::byte>, int>> receives_;
};

struct Rank {
  Rank(Network& network, int index, int size) : transport(network, index, size) {
    group.axes = grid::Axis::kX;
    group.members.resize(static_cast<std::size_t>(size));
    std::iota(group.members.begin(), group.members.end(), 0);
    group.index = index;
  }

  grid::Group group;
  LockstepTransport transport;
  comm::ScratchPool scratch;
  Traffic sent;
  bool held = false;
  comm::OperationPtr operation;
};

/// How many messages follow each other, at most, when the operation's blocks are one message each.
int steps_of(const Collective& c, int p) {
  const int rounds = schedule::rounds_of(p);
  switch (schedule::algorithm_of(c, p)) {
    case Algorithm::kRing:
      return c.op == Op::kAllReduce ? 2 * (p - 1) : p - 1;
    case Algorithm::kDoubling:
      return p == 1 << rounds ? rounds : rounds + 1;
    case Algorithm::kCirculant:
      return c.op == Op::kAllReduce ? 2 * rounds : rounds;
    case Algorithm::kTree: {
      int depth = 0;  // a rank's is the number of bits of its distance from the root
      for (int i = 0; i < p; ++i) depth = std::max(depth, std::popcount(static_cast<unsigned>(i)));
      return depth;
    }
    case Algorithm::kRounds:
      return rounds;
    case Algorithm::kChain:
      return p - 1;
    default:
      return 1;
  }
}

template <class T>
class Lockstep {
 public:
  Lockstep(const Collective& collective, int p, schedule::Reach reach = schedule::Reach::kHost,
           bool held = false)
      : c_(collective), p_(p), reach_(reach) {
    for (int r = 0; r < p; ++r) {
      const bool part = c_.op == Op::kAllGather;
      const auto chunk = schedule::chunk_of(c_.count, p, r);
      const std::int64_t first = part ? chunk.begin : 0;
      in_.push_back(filled<T>(part ? chunk.size() : c_.count,
                              [&](std::int64_t i) { return value_at(r, i + first); }));
      const bool piece = c_.op == Op::kReduceScatter;
      out_.emplace_back(static_cast<std::size_t>(piece ? chunk.size() : c_.count));
      const bool in_place = c_.op == Op::kAllReduce || c_.op == Op::kBroadcast;
      if (in_place) out_.back() = in_.back();
      ranks_.emplace_back(network_, r, p);
    }
    for (int r = 0; r < p; ++r) {
      const auto at = static_cast<std::size_t>(r);
      Rank& rank = ranks_[at];
      rank.held = held;
      const comm::Port port(rank.transport, rank.group, reach, 0, rank.sent, rank.held);
      rank.operation = comm::make_operation(
          c_, comm::InOut{comm::view(in_[at]), comm::view(out_[at])}, port, rank.scratch);
    }
  }

  /// Returns the steps that it took; -1: it never ends.
  std::int64_t run() {
    std::int64_t open = p_;
    for (; open > 0; ++network_.tick) {
      for (Rank& rank : ranks_) {
        if (!rank.operation || !rank.operation->advance()) continue;
        EXPECT_EQ(rank.operation->awaited(), -1);
        rank.operation.reset();
        --open;
      }
      if (network_.tick > 10 * p_ + 10) return -1;
    }
    return network_.tick - 1;
  }

  void check() const {
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < c_.count; ++i) expected.push_back(expected_at(i));
    for (int r = 0; r < p_; ++r) {
      const auto at = static_cast<std::size_t>(r);
      ASSERT_EQ(ranks_[at].sent, schedule::traffic_of(c_, p_, r, reach_))
          << c_ << ", " << r << "/" << p_;
      if (c_.op == Op::kReduce && r != c_.root) continue;
      const std::int64_t first =
          c_.op == Op::kReduceScatter ? schedule::chunk_of(c_.count, p_, r).begin : 0;
      for (std::size_t i = 0; i < out_[at].size(); ++i) {
        const std::int64_t want = expected[i + static_cast<std::size_t>(first)];
        ASSERT_EQ(out_[at][i], from_int<T>(want)) << c_ << ", " << r << "/" << p_ << " at " << i;
      }
    }
    for (const auto& [link, messages] : network_.links) {
      EXPECT_TRUE(messages.empty()) << "nobody received what " << link.first << " sent";
    }
  }

 private:
  std::int64_t expected_at(std::int64_t i) const {
    if (c_.op == Op::kBroadcast) return value_at(c_.root, i);
    if (c_.op != Op::kAllGather) return reduced_at(p_, i, c_.reduce);
    int owner = 0;
    while (schedule::chunk_of(c_.count, p_, owner).end <= i) ++owner;
    return value_at(owner, i);
  }

  Collective c_;
  int p_;
  schedule::Reach reach_;
  Network network_;
  std::deque<Rank> ranks_;
  std::vector<Values<T>> in_;
  std::vector<Values<T>> out_;
};

template <class T>
void check_operation(Collective c, int p) {
  SCOPED_TRACE(p);
  c.dtype = comm::kDTypeOf<T>;
  Lockstep<T> lockstep(c, p);
  const std::int64_t steps = lockstep.run();
  EXPECT_LE(steps, steps_of(c, p)) << c << " on " << p;
  const bool folds = schedule::algorithm_of(c, p) == Algorithm::kDoubling;
  if (c.op != Op::kBarrier && c.count < p) {  // empty blocks are not sent, nor waited for
    EXPECT_EQ(steps > 0, c.count > 0) << c << " on " << p;
  } else if (folds) {  // what comes from outside of the core may arrive in time
    EXPECT_GE(steps, schedule::rounds_of(p)) << c << " on " << p;
  } else {
    EXPECT_EQ(steps, steps_of(c, p)) << c << " on " << p;
  }
  lockstep.check();
}

class LockstepOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LockstepOf,
                         testing::Values(2, 3, 5, 7, 8, 9, 11, 13, 16, 17, 27, 31, 64, 100));

TEST_P(LockstepOf, EveryOperationOnLittleData) {
  const int p = GetParam();
  const bool many = p >= schedule::kManyRanks;
  for (const Op op :
       {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast, Op::kReduce}) {
    for (const ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kMax}) {
      // Fewer elements than ranks, odd numbers of them, and a few hundred.
      for (const std::int64_t count : {0, 1, 2, 5, 129, 257, 511}) {
        const Collective c{.op = op, .reduce = reduce, .count = count, .root = p / 2};
        check_operation<double>(c, p);
        check_operation<float>(c, p);
        check_operation<std::int64_t>(c, p);
        // Small groups exchange bf16 in a number of steps that depends on the window.
        if (many || reduce == ReduceOp::kMax) check_operation<BFloat16>(c, p);
      }
    }
  }
}

TEST(Lockstep, AThousandRanks) {
  for (const int p : {1000, 1024}) {
    for (const Op op :
         {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kBroadcast, Op::kReduce}) {
      const Collective c{.op = op, .count = 2, .root = 3};
      check_operation<double>(c, p);
      Collective more = c;
      more.count = 300;
      check_operation<double>(more, p);
    }
    check_operation<float>({.op = Op::kAllReduce, .count = 3000}, p);
    check_operation<BFloat16>({.op = Op::kAllReduce, .count = 3000}, p);
  }
}

TEST(Lockstep, SeveralMessagesARound) {
  const int p = 128;
  for (const Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter}) {
    for (const bool held : {false, true}) {
      const Collective c{.op = op, .count = schedule::circulant_limit(p).value() / 4 - 13};
      ASSERT_EQ(schedule::algorithm_of(c, p), Algorithm::kCirculant);
      Lockstep<float> lockstep(c, p, schedule::Reach::kNetwork, held);
      EXPECT_GT(lockstep.run(), 0) << "it never ends";
      lockstep.check();
      EXPECT_GT(schedule::traffic_of(c, p, 0, schedule::Reach::kNetwork).messages,
                schedule::traffic_of(c, p, 0, schedule::Reach::kHost).messages);
    }
  }
}

TEST(Lockstep, LargeGroupsOfARingAreSlow) {
  // What the others are for: a few bytes above the limit.
  const Collective c{.op = Op::kAllGather, .count = schedule::circulant_limit(64).value() / 4 + 1};
  ASSERT_EQ(schedule::algorithm_of(c, 64), Algorithm::kRing);
  check_operation<float>(c, 64);
  Collective less = c;
  --less.count;
  check_operation<float>(less, 64);
}

TEST(Lockstep, Barrier) {
  for (const int p : {2, 3, 8, 9, 64, 1000, 1024}) check_operation<float>({.op = Op::kBarrier}, p);
}

}  // namespace
}  // namespace fourfold::test
