// Drives all operations of one rank. The engine queues them by lane, advances them from a progress
// thread or from the thread that waits, and finds out which rank is to blame when one does not end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fourfold/comm/court.hpp"
#include "fourfold/comm/lanes.hpp"
#include "fourfold/comm/observer.hpp"
#include "fourfold/comm/transport.hpp"

namespace fourfold::comm {

/// How long a wait may last by default.
inline constexpr Seconds kDeadline{600};

struct Options {
  /// A wait that takes longer ends the job, unless the wait is for announced long work. If unset,
  /// the deadline is kDeadline, or 30 seconds where ranks are threads.
  std::optional<Seconds> deadline{};
  /// How long the other ranks have to answer before they count as silent.
  Seconds answer_time{3};
  /// How long ranks that are processes may take to join each other before the first rank reports
  /// it.
  Seconds start_time{60};
  /// Whether the report of a failed rank includes the details of the error, such as a stack.
  bool verbose = false;
  /// Where ranks are threads: how many of them count as one host; 0 means all.
  int threads_per_host = 0;
};

class Engine {
 public:
  /// Reports to `observers` when operations end. They must outlive the engine.
  Engine(std::unique_ptr<Transport> transport, const Options& options, const Observers& observers);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Finishes the operations under way and leaves the world, unless the engine has failed.
  ~Engine();

  const Transport& transport() const { return *transport_; }
  Seconds deadline() const { return deadline_.load(); }

  /// See World: the numbers keep the messages of a lane apart from those of other lanes. Throws
  /// CommError when the backend has too few tags.
  int reserve_lanes(int count);
  Lane& add_lane(const grid::Group& group, int number, int purpose = 0);

  /// Hands the operation to its lane, and starts it if its queue is empty. Several buffers are
  /// several tensors of one operation. `of_rank` is its number for observers.
  IssuedPtr submit(Lane& lane, const schedule::Collective& collective, Buffers&& buffers,
                   std::int64_t of_rank);

  /// Returns when the operation is done, and advances all operations meanwhile. Says how long the
  /// caller was blocked, or nothing if the operation was done before. Throws CommError when a rank
  /// failed or the deadline passed.
  std::optional<Blocked> wait(const IssuedPtr& issued);

  /// True when the operation is done. Advances all operations once.
  bool test(const IssuedPtr& issued);

  /// Ends the job on all ranks.
  void abort(const std::string& reason, int status);

  /// Gives up: drops all operations under way; every later call throws CommError. Returns true on
  /// the one rank that is to report why the job ends, which is the lowest of the ranks that gave up
  /// first.
  bool fail(const std::string& reason, int status = 1);

  /// Announces that until `end_long_work` this rank does work that may take longer than any
  /// deadline. Long work may be nested.
  void begin_long_work(const std::string& what);
  void end_long_work();

  /// See World.
  void rest_at_most(Seconds rest);
  void suspect_after(Seconds wait);

  // What the engine does for operations that a device carries out (device_engine.hpp).

  /// From now on `device` is told of lanes and invitations, until `detach`.
  void attach(Device& device);
  void detach();
  /// Gives the operation its number in its lane, and lists it there until `leave`.
  void enter(const IssuedPtr& issued);
  void leave(const IssuedPtr& issued);
  void invite(const Invitation& invitation, int rank);
  /// Returns when `ready` returns true, and answers other ranks meanwhile. `issued` is the
  /// operation that cannot be given to the device before. Throws as `wait` does.
  void await(const IssuedPtr& issued, const std::function<bool()>& ready);
  /// Says which operation the device has been at since that time, or null. If that is longer than
  /// the deadline, finds out why; the engine may then have failed.
  void watch(const IssuedPtr& oldest, Seconds since);
  bool has_failed() const { return failed_; }
  void throw_if_it_failed() const;

  std::int64_t scratch_peak_bytes() const;
  /// The number of control messages that this rank has sent so far.
  std::int64_t control_messages() const;

