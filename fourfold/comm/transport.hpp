// Point-to-point messages between the ranks of the world: all that a backend has to provide. The
// algorithms are written once, above it.
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

/// A message under way; the backend that made it knows what `handle` is. 0: none, or done.
struct Request {
  std::uintptr_t handle = 0;
};

/// One rank's access to the others. Not thread-safe, but for `idle` and `activity`: the engine
/// calls the rest under its lock. Messages from one rank to another with one tag arrive in the
/// order sent.
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

  /// The memory must stay as it is until `test` says the message is done.
  virtual Request send(std::span<const std::byte> data, int peer, int tag) = 0;
  virtual Request receive(std::span<std::byte> data, int peer, int tag) = 0;

  /// Moves messages along, if they do not move by themselves.
  virtual void poll() {}

  /// True, and the request is gone, when the last `poll` found the message done, or it was done at
  /// once. Throws CommError when it failed, or
  /// the message had another size than the receiver expected.
  virtual bool test(Request& request) = 0;

  /// Control messages pass outside of everything else and are never waited for.
  virtual void send_control(const ControlMessage& message, int peer) = 0;
  virtual std::optional<ControlMessage> receive_control() = 0;

  /// Whether messages only move while somebody calls `poll`.
  virtual bool needs_polling() const = 0;

  /// A number that changes when something may have happened. Read before polling and handed to
  /// `idle`, it makes sure that nothing is slept over.
  virtual std::uint64_t activity() const { return 0; }

  /// Rests for a moment after `rounds` polls in a row that moved nothing.
  virtual void idle(std::uint64_t seen, std::int64_t rounds) = 0;

  /// Messages that `test` has found done so far; any thread may ask.
  std::uint64_t completions() const { return completions_.load(std::memory_order_relaxed); }

  /// This rank has failed: from now on no message touches its memory, and its requests are gone.
  virtual void withdraw(const std::string& reason) = 0;

  /// Ends the job on every rank with that exit status. May return (ranks as threads): then every
  /// further call of every rank throws CommError with the reason.
  virtual void abort(const std::string& reason, int status) = 0;

  /// Whether `withdraw` and `abort` tell every other rank at once who failed first, and why.
  virtual bool tells_failures() const { return false; }

  /// Another rank ends the job: a process that nobody ends does so by itself, with that status,
  /// within seconds.
  virtual void expect_end(int) {}

  /// Called once when all operations are done and no rank has failed: collective.
  virtual void close() {}

 protected:
  void count_completion() { completions_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> completions_{0};
};

}  // namespace fourfold::comm
