// SPDX-License-Identifier: Apache-2.0
#include "fourfold/comm/thread/thread.hpp"

#include <deque>
#include <exception>
#include <limits>
#include <thread>

#include "fourfold/base/check.hpp"
#include "fourfold/comm/thread/hub.hpp"

namespace fourfold::comm::thread {

namespace {

/// Threads of one process are never slow to answer: a longer wait is a mistake, mostly a mismatch.
constexpr Seconds kThreadDeadline{30};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank, int per_host)
      : hub_(std::move(hub)), rank_(rank), per_host_(per_host > 0 ? per_host : hub_->size()) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  std::string host(int rank) const override {
    return per_host_ == size() ? "this process" : concat("host ", rank / per_host_);
  }
  int max_tag() const override { return std::numeric_limits<int>::max(); }

  Request send(std::span<const std::byte> data, int peer, int tag) override {
    Message& message = take(const_cast<std::byte*>(data.data()), data.size(), peer);
    hub_->post_send(message, tag);
    return {reinterpret_cast<std::uintptr_t>(&message)};
  }

  Request receive(std::span<std::byte> data, int peer, int tag) override {
    Message& message = take(data.data(), data.size(), peer);
    hub_->post_receive(message, tag);
    return {reinterpret_cast<std::uintptr_t>(&message)};
  }

  bool test(Request& request) override {
    auto* message = reinterpret_cast<Message*>(request.handle);
    const auto state = message->state.load(std::memory_order_acquire);
    if (state == Message::State::kPending) {
      hub_->throw_if_failed();
      return false;
    }
    request = {};
    count_completion();
    free_.push_back(message);
    if (state == Message::State::kWrongSize) {
      throw CommError(concat("a message between ranks ", rank_, " and ", message->peer, " has ",
                             message->bytes, " bytes here and ", message->other_bytes,
                             " there: they issue different operations"));
    }
    return true;
  }

  void send_control(const ControlMessage& message, int peer) override {
    hub_->send_control(message, peer);
  }
  std::optional<ControlMessage> receive_control() override { return hub_->receive_control(rank_); }

  bool needs_polling() const override { return false; }
  std::uint64_t activity() const override { return hub_->activity(rank_); }
  void idle(std::uint64_t seen, std::int64_t) override { hub_->await_activity(rank_, seen); }

  void check() override { hub_->throw_if_failed(); }
  bool tells_failures() const override { return true; }
  void withdraw(const std::string& reason) override { hub_->fail(rank_, reason); }
  void abort(const std::string& reason, int) override { hub_->fail(rank_, reason); }

 private:
  Message& take(std::byte* data, std::size_t bytes, int peer) {
    Message* message = nullptr;
    if (free_.empty()) {
      message = &messages_.emplace_back();
    } else {
      message = free_.back();
      free_.pop_back();
    }
    message->data = data;
    message->bytes = bytes;
    message->peer = peer;
    message->owner = rank_;
    message->state.store(Message::State::kPending, std::memory_order_relaxed);
    return *message;
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  int per_host_;
  std::deque<Message> messages_;
  std::vector<Message*> free_;
};

void run_rank(const std::shared_ptr<Hub>& hub, int rank, const std::function<void(World&)>& body,
              const Options& options) {
  set_this_rank(rank);
  Options own = options;
  if (!own.deadline) own.deadline = kThreadDeadline;
  World world(std::make_unique<ThreadTransport>(hub, rank, options.threads_per_host), own);
  try {
    body(world);
    world.leave();
  } catch (const std::exception& error) {
    world.abort(error.what(), 1);
    throw;
  }
}

}  // namespace

void run(int ranks, const std::function<void(World&)>& body, const Options& options) {
  FOURFOLD_CHECK(ranks >= 1);
  const auto hub = std::make_shared<Hub>(ranks);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto run_one = [&](int rank, const std::function<void()>& what) {
    try {
      what();
    } catch (const std::exception& error) {
      errors[static_cast<std::size_t>(rank)] = std::current_exception();
      hub->fail(rank, error.what());
    }
  };
  std::vector<std::jthread> threads;  // joined when they are destroyed
  for (int rank = 0; rank < ranks; ++rank) {
    // The machine may run out of threads. Then the other ranks must not wait for this one.
    run_one(rank, [&] {
      threads.emplace_back(
          [&, rank] { run_one(rank, [&] { run_rank(hub, rank, body, options); }); });
    });
  }
  threads.clear();
  if (!hub->failed()) return;
  std::rethrow_exception(errors[static_cast<std::size_t>(hub->culprit())]);
}

}  // namespace fourfold::comm::thread
