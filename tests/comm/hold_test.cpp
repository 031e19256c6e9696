// While a rank waits for one operation of the network, its others are held back, but not stopped.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/world.hpp"
#include "fourfold/schedule/wire.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

/// Rank 0 of two on different hosts. Messages that it sends are gone at once; those that it
/// receives arrive when the test says so.
class Link final : public comm::Transport {
 public:
  struct Traffic {
    std::atomic<int> sent{0};
    std::atomic<int> arrived{0};
  };
  using ByLane = std::map<int, Traffic>;
  explicit Link(ByLane& traffic) : traffic_(traffic) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string host(int rank) const override { return concat("host ", rank); }
  int max_tag() const override { return 1 << 20; }
  comm::Request send(std::span<const std::byte>, int, int tag) override {
    ++traffic_.at(tag / kTagsPerLane).sent;
    return {1};
  }
  comm::Request receive(std::span<std::byte>, int, int tag) override {
    const int lane = tag / kTagsPerLane;
    return {static_cast<std::uintptr_t>(2 + lane + kLanes * asked_[lane]++)};
  }
  bool test(comm::Request& request) override {
    if (request.handle >= 2) {
      const auto number = static_cast<int>(request.handle) - 2;
      if (number / kLanes >= traffic_.at(number % kLanes).arrived) return false;
    }
    request = {};
    count_completion();
    return true;
  }
  void send_control(const comm::ControlMessage&, int) override {}
  std::optional<comm::ControlMessage> receive_control() override { return std::nullopt; }
  bool needs_polling() const override { return true; }
  void idle(std::uint64_t, std::int64_t) override {}
  void withdraw(const std::string&) override {}
  void abort(const std::string&, int) override {}

 private:
  static constexpr int kTagsPerLane = 8;
  static constexpr int kLanes = 3;  // the world has one of its own
  ByLane& traffic_;
  std::map<int, int> asked_;
};

void look_for_a_while() {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

TEST(Hold, OthersSendOneMessageAtATimeWhileComputeStandsStill) {
  const auto cut = schedule::segments_of(comm::Priority::kBackground, schedule::Reach::kNetwork);
  Link::ByLane traffic;
  for (const int lane : {0, 1, 2}) traffic[lane];
  comm::World world(std::make_unique<Link>(traffic), {});
  const auto behind = world.communicator(everyone(world));
  const auto needed = world.communicator(everyone(world));
  Link::Traffic& held = traffic.at(1);

  // One message after the other from its own chunk; the first window is on its way at once.
  const std::int64_t messages = 3 * cut.window;
  std::vector<float> mine(static_cast<std::size_t>(messages * cut.bytes.value() / 4));
  std::vector<float> all(2 * mine.size());
  auto work = behind.all_gather(comm::view(mine), comm::view(all), comm::Priority::kBackground);
  EXPECT_EQ(held.sent, cut.window);
  held.arrived = 1;
  look_for_a_while();
  EXPECT_EQ(held.sent, cut.window + 1) << "nobody waits: a message for a message";

  std::vector<float> one(64);
  auto sum = needed.all_reduce(comm::view(one));
  std::jthread compute([&] { sum.wait(); });
  look_for_a_while();
  held.arrived = cut.window;
  look_for_a_while();
  EXPECT_EQ(held.sent, cut.window + 1) << "there is one on its way";
  held.arrived = cut.window + 2;
  look_for_a_while();
  EXPECT_EQ(held.sent, cut.window + 3) << "held back, but not stopped";

  traffic.at(2).arrived = 1;
  compute.join();
  look_for_a_while();
  EXPECT_EQ(held.sent, std::min<std::int64_t>(messages, 2 * cut.window + 2));
  held.arrived = static_cast<int>(messages);
  work.wait();
  EXPECT_EQ(held.sent, messages);
}

// Rank 1 needs what rank 0 holds back before it issues what rank 0 waits for.
TEST(Hold, NeverLocks) {
  on_threads(2,
             [](comm::World& world) {
               const auto behind = world.communicator(everyone(world));
               const auto needed = world.communicator(everyone(world));
               std::vector<float> large(1 << 20, 1.F);
               std::vector<float> small(1 << 18, 1.F);
               auto sum = behind.all_reduce(comm::view(large), comm::ReduceOp::kSum,
                                            comm::Priority::kBackground);
               if (world.rank() == 1) sum.wait();
               needed.all_reduce(comm::view(small)).wait();
               sum.wait();
               EXPECT_EQ(large, std::vector<float>(large.size(), 2.F));
               EXPECT_EQ(small, std::vector<float>(small.size(), 2.F));
             },
             {.deadline = Seconds(60), .threads_per_host = 1});
}

}  // namespace
}  // namespace fourfold::test
