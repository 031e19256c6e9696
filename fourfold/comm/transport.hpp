// Point-to-point messages between the ranks of the world. This is all that a backend has to
// provide; the algorithms are written once, above it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "fourfold/comm/position.hpp"

namespace fourfold::comm {

/// A message in flight. Only the backend that made it knows what `handle` is. 0 means none, or
/// done.
struct Request {
  std::uintptr_t handle = 0;
};

/// One rank's access to the other ranks. Not thread-safe, except for `idle` and `activity`: the
/// engine calls the other functions under its lock. Messages from one rank to another with one tag
/// arrive in the order in which they were sent.
class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The name of the host that a rank runs on.
  virtual std::string host(int rank) const = 0;

  /// Tags are 0 .. max_tag().
  virtual int max_tag() const = 0;

  /// The memory must not change until `test` says that the message is done.
  virtual Request send(std::span<const std::byte> data, int peer, int tag) = 0;
  virtual Request receive(std::span<std::byte> data, int peer, int tag) = 0;

  /// Advances messages, if they do not advance by themselves.
  virtual void poll() {}

  /// True when the last `poll` found the message done, or when it was done at once. The request is
  /// then gone. Throws CommError when the message failed, or when it had another size than the
  /// receiver expected.
  virtual bool test(Request& request) = 0;

  /// Control messages are independent of all other messages, and nobody waits for them.
  virtual void send_control(const ControlMessage& message, int peer) = 0;
  virtual std::optional<ControlMessage> receive_control() = 0;

  /// Whether messages only advance while `poll` is called.
  virtual bool needs_polling() const = 0;

  /// A number that changes when something may have happened. A caller reads it before polling and
  /// passes it to `idle`, so that `idle` does not sleep through an event in between.
  virtual std::uint64_t activity() const { return 0; }

  /// Rests for a moment after `rounds` polls in a row that found nothing.
  virtual void idle(std::uint64_t seen, std::int64_t rounds) = 0;

  /// The number of messages that `test` has found done so far. Any thread may call this.
  std::uint64_t completions() const { return completions_.load(std::memory_order_relaxed); }

  /// Says that this rank has failed. From now on no message touches its memory, and its requests
  /// are gone.
  virtual void withdraw(const std::string& reason) = 0;

  /// Ends the job on every rank with the exit status `status`. Where ranks are threads the call may
  /// return. Then every further call of every rank throws CommError with the reason.
  virtual void abort(const std::string& reason, int status) = 0;

  /// Throws CommError if another rank is known to have failed. A rank that only waits for its
  /// device learns it here.
  virtual void check() {}

  /// Whether `withdraw` and `abort` tell every other rank at once who failed first, and why.
  virtual bool tells_failures() const { return false; }

  /// Says that another rank ends the job. A process that is not ended from outside ends by itself
  /// within seconds, with the given status.
  virtual void expect_end(int) {}

  /// Collective. The engine calls it once, when all operations are done and no rank has failed.
  virtual void close() {}

 protected:
  void count_completion() { completions_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> completions_{0};
};

}  // namespace fourfold::comm