 private:
  void run_progress();
  bool park();
  bool should_wake() const;
  /// Runs the step. If the step throws, the engine has failed. Does nothing once the engine has
  /// failed.
  template <class Step>
  void attempt(const Step& step);
  bool poll(bool look_for_questions);
  void drive(std::unique_lock<std::mutex>& lock, const Issued& issued, Seconds since);
  void advance(Queue& queue);
  void hold_back();
  void finish(Issued& issued);
  enum class Cause : std::uint8_t { kOwn, kPeer };
  void fail_locked(const std::string& reason, Cause cause, int status = 1);
  int agree_who_ends(Cause cause, int status);
  void throw_if_failed(const Issued* issued = nullptr) const;
  void send_control(const ControlMessage& message, int peer);
  void answer_control();
  void answer(const ControlMessage& message);
  void rule_claims();
  int claim(Right right, int order, std::unique_lock<std::mutex>* lock, const Issued* until);
  void release_right_to_ask();
  void send_to_arbiter(const ControlMessage& message, int arbiter);
  Seconds until_answered(std::size_t asked, Seconds apart) const;
  Position position_in(int lane) const;
  Place place_of(const Issued& issued) const;
  int awaited_rank(const Issued& issued) const;
  /// Returns the time at which to look again.
  Seconds past_deadline(std::unique_lock<std::mutex>& lock, const Issued& issued, Seconds since);
  void ask_all(std::unique_lock<std::mutex>& lock, const Issued& issued);
  Finding finding_of(const Issued& issued, Seconds since, const std::vector<int>& members) const;
  bool is_done(const Issued& issued) const;

  std::unique_ptr<Transport> transport_;
  const Options options_;
  const Observers* observers_;
  std::atomic<Seconds> deadline_;

  mutable std::mutex mutex_;  // guards everything below
  ScratchPool scratch_;
  Lanes lanes_;
  std::vector<Queue*> active_;  // the queues that are not empty
  std::optional<std::string> failure_;
  struct Wait {
    IssuedPtr issued;
    Seconds since;
  };
  std::vector<Wait> waits_;          // the operations that compute waits for
  std::optional<Wait> launching_;    // the operation that cannot be given to the device yet
  std::optional<Wait> device_wait_;  // the operation that the device is at
  Seconds device_due_;               // when to look into it
  Device* device_ = nullptr;
  std::vector<Invitation> invitations_;  // that came before the device
  bool asking_ = false;                  // a thread of this rank looks into a wait
  std::vector<FixedText> long_works_;    // the innermost is the last
  Seconds long_work_ended_ = Seconds() - Position::kNever;
  bool holding_ = false;                 // some operations are held back
  std::array<Court, kRights> courts_;    // used where this rank is the arbiter
  std::array<int, kRights> verdicts_{};  // who has the right, by the newest claim; -1: open
  std::vector<int> claimed_from_;        // the arbiters of the newest claim of the right to ask
  int ender_ = -1;                       // the rank that says why the job ends
  std::int64_t query_ = 0;               // the number of this rank's newest query
  std::vector<int> silent_;              // ranks that did not answer when this rank gave up
  std::vector<std::optional<Position>> answers_;
  std::int64_t control_messages_ = 0;
  bool parked_ = false;  // the progress thread needs a notification to look
  std::condition_variable wake_;

  static constexpr std::chrono::nanoseconds kLongestRest = std::chrono::milliseconds(4);
  // The progress thread reads these without the lock, so that it does not disturb a waiting thread.
  std::atomic<int> waiting_{0};
  std::atomic<bool> busy_{false};  // active_ is not empty
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};  // failure_ has a value
  std::atomic<std::chrono::nanoseconds> longest_rest_{kLongestRest};
  std::atomic<Seconds> suspicion_;  // after a wait of so long the other ranks are asked

  std::thread progress_;
};

template <class Step>
void Engine::attempt(const Step& step) {
  // After a failure the transport is not called any more: it must not touch buffers that may be
  // gone.
  if (failure_) return;
  try {
    step();
  } catch (const std::exception& error) {
    fail_locked(error.what(), Cause::kPeer);
  }
}

}  // namespace fourfold::comm
