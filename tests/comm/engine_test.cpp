// The engine on a transport that misbehaves.
// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/engine.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "fourfold/comm/world.hpp"

#include "tests/support/ranks.hpp"

namespace fourfold::test {
namespace {

/// Rank 0 of two, whose messages never arrive.
class BadTransport final : public comm::Transport {
 public:
  struct Behaviour {
    std::atomic<bool> throw_error{false};      ///< from receive_control
    std::atomic<bool> throw_bad_alloc{false};  ///< from poll
    std::atomic<int> calls{0};
    std::atomic<int> withdrawn{0};
  };
  explicit BadTransport(Behaviour& behaviour) : behaviour_(behaviour) {}

  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string host(int) const override { return "nowhere"; }
  int max_tag() const override { return 1 << 20; }
  comm::Request send(std::span<const std::byte>, int, int) override { return {1}; }
  comm::Request receive(std::span<std::byte>, int, int) override { return {2}; }
  bool test(comm::Request&) override { return false; }
  void poll() override {
    ++behaviour_.calls;
    if (behaviour_.throw_bad_alloc) throw std::bad_alloc();
  }
  void send_control(const comm::ControlMessage&, int) override { ++behaviour_.calls; }
  std::optional<comm::ControlMessage> receive_control() override {
    ++behaviour_.calls;
    if (behaviour_.throw_error) throw CommError("the cable is cut");
    return std::nullopt;
  }
  bool needs_polling() const override { return true; }
  void idle(std::uint64_t, std::int64_t) override {}
  void withdraw(const std::string&) override { ++behaviour_.withdrawn; }
  void abort(const std::string&, int) override {}

 private:
  Behaviour& behaviour_;
};

class BadEngine : public testing::Test {
 protected:
  BadTransport::Behaviour behaviour_;
  comm::World world_{std::make_unique<BadTransport>(behaviour_), {}};
  const comm::Communicator comm_ = world_.communicator(everyone(world_));
  std::vector<float> data_ = std::vector<float>(100);
};

TEST_F(BadEngine, ErrorOnTheProgressThreadReachesTheWait) {
  auto work = comm_.all_reduce(comm::view(data_));
  behaviour_.throw_error = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_THROW(work.wait(), CommError);
  EXPECT_THROW(comm_.barrier(), CommError);
  EXPECT_GE(behaviour_.withdrawn, 1);
}

TEST_F(BadEngine, AnyExceptionInAWaitFailsTheEngine) {
  auto work = comm_.all_reduce(comm::view(data_));
  behaviour_.throw_bad_alloc = true;
  EXPECT_THROW(work.wait(), CommError);
  EXPECT_THROW(comm_.barrier(), CommError);
}

TEST_F(BadEngine, LeavesTheTransportAloneAfterAFailure) {
  auto work = comm_.all_reduce(comm::view(data_));
  behaviour_.throw_error = true;
  EXPECT_THROW(work.wait(), CommError);
  behaviour_.throw_error = false;
  const int calls = behaviour_.calls;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(behaviour_.calls, calls);
}

}  // namespace
}  // namespace fourfold::test
